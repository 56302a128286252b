"""The two commands where 0.0.1a4 takes flags for what they are not, loses work or stops with a traceback."""

import argparse
import contextlib
import io
import os
import runpy
import sys

import torch
from corpus import write_pairs
from observe import attempt

import bert_pytorch
from bert_pytorch.__main__ import train
from bert_pytorch.dataset.vocab import build

SMALL = "-c corpus.txt -v word.vocab -hs 6 -l 1 -a 3 -s 17 -b 5 -e 1 -w 0".split()


def run(command, argv):
    """What the command returns or raises; its words on the two streams are left aside."""
    sys.argv = ["command", *argv]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return attempt(command)


def parsed(*argv):
    """The settings that `bert` takes from a command line."""
    original, seen = argparse.ArgumentParser.parse_known_args, []

    def spy(self, *arguments):
        seen.append(original(self, *arguments)[0])
        raise KeyError("seen")

    argparse.ArgumentParser.parse_known_args = spy
    try:
        outcome = run(train, [*SMALL, "-o", "none.model", *argv])
    finally:
        argparse.ArgumentParser.parse_known_args = original
    return [seen[0].with_cuda, seen[0].on_memory] if seen else outcome


def order_of_examples():
    """The indices in the order in which the model sees them in one epoch of `bert`, told by their lengths."""
    model_class, order = bert_pytorch.BERT, []
    original = model_class.forward

    def spy(self, x, *arguments):
        # Up to the last token: 0.0.1a4 may swap a word for padding within a text.
        order.extend(((x != 0) * torch.arange(1, x.size(1) + 1)).max(1).values.sub(5).tolist())
        return original(self, x, *arguments)

    with open("corpus.txt", encoding="utf-8") as file:
        word = file.read().split()[0]
    write_pairs("order.txt", [(" ".join([word] * n), word) for n in range(1, 14)])
    model_class.forward = spy
    try:
        run(train, ["-c", "order.txt", *SMALL[2:], "-o", "order.model"])
    finally:
        model_class.forward = original
    return order


def weights(path):
    content = torch.load(path, weights_only=False)
    state = content["model"] if isinstance(content, dict) else content.state_dict()
    return {name: value for name, value in state.items() if "embedding.token" in name}


def same_run_twice():
    states = []
    for name in ("first", "second"):
        run(train, [*SMALL, "-o", f"{name}.model"])
        states.append(weights(f"{name}.model.ep0"))
    return [all(torch.equal(value, states[1][name]) for name, value in states[0].items()), len(states[0])]


def last_words():
    """The last line that `bert-vocab` leaves on stdout."""
    sys.argv = ["bert-vocab", "-c", "corpus.txt", "-o", "again.vocab"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        build()
    return out.getvalue().splitlines()[-1]


def see():
    write_pairs("corpus.txt")
    run(build, ["-c", "corpus.txt", "-o", "word.vocab"])
    with open("bad.txt", "w") as file:
        file.write("the fox\ta dog\nthe fox \\t a dog\n")
    sys.argv = ["bert", "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        outcome = attempt(lambda: runpy.run_module("bert_pytorch", run_name="__main__") and "no help")
    module = {"outcome": outcome, "help": "--train_dataset" in out.getvalue()}
    return {
        "module": module,
        "booleans": {word: parsed("--with_cuda", word, "--on_memory", word) for word in ("True", "False", "no", "0")},
        "junk": parsed("--with_cuda", "perhaps"),
        "order": order_of_examples(),
        "same run twice": same_run_twice(),
        "folder is made": [run(train, [*SMALL, "-o", "deep/bert.model"]), os.path.isfile("deep/bert.model.ep0")],
        "vocabulary missing": run(train, [*SMALL, "-v", "missing.vocab", "-o", "none.model"]),
        "corpus missing": run(build, ["-c", "missing.txt", "-o", "none.vocab"]),
        "bad line": run(train, [*SMALL, "-c", "bad.txt", "-o", "none.model"]),
        "no effect": run(train, [*SMALL, "-o", "cuda.model", "--with_cuda", "0", "--cuda_devices", "0"]),
        "seq_len 3": run(train, [*SMALL, "-s", "3", "-o", "short.model"]),
        "min_freq 0": run(build, ["-c", "corpus.txt", "-o", "none.vocab", "-m", "0"]),
        "vocab_size 0": run(build, ["-c", "corpus.txt", "-o", "none.vocab", "-s", "0"]),
        "no word left": run(build, ["-c", "corpus.txt", "-o", "none.vocab", "-m", "1009"]),
        "beginning": run(train, [*SMALL[:-4], "--e", "1", "-w", "0", "-o", "beginning.model"]),
        "last words": last_words(),
    }
