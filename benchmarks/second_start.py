#!/usr/bin/env python3
"""How soon a second run has its first batch, and what memory the data take: a million pairs, encoded by the first run.

Each measurement is a process of its own; the figures are medians. Memory is counted after 200 batches, beyond what the process
had after a step of a very small model: all of it (`rss`), and without the pages of files, which processes share and the
system takes back when it needs them (`private`). The last line is JSON.

    python benchmarks/second_start.py [--pairs 1000000] [--words 10] [--rounds 5]

Batches come from random places, so that soon most pages of the file are looked at: `rss` grows with the file (`encoded_mb`),
and `private` does not.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))


def write_corpus(path: Path, n_pairs: int, n_words: int) -> None:
    """Pairs of about so many words a text, drawn by Zipf's law from 20,000 for a stock of texts; each pair is numbered."""
    draws = random.Random(1)
    words = [f"w{rank}" for rank in range(1, 20_001)]
    weights = [1 / rank for rank in range(1, 20_001)]
    least, most = n_words // 2 - 1, n_words * 3 // 2 + 1
    stock = [" ".join(draws.choices(words, weights, k=draws.randint(least, most))) for _ in range(50_000)]
    with open(path, "w", encoding="utf-8") as file:
        for number in range(n_pairs):
            file.write(f"{draws.choice(stock)} {words[number % 19_997]}\t{draws.choice(stock)} {words[number // 19_997]}\n")


def memory() -> dict[str, float]:
    """Memory of this process in MB; the system tells on Linux only."""
    kilobytes = {"Rss": 0, "Private_Dirty": 0}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in kilobytes:
            kilobytes[name] = int(rest.split()[0])
    return {"rss": kilobytes["Rss"] / 1024, "private": kilobytes["Private_Dirty"] / 1024}


def measure(folder: Path) -> dict[str, float]:
    """Open the data as `bert` does, take the first batch, and 199 more."""
    import torch

    from bert_pytorch import BERT, BERTLM, BERTDataset
    from bert_pytorch.dataset.cache import EncodingSettings, open_cached
    from bert_pytorch.dataset.loader import BatchLoader
    from bert_pytorch.dataset.vocab import Vocab

    ids = torch.ones(8, 40, dtype=torch.int64)
    sum(each.sum() for each in BERTLM(BERT(64, hidden=32, n_layers=1, attn_heads=2), 64)(ids, ids)).backward()
    before, began = memory(), time.perf_counter()
    vocab = Vocab.load_vocab(folder / "vocab.json")
    encoded = open_cached(folder / "corpus.txt", vocab, folder, EncodingSettings())
    batches = iter(BatchLoader(BERTDataset(encoded.path, vocab, 40), 64, shuffle=True))
    next(batches)
    seconds = time.perf_counter() - began
    for _ in islice(batches, 199):
        pass
    after = memory()
    grown = {f"{name}_mb": after[name] - before[name] for name in after}
    return {"first_batch_seconds": seconds, "encoded_mb": Path(encoded.path).stat().st_size / 1024**2, **grown}


def main() -> int:
    """Make the corpus, encode it, and measure; or in a process of its own measure once."""
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs of the corpus (1000000)")
    parser.add_argument("--words", type=int, default=10, help="words a text, about; one more numbers it (10)")
    parser.add_argument("--rounds", type=int, default=5, help="measurements (5)")
    args = parser.parse_args()
    from bert_pytorch.dataset.counting import count_files
    from bert_pytorch.dataset.vocab import WordVocab

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "corpus.txt", args.pairs, args.words)
        WordVocab.of_counts(count_files([str(folder / "corpus.txt")], "utf-8")).save_vocab(folder / "vocab.json")
        rounds = []
        for number in range(args.rounds + 1):
            command = [sys.executable, __file__, "--measure", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            rounds.append(json.loads(done.stdout))
            print(f"{'first' if not number else 'second'} run: {rounds[-1]}", file=sys.stderr)
        second = {key: statistics.median(each[key] for each in rounds[1:]) for key in rounds[0]}
    print(json.dumps({"ok": True, "pairs": args.pairs, "first_run_seconds": rounds[0]["first_batch_seconds"], **second}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
