#!/usr/bin/env python3
"""Real tokens a second in training, and peak memory, beside bert-pytorch 0.0.1a4 and the Transformers Trainer.

Every side trains a BERT of the same size on masked words and next sentence over the same pairs, through its own trainer,
on the first GPU or else the CPU. Sides run in turn, round by round, each in a process of its own; the figures are medians, and
only the ratios count. `trainer` is the Transformers Trainer as it comes, `trainer-best` has rows grouped by length, sdpa and
fused AdamW. Padding is no real token. The last line is JSON.

    python benchmarks/compare.py --corpus PAIRS --ancestor FOLDER [--size small|medium|base] [--rounds 5]

FOLDER holds the package `bert_pytorch` 0.0.1a4 (`pip install --no-deps --target FOLDER bert-pytorch==0.0.1a4`); `transformers`
and `accelerate` are taken from this environment. A side that is missing is left out, and said.

`machine_share` is the model's work over what the machine's matrix product does in the same seconds, measured in each round.
Work of a step, in operations: 6 x (12 x layers x hidden^2 x real tokens + (hidden^2 + hidden x vocabulary) x targets +
hidden^2 x pairs) + 12 x layers x hidden x (sum over the examples of length^2). What a side does beyond that, on padding or on
words that are no target, counts for nothing.
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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import TrainerControl

SOURCE = Path(__file__).resolve().parents[1] / "src"
SIDES = ("ours", "bert-pytorch", "trainer", "trainer-best")
WARM_UP_STEPS = 3
LEAST_STEPS = 4


class Size(NamedTuple):
    """A model and its batches."""

    hidden: int
    layers: int
    heads: int
    seq_len: int
    batch_size: int
    words: int


SIZES = {
    "small": Size(256, 8, 8, 64, 64, 20_000),
    "medium": Size(256, 4, 8, 128, 32, 30_522),
    "base": Size(768, 12, 12, 128, 16, 30_522),
}


class Watch:
    """Batches of a loader, until enough was measured; what was trained on since the warm-up."""

    def __init__(self, batches: Iterable[Mapping[str, Any]], seconds: float) -> None:
        """Begin with nothing done."""
        self.batches, self.seconds = batches, seconds
        self.steps = self.tokens = self.targets = self.pairs = self.squares = 0
        self.began = self.ended = 0.0

    def __len__(self) -> int:
        """More than are ever taken."""
        return 1 << 20

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Pass after pass; a batch counts as trained when the next one is asked for."""
        while True:
            for batch in self.batches:
                yield batch
                if self.step_done(batch["bert_input"], batch["bert_label"]):
                    return

    def step_done(self, inputs: Tensor, labels: Tensor) -> bool:
        """Count a step that was trained; whether that is enough."""
        self.steps += 1
        now = time.perf_counter()
        if self.steps <= WARM_UP_STEPS:
            self.began = now
            return False
        sizes = (inputs != 0).sum(1)
        self.tokens += int(sizes.sum())
        self.squares += int((sizes**2).sum())
        self.targets += int((labels > 0).sum())
        self.pairs += len(sizes)
        self.ended = now
        return self.steps >= WARM_UP_STEPS + LEAST_STEPS and now - self.began > self.seconds

    def report(self, size: Size) -> dict[str, float]:
        """Speed and work."""
        seconds, hidden = self.ended - self.began, size.hidden
        encoder, head = 12 * size.layers * hidden**2, hidden**2 + hidden * size.words
        work = 6 * (encoder * self.tokens + head * self.targets + hidden**2 * self.pairs)
        work += 12 * size.layers * hidden * self.squares
        return {"tokens_per_second": self.tokens / seconds, "flops": work / seconds, "steps": self.steps - WARM_UP_STEPS}


def vocabulary(folder: Path) -> list[str]:
    """Words by id."""
    return (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]


def train_ours(folder: Path, size: Size, seconds: float) -> Watch:
    """As `bert --group_by_length` does it."""
    sys.path.insert(0, str(SOURCE))
    from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
    from bert_pytorch.dataset.cache import EncodingSettings, open_cached
    from bert_pytorch.dataset.loader import BatchLoader

    vocab = WordVocab.load_vocab(folder / "vocab.txt")
    encoded = open_cached(folder / "corpus.txt", vocab, folder, EncodingSettings())
    data = BERTDataset(encoded.path, vocab, size.seq_len)
    watch = Watch(BatchLoader(data, size.batch_size, shuffle=True, group_by_length=True), seconds)
    bert = BERT(size.words, size.hidden, size.layers, size.heads)
    BERTTrainer(bert, size.words, watch, warmup_steps=100, log_freq=1000, word_counts=data.word_counts).train(0)
    return watch


def train_ancestor(folder: Path, size: Size, seconds: float) -> Watch:
    """As its command does it, but shuffled, which it forgets."""
    from torch.utils.data import DataLoader

    from bert_pytorch.dataset import BERTDataset, WordVocab
    from bert_pytorch.model import BERT
    from bert_pytorch.trainer import BERTTrainer

    vocab = WordVocab([])
    vocab.itos = vocabulary(folder)
    vocab.stoi = {word: index for index, word in enumerate(vocab.itos)}
    dataset = BERTDataset(folder / "corpus.txt", vocab, size.seq_len)
    watch = Watch(DataLoader(dataset, size.batch_size, shuffle=True), seconds)
    bert = BERT(size.words, size.hidden, size.layers, size.heads)
    BERTTrainer(bert, size.words, watch, log_freq=1000).train(0)
    return watch


def rows_of(folder: Path, seq_len: int) -> list[dict[str, Any]]:
    """The pairs as ids, with next-sentence partners drawn, as an example of the Trainer would prepare them."""
    stoi = {word: index for index, word in enumerate(vocabulary(folder))}
    pairs = [line.split("\t") for line in (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()]
    draws, rows = random.Random(0), []
    for first, second in pairs:
        is_next = draws.random() < 0.5
        other = second if is_next else draws.choice(pairs)[1]
        ids = [[stoi.get(word, 1) for word in text.split()] for text in (first, other)]
        while len(ids[0]) + len(ids[1]) > seq_len - 3:
            max(ids, key=len).pop()
        tokens, types = [3, *ids[0], 2, *ids[1], 2], [0] * (len(ids[0]) + 2) + [1] * (len(ids[1]) + 1)
        rows.append({"input_ids": tokens, "token_type_ids": types, "next_sentence_label": int(not is_next)})
    return rows


def train_transformers(folder: Path, size: Size, seconds: float, best: bool) -> Watch:
    """The Trainer with BertForPreTraining; without `best` in the settings it comes with."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import (
        BertConfig,
        BertForPreTraining,
        DataCollatorForLanguageModeling,
        PreTrainedTokenizerFast,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(vocabulary(folder))}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    specials = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<sos>", "sep_token": "<eos>", "mask_token": "<mask>"}
    collator = DataCollatorForLanguageModeling(PreTrainedTokenizerFast(tokenizer_object=core, **specials))
    watch, batches = Watch((), seconds), []

    def collate(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
        batches.append(collator(rows))
        return batches[-1]

    class Count(TrainerCallback):
        """Tells the watch of each step; the loader is one batch ahead."""

        def on_step_end(self, args: object, state: object, control: TrainerControl, **_: object) -> None:
            batch = batches.pop(0)
            control.should_training_stop = watch.step_done(batch["input_ids"], batch["labels"])

    config = BertConfig(
        vocab_size=size.words,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden,
        pad_token_id=0,
    )
    settings = {"train_sampling_strategy": "group_by_length", "optim": "adamw_torch_fused"} if best else {}
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=size.batch_size,
        num_train_epochs=1000,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **settings,
    )
    model = BertForPreTraining._from_config(config, **({"attn_implementation": "sdpa"} if best else {}))
    rows = rows_of(folder, size.seq_len)
    Trainer(model, arguments, collate, rows, callbacks=[Count()]).train()
    return watch


def measure(side: str, folder: Path, size: Size, seconds: float) -> dict[str, float]:
    """One side in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if side == "ours":
            watch = train_ours(folder, size, seconds)
        elif side == "bert-pytorch":
            watch = train_ancestor(folder, size, seconds)
        else:
            watch = train_transformers(folder, size, seconds, best=side == "trainer-best")
    return {**watch.report(size), "peak_memory_bytes": peak_memory()}


def peak_memory() -> int:
    """Most memory of the GPU where one is used, else of this process, imports included."""
    import resource

    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_matmul(seconds: float) -> dict[str, float]:
    """Operations a second of the machine's matrix product in float32, as they come in a model of some width."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 8192 if device == "cuda" else 1536
    left, right = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        float((left @ right)[0, 0])
        best = max(best, 2 * n**3 / (time.perf_counter() - began))
    return {"flops": best}


def is_there(side: str, ancestor: str | None) -> bool:
    """Whether a side can run here."""
    if side == "bert-pytorch":
        return ancestor is not None
    return side == "ours" or all(importlib.util.find_spec(name) for name in ("transformers", "accelerate", "tokenizers"))


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
    size = SIZES[args.size]
    (folder / "corpus.txt").write_bytes(Path(args.corpus).read_bytes())
    counts = Counter((folder / "corpus.txt").read_text(encoding="utf-8").split())
    words = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *(word for word, _ in counts.most_common(size.words - 5))]
    # A vocabulary larger than the text's is filled up with words that never occur: its cost is that of its size.
    words += [f"<unused{number}>" for number in range(size.words - len(words))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    sides = [side for side in args.sides if is_there(side, args.ancestor)]
    for side in [each for each in args.sides if each not in sides]:
        print(f"{side}: not there, left out", file=sys.stderr)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    rates = []
    for number in range(args.rounds):
        rates.append(run_apart(["--matmul", "2"], None)["flops"])
        for side in sides:
            runs[side].append(run_apart(["--measure", side, str(folder), args.size, str(args.seconds)], args.ancestor))
        speeds = ", ".join(f"{side} {runs[side][-1]['tokens_per_second']:.0f}" for side in sides)
        print(f"round {number}: {speeds} tokens/s; matrix product {rates[-1] / 1e9:.0f} GFLOP/s", file=sys.stderr)
    speed = {side: statistics.median(run["tokens_per_second"] for run in runs[side]) for side in sides}
    shares = {side: [run["flops"] / rate for run, rate in zip(runs[side], rates, strict=True)] for side in sides}
    return {
        "ok": True,
        "size": size._asdict(),
        "tokens_per_second": speed,
        "ours_over": {side: speed["ours"] / speed[side] for side in sides if side != "ours" and "ours" in speed},
        "machine_share": {side: statistics.median(each) for side, each in shares.items()},
        "matmul_flops": statistics.median(rates),
        "peak_memory_bytes": {side: max(run["peak_memory_bytes"] for run in runs[side]) for side in sides},
        "rounds": args.rounds,
    }


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--matmul"]:
        print(json.dumps(measure_matmul(float(sys.argv[2]))))
        return 0
    if sys.argv[1:2] == ["--measure"]:
        side, folder, size, seconds = sys.argv[2:]
        print(json.dumps(measure(side, Path(folder), SIZES[size], float(seconds))))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--corpus", required=True, metavar="FILE", help="pairs, two texts and a tab a line")
    add("--ancestor", metavar="FOLDER", help="where bert-pytorch 0.0.1a4 is unpacked")
    add("--size", choices=SIZES, default="small", help="hidden 256 x 8 or x 4 layers, or BERT-base (small)")
    add("--sides", nargs="+", choices=SIDES, default=SIDES, metavar="SIDE", help="which, of " + ", ".join(SIDES))
    add("--rounds", type=int, default=5, help="rounds (5)")
    add("--seconds", type=float, default=20, help="seconds a measurement (20)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(args, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
