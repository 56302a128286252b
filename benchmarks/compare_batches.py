#!/usr/bin/env python3
"""Training batches a second from an encoded corpus, beside bert-pytorch 0.0.1a4 and datasets + DataCollatorForLanguageModeling.

Every side prepares shuffled batches of the same pairs in one process, masking, next-sentence partners and
padding included (for `datasets` the partners are drawn before the clock starts, as its collator draws none). Sides run in turn,
round by round, each in a process of its own; the figures are medians, and only the ratios count. The last line is JSON.

    python benchmarks/compare_batches.py --ancestor FOLDER [--corpus PAIRS] [--rounds 5]

FOLDER holds the package `bert_pytorch` 0.0.1a4 (`pip install --no-deps --target FOLDER bert-pytorch==0.0.1a4`); `datasets` and
`transformers` are taken from this environment. A side that is missing is left out, and said.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
SIDES = ("ours", "bert-pytorch", "datasets")


def write_corpus(path: Path, n_pairs: int, seed: int = 1) -> None:
    """Pairs of 26 words a text on average, as the verses of the King James Bible have; words by Zipf's law from 30,000."""
    draws = random.Random(seed)
    words = [f"w{rank}" for rank in range(1, 30_001)]
    weights = [1 / rank for rank in range(1, 30_001)]
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(n_pairs):
            texts = (" ".join(draws.choices(words, weights, k=draws.randint(8, 44))) for _ in range(2))
            file.write("\t".join(texts) + "\n")


def endless(loader: Iterable[object]) -> Iterator[object]:
    """Batches of pass after pass."""
    for epoch in cycle(range(1 << 20)):
        set_epoch = getattr(loader, "set_epoch", None)
        if set_epoch:
            set_epoch(epoch)
        yield from loader


def our_loader(folder: Path, seq_len: int, batch_size: int) -> Iterable[object]:
    """An encoded corpus, mapped."""
    sys.path.insert(0, str(SOURCE))
    from bert_pytorch import BERTDataset, WordVocab
    from bert_pytorch.dataset.cache import EncodingSettings, open_cached
    from bert_pytorch.dataset.loader import BatchLoader

    vocab = WordVocab.load_vocab(folder / "vocab.txt")
    encoded = open_cached(folder / "corpus.txt", vocab, folder, EncodingSettings())
    return BatchLoader(BERTDataset(encoded.path, vocab, seq_len), batch_size, shuffle=True)


def ancestor_loader(folder: Path, seq_len: int, batch_size: int) -> Iterable[object]:
    """As the ancestor's command builds it, but shuffled, which it forgets."""
    import torch
    from torch.utils.data import DataLoader

    from bert_pytorch.dataset import BERTDataset, WordVocab

    words = (folder / "vocab.txt").read_text(encoding="utf-8").split()[5:]
    vocab = WordVocab([])
    vocab.itos += words
    vocab.stoi = {word: index for index, word in enumerate(vocab.itos)}
    with contextlib.redirect_stderr(io.StringIO()):
        dataset = BERTDataset(folder / "corpus.txt", vocab, seq_len)
    assert torch.is_tensor(dataset[0]["bert_input"])
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)


def datasets_loader(folder: Path, seq_len: int, batch_size: int) -> Iterable[object]:
    """An Arrow table of ids, loaded as the Trainer does it."""
    import datasets
    import pyarrow
    from tokenizers import Tokenizer, models, pre_tokenizers
    from torch.utils.data import DataLoader
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    words = (folder / "vocab.txt").read_text(encoding="utf-8").split()
    stoi = {word: index for index, word in enumerate(words)}
    core = Tokenizer(models.WordLevel(stoi, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    specials = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<sos>", "sep_token": "<eos>", "mask_token": "<mask>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, **specials)
    store = folder / "arrow"
    if not store.exists():
        pairs = [line.split("\t") for line in (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()]
        draws = random.Random(0)
        rows = []
        for first, second in pairs:
            is_next = draws.random() < 0.5
            other = second if is_next else draws.choice(pairs)[1]
            ids = [[stoi.get(word, 1) for word in text.split()] for text in (first, other)]
            while len(ids[0]) + len(ids[1]) > seq_len - 3:
                max(ids, key=len).pop()
            tokens = [3, *ids[0], 2, *ids[1], 2]
            types = [0] * (len(ids[0]) + 2) + [1] * (len(ids[1]) + 1)
            rows.append({"input_ids": tokens, "token_type_ids": types, "next_sentence_label": int(not is_next)})
        table = pyarrow.Table.from_pylist(rows)
        with pyarrow.OSFile(str(store), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)
    # With a fingerprint of its own, as making one fails with some versions of pyarrow and dill.
    table = datasets.Dataset(datasets.table.MemoryMappedTable.from_file(str(store)), fingerprint="pairs")
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=0.15)
    return DataLoader(table, batch_size=batch_size, shuffle=True, collate_fn=collator)


def measure(side: str, folder: Path, seq_len: int, batch_size: int, seconds: float) -> dict[str, float]:
    """Batches a second of one side, after a warm-up."""
    loaders = {"ours": our_loader, "bert-pytorch": ancestor_loader, "datasets": datasets_loader}
    batches = endless(loaders[side](folder, seq_len, batch_size))
    began = time.perf_counter()
    next(batches)
    first = time.perf_counter() - began
    for _ in islice(batches, 20):
        pass
    n_batches, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        next(batches)
        n_batches += 1
    return {"batches_per_second": n_batches / elapsed, "first_batch_seconds": first}


def measure_step(folder: Path, seq_len: int, batch_size: int, hidden: int, layers: int, seconds: float) -> dict[str, float]:
    """Seconds a training step takes without data, and seconds its batch takes, in turn."""
    loader = our_loader(folder, seq_len, batch_size)
    from bert_pytorch import BERT, BERTTrainer
    from bert_pytorch.trainer.criterion import Metrics

    n_ids = len(loader.dataset.vocab)
    trainer = BERTTrainer(BERT(n_ids, hidden, layers, 8), n_ids, loader, with_cuda=False, max_steps=1000)
    trainer.model.train()
    batches, metrics, times = endless(loader), Metrics(trainer.device), ([], [])
    # Windows of batches are prepared together: a batch costs its share of them, so the sum counts and not the median.
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        batch = next(batches)
        got = time.perf_counter()
        trainer.step.train([batch], metrics)
        times[0].append(got - began)
        times[1].append(time.perf_counter() - got)
    rate = measure("ours", folder, seq_len, batch_size, 5)["batches_per_second"]
    step = statistics.median(times[1])
    return {"step_seconds": step, "batch_seconds": 1 / rate, "data_share": 1 / rate / (step + 1 / rate), "steps": len(times[1])}


def is_there(side: str, ancestor: str | None) -> bool:
    """Whether a side can run here."""
    if side == "bert-pytorch":
        return ancestor is not None
    return side == "ours" or all(importlib.util.find_spec(name) for name in ("datasets", "transformers"))


def run_apart(arguments: list[str], ancestor: str | None) -> dict[str, float]:
    """This script again, in a process of its own; what it prints last."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if ancestor is not None and "bert-pytorch" in arguments:
        environment["PYTHONPATH"] = os.pathsep.join([ancestor, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """All sides in turn."""
    corpus = folder / "corpus.txt"
    if args.corpus:
        corpus.write_bytes(Path(args.corpus).read_bytes())
    else:
        write_corpus(corpus, args.pairs)
    counts = Counter(corpus.read_text(encoding="utf-8").split())
    words = [word for word, _ in counts.most_common(args.words)]
    (folder / "vocab.txt").write_text(
        "\n".join(["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *words]) + "\n", encoding="utf-8"
    )
    size = [str(folder), str(args.seq_len), str(args.batch_size), str(args.seconds)]
    sides = [side for side in SIDES if is_there(side, args.ancestor)]
    for side in set(SIDES) - set(sides):
        print(f"{side}: not there, left out", file=sys.stderr)
    run_apart(["--measure", "ours", *size[:3], "0.1"], None)
    rates: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(args.rounds):
        for side in sides:
            rates[side].append(run_apart(["--measure", side, *size], args.ancestor)["batches_per_second"])
        print(f"round {number}: " + ", ".join(f"{side} {rates[side][-1]:.1f} batches/s" for side in sides), file=sys.stderr)
    medians = {side: statistics.median(values) for side, values in rates.items()}
    ratios = {side: medians["ours"] / medians[side] for side in sides if side != "ours"}
    step = run_apart(["--step", *size[:3], str(args.hidden), str(args.layers), str(args.step_seconds)], None)
    return {"ok": True, "batches_per_second": medians, "ours_over": ratios, "step": step, "rounds": args.rounds}


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--measure"]:
        side, folder, *size = sys.argv[2:]
        print(json.dumps(measure(side, Path(folder), int(size[0]), int(size[1]), float(size[2]))))
        return 0
    if sys.argv[1:2] == ["--step"]:
        folder, *size = sys.argv[2:]
        print(json.dumps(measure_step(Path(folder), *map(int, size[:4]), float(size[4]))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--ancestor", metavar="FOLDER", help="where bert-pytorch 0.0.1a4 is unpacked")
    add("--corpus", metavar="FILE", help="pairs, two texts and a tab a line (generated)")
    add("--pairs", type=int, default=50_000, help="pairs to generate (50000)")
    add("--words", type=int, default=20_000, help="words of the vocabulary (20000)")
    add("--seq_len", type=int, default=64, help="tokens a pair (64)")
    add("--batch_size", type=int, default=64, help="pairs a batch (64)")
    add("--rounds", type=int, default=5, help="rounds (5)")
    add("--seconds", type=float, default=3, help="seconds a measurement (3)")
    add("--hidden", type=int, default=256, help="hidden size of the step measured (256)")
    add("--layers", type=int, default=8, help="layers of the step measured (8)")
    add("--step_seconds", type=float, default=20, help="seconds of steps (20)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(args, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
