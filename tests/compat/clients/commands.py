"""`bert` and `bert-vocab` by the functions their console scripts call, with every flag of 0.0.1a4, short and long."""

import argparse
import os
import sys
from importlib.metadata import PackageNotFoundError, distribution

import commands_faults
from corpus import write_pairs
from observe import attempt, finish

from bert_pytorch.__main__ import train
from bert_pytorch.dataset import WordVocab
from bert_pytorch.dataset.vocab import build

TRAIN_SHORT = "-c corpus.txt -t corpus.txt -v word.vocab -o short.model -hs 6 -l 2 -a 3 -s 17 -b 5 -e 1 -w 0".split()
TRAIN_LONG = (
    "--train_dataset corpus.txt --test_dataset corpus.txt --vocab_path word.vocab --output_path long.model --hidden 6 "
    "--layers 2 --attn_heads 3 --seq_len 17 --batch_size 5 --epochs 2 --num_workers 0 --with_cuda True --log_freq 3 "
    "--corpus_lines 13 --cuda_devices 0 --on_memory True --lr 0.005 --adam_weight_decay 0.02 --adam_beta1 0.8 --adam_beta2 0.99"
).split()
TRAIN_LEAST = ["-c", "corpus.txt", "-v", "word.vocab", "-o", "least.model"]
BUILD_SHORT = "-c latin.txt -o short.vocab -s 3 -e latin-1 -m 2".split()
BUILD_LONG = "--corpus_path latin.txt --output_path long.vocab --vocab_size 3 --encoding latin-1 --min_freq 2".split()
BUILD_LEAST = ["-c", "corpus.txt", "-o", "word.vocab"]


class Parsed(Exception):
    """Carries a command's parser out of it, before any work is done."""


def parser_of(command, argv):
    """The argument parser that a command makes for itself."""
    original = argparse.ArgumentParser.parse_known_args

    def stop(self, *_):
        raise Parsed(self)

    argparse.ArgumentParser.parse_known_args = stop
    try:
        run(command, argv)
    except Parsed as parsed:
        return parsed.args[0]
    finally:
        argparse.ArgumentParser.parse_known_args = original


def run(command, argv):
    sys.argv = ["command", *argv]
    return command()


def flags(parser):
    return {
        action.dest: {
            "flags": action.option_strings,
            "default": action.default,
            "required": action.required,
            "nargs": action.nargs,
        }
        for action in parser._actions
        if action.dest != "help"
    }


def accepted_beginnings(parser):
    """The beginnings of long flags that stand for the whole flag."""
    known = parser._option_string_actions
    beginnings = {flag[:n] for flag in known if flag.startswith("--") and flag != "--help" for n in range(3, len(flag))}
    return sorted(word for word in beginnings if sum(flag.startswith(word) for flag in known) == 1 and word not in known)


def parsers():
    cases = {"bert": (train, TRAIN_LEAST, TRAIN_SHORT, TRAIN_LONG), "bert-vocab": (build, BUILD_LEAST, BUILD_SHORT, BUILD_LONG)}
    seen = {}
    for name, (command, least, short, long) in cases.items():
        parser = parser_of(command, least)
        values = {style: vars(parser.parse_args(argv)) for style, argv in (("least", least), ("short", short), ("long", long))}
        seen[name] = {"flags": flags(parser), "beginnings": accepted_beginnings(parser), **values}
    return seen


def console_scripts():
    """The commands that the installed package declares; none where it runs from its source folder."""
    try:
        points = distribution("bert-pytorch").entry_points
    except PackageNotFoundError:
        return {}
    return {point.name: point.value for point in points if point.group == "console_scripts"}


def files(prefix):
    return sorted(name for name in os.listdir() if name.startswith(prefix))


def main():
    write_pairs("corpus.txt")
    write_pairs("latin.txt", [("caf\xe9 fox ", " fox fox"), ("dog caf\xe9 ", " cat")], encoding="latin-1")
    done = {
        "build least": run(build, BUILD_LEAST) or 0,
        "build short": run(build, BUILD_SHORT) or 0,
        "build long": run(build, BUILD_LONG) or 0,
        "train short": run(train, TRAIN_SHORT) or 0,
        "train long": run(train, TRAIN_LONG) or 0,
    }
    finish(
        {
            "done": done,
            "vocabularies": {name: WordVocab.load_vocab(f"{name}.vocab").itos for name in ("word", "short", "long")},
            "files": files("short.model") + files("long.model"),
            "parsers": parsers(),
            "console scripts": console_scripts(),
            "flag missing": attempt(lambda: run(train, TRAIN_LEAST[2:])),
            "flag unknown": attempt(lambda: run(build, [*BUILD_LEAST, "--unheard"])),
            "no number": attempt(lambda: run(train, [*TRAIN_LEAST, "-hs", "many"])),
            "faults": commands_faults.see(),
        }
    )


if __name__ == "__main__":
    main()
