#!/usr/bin/env python3
"""Lines a second from a corpus to a saved vocabulary of words, beside bert-pytorch 0.0.1a4 and the tokenizers library.

Ours is the function of the command `bert-vocab`; bert-pytorch's is that of its command; tokenizers trains its WordLevel model,
split at white space, from the file: all without their imports. Sides run in turn, round by round, each in a process of its own
on all cores; the figures are medians, and only the ratios count. Memory is that of a side's processes together, at its peak
(Linux). The last line is JSON.

    python benchmarks/compare_vocab.py --ancestor FOLDER [--corpus FILE] [--rounds 5]

FOLDER holds the package `bert_pytorch` 0.0.1a4 (`pip install --no-deps --target FOLDER bert-pytorch==0.0.1a4`); `tokenizers` is
taken from this environment. A side that is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
SIDES = ("ours", "bert-pytorch", "tokenizers")
SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


def write_corpus(path: Path, n_bytes: int, n_types: int, seed: int = 1) -> None:
    """Pairs of texts of 4 to 16 words as frequent as English ones, about as long, the commonest the shortest.

    The frequency falls with the rank, from rank 6,000 on with its square: the commonest 10, 100, 1,000 and 5,000 words make up
    29, 51, 73 and 89 % of the text; in the King James Bible 27, 57, 81 and 93 %.

    Source: Ferrer i Cancho and Sole, Two regimes in the frequency of words, 2001.
    """
    draws = random.Random(seed)
    weights = [1 / (i + 1) ** 0.5 for i in range(len(LETTERS))]
    words: dict[str, None] = {}
    while len(words) < n_types:
        length = min(14, max(1, int(draws.gauss(3 + len(words) ** 0.15, 2))))
        words["".join(draws.choices(LETTERS, weights, k=length))] = None
    ranked, shares = list(words), [1 / rank * min(1, 6000 / rank) for rank in range(1, n_types + 1)]
    cumulated = list(itertools.accumulate(shares))
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        while file.tell() < n_bytes:
            texts = (" ".join(draws.choices(ranked, cum_weights=cumulated, k=draws.randint(4, 16))) for _ in range(2000))
            file.writelines(f"{first}\t{second}\n" for first, second in zip(texts, texts, strict=True))


def build_ours(corpus: str, output: str) -> int:
    """The work of `bert-vocab -c CORPUS -o OUTPUT`."""
    from bert_pytorch.cli import vocab_parser
    from bert_pytorch.pipeline import build_vocabulary

    report = build_vocabulary(vocab_parser().parse(["-c", corpus, "-o", output]))
    return int(str(report["vocab_size"]))


def build_ancestor(corpus: str, output: str) -> int:
    """As the function `build` of its command, which reads the command line."""
    from bert_pytorch.dataset import WordVocab

    with open(corpus, encoding="utf-8") as lines:
        vocab = WordVocab(lines)
    vocab.save_vocab(output)
    return len(vocab)


def build_tokenizers(corpus: str, output: str) -> int:
    """A WordLevel model of all words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordLevelTrainer(vocab_size=1 << 30, special_tokens=SPECIALS, show_progress=False)
    tokenizer.train([corpus], trainer)
    tokenizer.save(output)
    return tokenizer.get_vocab_size()


def import_side(side: str) -> None:
    """Import what a side needs, before its clock starts."""
    if side == "ours":
        sys.path.insert(0, str(SOURCE))
        for name in ("cli", "pipeline", "dataset.counting", "dataset.vocab"):
            importlib.import_module(f"bert_pytorch.{name}")
    elif side == "bert-pytorch":
        importlib.import_module("bert_pytorch.dataset")
    elif side == "tokenizers":
        importlib.import_module("tokenizers")


def measure(side: str, corpus: str, output: str) -> dict[str, float]:
    """Seconds from the file to the saved vocabulary."""
    builders = {"ours": build_ours, "bert-pytorch": build_ancestor, "tokenizers": build_tokenizers}
    import_side(side)
    began = time.perf_counter()
    size = builders[side](corpus, output)
    return {"seconds": time.perf_counter() - began, "vocab_size": size}


def resident_bytes(process: int) -> int:
    """Memory of a process and all below it; 0 where the system does not tell."""
    total = 0
    try:
        total += int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            total += sum(resident_bytes(int(child)) for child in children.read_text(encoding="ascii").split())
    except (OSError, IndexError):
        pass
    return total


def run_apart(side: str, corpus: Path, folder: Path, ancestor: str | None) -> dict[str, float]:
    """This script again, in a process of its own, watched; what it prints last, and its peak memory."""
    environment = dict(os.environ)
    if side == "bert-pytorch" and ancestor:
        environment["PYTHONPATH"] = os.pathsep.join([ancestor, os.environ.get("PYTHONPATH", "")])
    arguments = [sys.executable, __file__, "--measure", side, str(corpus), str(folder / f"{side}.vocab")]
    with open(folder / "stderr", "w+b") as errors:
        process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident_bytes(process.pid))
            time.sleep(0.05)
        out, _ = process.communicate()
        errors.seek(0)
        if process.returncode:
            raise SystemExit(f"{side}: {errors.read()[-2000:].decode(errors='replace')}")
    return {**json.loads(out.splitlines()[-1]), "peak_memory_bytes": peak}


def is_there(side: str, ancestor: str | None) -> bool:
    """Whether a side can run here."""
    if side == "bert-pytorch":
        return ancestor is not None
    return side == "ours" or importlib.util.find_spec(side) is not None


def compare(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """All sides in turn."""
    corpus = Path(args.corpus) if args.corpus else folder / "corpus.txt"
    if not args.corpus:
        write_corpus(corpus, args.megabytes * 10**6, args.types)
    with open(corpus, "rb") as file:
        n_lines = sum(1 for _ in file)
    sides = [side for side in SIDES if is_there(side, args.ancestor)]
    for side in [each for each in SIDES if each not in sides]:
        print(f"{side}: not there, left out", file=sys.stderr)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(args.rounds):
        for side in sides:
            runs[side].append(run_apart(side, corpus, folder, args.ancestor))
        seconds = ", ".join(f"{side} {runs[side][-1]['seconds']:.2f} s" for side in sides)
        print(f"round {number}: {seconds}", file=sys.stderr)
    medians = {side: statistics.median(n_lines / run["seconds"] for run in runs[side]) for side in sides}
    return {
        "ok": True,
        "lines": n_lines,
        "bytes": corpus.stat().st_size,
        "vocab_size": {side: runs[side][0]["vocab_size"] for side in sides},
        "lines_per_second": medians,
        "ours_over": {side: medians["ours"] / medians[side] for side in sides if side != "ours"},
        "peak_memory_bytes": {side: max(run["peak_memory_bytes"] for run in runs[side]) for side in sides},
        "rounds": args.rounds,
    }


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(*sys.argv[2:])))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ancestor", metavar="FOLDER", help="where bert-pytorch 0.0.1a4 is unpacked")
    add("--corpus", metavar="FILE", help="text in utf-8 (generated)")
    add("--megabytes", type=int, default=50, help="size of the generated text (50)")
    add("--types", type=int, default=500_000, help="different words it is drawn from (500000)")
    add("--rounds", type=int, default=5, help="rounds (5)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(args, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
