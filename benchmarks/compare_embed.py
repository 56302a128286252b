#!/usr/bin/env python3
"""Seconds to turn lines into vectors, beside sentence-transformers with the same model, threads and lines.

Sides run in turn, round by round, each in a process of its own; the clock runs from texts to vectors, loading left out. The
figures are medians, only the ratios count, and the vectors of all sides are compared.

    python benchmarks/compare_embed.py --model FOLDER --lines FILE [--rounds 3] [--threads 2] [--output PREFIX]

The last line is JSON; `--output PREFIX` writes it to PREFIX.json, and a table to PREFIX.md.

FOLDER is a BERT as sentence-transformers saves it, or a plain export (mean over tokens); FILE has a text a line, or a text, a
tab and something else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[1] / "src"
SIDES = {"ours": 0, "sentence-transformers": 32, "sentence-transformers, batches of 128": 128}
"""Batch sizes; 32 is what sentence-transformers takes by itself."""


def our_vectors(model: str, texts: list[str], output: str) -> float:
    """As `embed.py` makes them."""
    sys.path.insert(0, str(SOURCE))
    from bert_pytorch.inference.embedding import Embedder
    from bert_pytorch.inference.loading import open_model
    from bert_pytorch.inference.vector_files import open_vectors

    loaded = open_model(model)
    recipe = loaded.recipe
    embed = Embedder(loaded.model.bert, loaded.vocab, recipe.pooling, -1, recipe.normalize, recipe.max_tokens)
    embed(texts[:64])
    began = time.perf_counter()
    found = embed(texts)
    seconds = time.perf_counter() - began
    with open_vectors(output, found.size(1)) as file:
        file.write(found, texts)
    return seconds


def their_vectors(model: str, texts: list[str], output: str, batch_size: int) -> float:
    """As `SentenceTransformer.encode` makes them."""
    import numpy
    from sentence_transformers import SentenceTransformer

    transformer = SentenceTransformer(model, device="cpu")
    transformer.encode(texts[:64], batch_size=batch_size)
    began = time.perf_counter()
    found = transformer.encode(texts, batch_size=batch_size, show_progress_bar=False)
    seconds = time.perf_counter() - began
    numpy.save(output, found)
    return seconds


def measure(side: str, model: str, lines: str, output: str, n_threads: int) -> float:
    """One side, in this process."""
    import torch

    torch.set_num_threads(n_threads)
    texts = Path(lines).read_text(encoding="utf-8").split("\n")
    return their_vectors(model, texts, output, SIDES[side]) if SIDES[side] else our_vectors(model, texts, output)


def run_apart(side: str, args: argparse.Namespace, lines: Path, output: Path) -> float:
    """This script again, in a process of its own; the seconds it prints."""
    words = ["--measure", side, args.model, str(lines), str(output), str(args.threads)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
    done = subprocess.run([sys.executable, __file__, *words], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr[-2000:]}")
    return float(done.stdout.splitlines()[-1])


def compare(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """All sides in turn."""
    import numpy

    texts = [line.partition("\t")[0].strip() for line in Path(args.lines).read_text(encoding="utf-8").splitlines()]
    texts = [text for text in texts if text][: args.n_lines]
    lines = folder / "lines.txt"
    lines.write_text("\n".join(texts), encoding="utf-8")
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    outputs = {side: folder / f"{number}.npy" for number, side in enumerate(SIDES)}
    for number in range(args.rounds):
        for side in SIDES:
            seconds[side].append(run_apart(side, args, lines, outputs[side]))
        print(f"round {number}: " + ", ".join(f"{side} {seconds[side][-1]:.2f} s" for side in SIDES), file=sys.stderr)
    vectors = {side: numpy.load(path) for side, path in outputs.items()}
    medians = {side: statistics.median(values) for side, values in seconds.items()}
    others = [side for side in SIDES if side != "ours"]
    return {
        "ok": True,
        "lines": len(texts),
        "threads": args.threads,
        "seconds": medians,
        "lines_per_second": {side: len(texts) / value for side, value in medians.items()},
        "ours_over": {side: medians[side] / medians["ours"] for side in others},
        "largest_difference": {side: float(abs(vectors["ours"] - vectors[side]).max()) for side in others},
        "rounds": args.rounds,
        "seconds_of_rounds": seconds,
    }


def table_of(report: dict[str, Any]) -> str:
    """The report as Markdown."""
    head = f"{report['lines']} lines, {report['threads']} threads, medians of {report['rounds']} interleaved rounds."
    rows = ["", "| side | s | lines/s | ours is | farthest from ours |", "|---|---|---|---|---|"]
    for side in SIDES:
        compared = ["", ""]
        if side != "ours":
            compared = [f"{report['ours_over'][side]:.2f}x", f"{report['largest_difference'][side]:.1e}"]
        values = [f"{report['seconds'][side]:.2f}", f"{report['lines_per_second'][side]:.0f}", *compared]
        rows.append(f"| {side} | " + " | ".join(values) + " |")
    return "\n".join([head, *rows]) + "\n"


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--measure"]:
        side, model, lines, output, n_threads = sys.argv[2:]
        print(measure(side, model, lines, output, int(n_threads)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", required=True, metavar="FOLDER", help="a BERT in Transformers' form")
    add("--lines", required=True, metavar="FILE", help="texts, one a line")
    add("--n_lines", type=int, default=10_000, help="lines taken (10000)")
    add("--rounds", type=int, default=3, help="rounds (3)")
    add("--threads", type=int, default=2, help="threads of torch (2)")
    add("--output", metavar="PREFIX", help="write PREFIX.json, PREFIX.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = compare(args, Path(folder))
    if args.output:
        Path(f"{args.output}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        Path(f"{args.output}.md").write_text(table_of(report), encoding="utf-8")
    print(json.dumps(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
