#!/usr/bin/env python3
"""Training beside bert-pytorch 0.0.1a4 and the Transformers Trainer: real tokens a second, memory, and loss in equal minutes.

Every side trains a model of the same width and depth over the same pairs, through its own trainer, on the first GPU or else
the CPU: a BERT on masked words and next sentence, but `ours-recipe`, which is what the shipped recipe says. Sides run in turn,
round by round, each in a process of its own; the figures are medians, and only the ratios count. `trainer` is the Transformers
Trainer as it comes, `trainer-best` has rows grouped by length, sdpa and fused AdamW. Padding is no real token.

    python benchmarks/compare.py --corpus PAIRS --ancestor FOLDER [--size small|medium|base] [--rounds 5]

With `--minutes 5 15 --valid PAIRS` the sides learn instead, each so long and from each of the seeds, and predict the same
hidden words of the held-out pairs (`learning.py` says how). `--output PREFIX` writes PREFIX.json, a table PREFIX.md and, where
matplotlib is installed, a picture PREFIX.png; runs that learn are written one by one, and a call with the same PREFIX goes on
with those that are missing. The last line is JSON.

With `--tokens_per_part N` ours computes a step's batch in parts of so many tokens: the same step in less memory.

FOLDER holds the package `bert_pytorch` 0.0.1a4 (`pip install --no-deps --target FOLDER bert-pytorch==0.0.1a4`); `transformers`
and `accelerate` are taken from this environment. A side that is missing is left out, and said.

`machine_share` is the model's work over what the machine's matrix product (float32, 1536 x 1536, the median over two seconds)
does in the same time, measured in each round. Work of a step, in operations: 6 x (layers x weights of a layer's matrices x real
tokens + (hidden^2 + hidden x vocabulary) x targets + hidden^2 x pairs) + 12 x layers x hidden x (sum over the examples of
length^2). A layer of BERT has 12 x hidden^2 weights. What a side does beyond, on padding or on words that are no target, counts
for nothing; what ours leaves out of its last layer is not counted either. The recipe multiplies in fewer bits where the machine
can (`float32_matmul_precision`), so its share may exceed 100 %.
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
    from transformers import BertConfig, DataCollatorForLanguageModeling, TrainerControl

SOURCE = Path(__file__).resolve().parents[1] / "src"
RECIPE = Path(__file__).resolve().parents[1] / "skills" / "training" / "assets" / "recipe.yaml"
SIDES = ("ours", "ours-recipe", "bert-pytorch", "trainer", "trainer-best")
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
        self.layer_weights = 0

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
        """Count a batch that was trained; whether that is enough."""
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
        layer, head = self.layer_weights or 12 * hidden**2, hidden**2 + hidden * size.words
        work = layer * size.layers * self.tokens + head * self.targets + hidden**2 * self.pairs
        if self.layer_weights:
            # Ours computes of the last layer, but queries, keys and values, what is needed for targets and first tokens.
            work -= (layer - 3 * hidden**2) * (self.tokens - self.targets - self.pairs)
        work *= 6
        work += 12 * size.layers * hidden * self.squares
        return {"tokens_per_second": self.tokens / seconds, "flops": work / seconds, "steps": self.steps - WARM_UP_STEPS}


def vocabulary(folder: Path) -> list[str]:
    """Words by id."""
    return (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]


def train_ours(folder: Path, size: Size, seconds: float, recipe: str, tokens_per_part: str) -> Watch:
    """As `bert --group_by_length` does it, or as it does with the recipe."""
    sys.path.insert(0, str(SOURCE))
    from bert_pytorch.assembly import make_loaders, make_trainer
    from bert_pytorch.cli import bert_parser
    from bert_pytorch.dataset.vocab import Vocab
    from bert_pytorch.inputs import open_datasets

    words = f"-c {folder}/corpus.txt -v {folder}/vocab.txt -o {folder}/ours.model --log_freq 1000000"
    sizes = f"-hs {size.hidden} -l {size.layers} -a {size.heads} -s {size.seq_len}"
    sizes += f" -b {size.batch_size}" + (f" --tokens_per_part {tokens_per_part}" if tokens_per_part else "")
    way = f"--config {recipe}" if recipe else "--group_by_length"
    args = bert_parser().parse(f"{words} {sizes} {way}".split())
    vocab = Vocab.load_vocab(args.vocab_path)
    dataset, _ = open_datasets(args, vocab)
    watch = Watch(make_loaders(args, dataset, None, args.device != "cpu")[0], seconds)
    trainer = make_trainer(args, vocab, watch, None, True, 1 << 20, dataset)
    watch.layer_weights = sum(value.numel() for value in trainer.bert.transformer_blocks[0].parameters() if value.dim() == 2)
    trainer.train(0)
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


def rows_of(folder: Path, seq_len: int, *, all_are_next: bool = False) -> list[dict[str, Any]]:
    """The pairs as ids, with next-sentence partners drawn or all true, as an example of the Trainer would prepare them."""
    stoi = {word: index for index, word in enumerate(vocabulary(folder))}
    pairs = [line.split("\t") for line in (folder / "corpus.txt").read_text(encoding="utf-8").splitlines()]
    draws, rows = random.Random(0), []
    for first, second in pairs:
        is_next = all_are_next or draws.random() < 0.5
        other = second if is_next else draws.choice(pairs)[1]
        ids = [[stoi.get(word, 1) for word in text.split()] for text in (first, other)]
        while len(ids[0]) + len(ids[1]) > seq_len - 3:
            max(ids, key=len).pop()
        tokens, types = [3, *ids[0], 2, *ids[1], 2], [0] * (len(ids[0]) + 2) + [1] * (len(ids[1]) + 1)
        row = {"input_ids": tokens, "token_type_ids": types}
        rows.append(row if all_are_next else {**row, "next_sentence_label": int(not is_next)})
    return rows


def transformers_collator(folder: Path) -> DataCollatorForLanguageModeling:
    """What pads and masks for the Trainer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    core = Tokenizer(models.WordLevel({word: index for index, word in enumerate(vocabulary(folder))}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    specials = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<sos>", "sep_token": "<eos>", "mask_token": "<mask>"}
    return DataCollatorForLanguageModeling(PreTrainedTokenizerFast(tokenizer_object=core, **specials))


def transformers_config(size: Size) -> BertConfig:
    """A BERT of this size."""
    from transformers import BertConfig

    return BertConfig(
        vocab_size=size.words,
        hidden_size=size.hidden,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.hidden,
        pad_token_id=0,
    )


def train_transformers(folder: Path, size: Size, seconds: float, best: bool) -> Watch:
    """The Trainer with BertForPreTraining; without `best` in the settings it comes with."""
    from transformers import BertForPreTraining, Trainer, TrainerCallback, TrainingArguments

    collator, watch, batches = transformers_collator(folder), Watch((), seconds), []

    def collate(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
        batches.append(collator(rows))
        return batches[-1]

    class Count(TrainerCallback):
        """Tells the watch of each step; the loader is one batch ahead."""

        def on_step_end(self, args: object, state: object, control: TrainerControl, **_: object) -> None:
            batch = batches.pop(0)
            control.should_training_stop = watch.step_done(batch["input_ids"], batch["labels"])

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
    attention = {"attn_implementation": "sdpa"} if best else {}
    model = BertForPreTraining._from_config(transformers_config(size), **attention)
    rows = rows_of(folder, size.seq_len)
    Trainer(model, arguments, collate, rows, callbacks=[Count()]).train()
    return watch


def measure(side: str, folder: Path, size: Size, seconds: float, recipe: str, tokens_per_part: str) -> dict[str, float]:
    """One side in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if side.startswith("ours"):
            watch = train_ours(folder, size, seconds, recipe if side == "ours-recipe" else "", tokens_per_part)
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
    status = Path("/proc/self/status")
    if status.is_file():
        return 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_matmul(seconds: float) -> dict[str, float]:
    """Operations a second of the machine's matrix product in float32, as they come in a model of some width."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    n = 8192 if device == "cuda" else 1536
    left, right = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    rates, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        float((left @ right)[0, 0])
        rates.append(2 * n**3 / (time.perf_counter() - began))
    return {"flops": statistics.median(rates)}


def is_there(side: str, ancestor: str | None) -> bool:
    """Whether a side can run here."""
    if side == "bert-pytorch":
        return ancestor is not None
    return side.startswith("ours") or all(
        importlib.util.find_spec(name) for name in ("transformers", "accelerate", "tokenizers")
    )


def run_apart(arguments: list[str], ancestor: str | None) -> dict[str, float]:
    """This script again, in a process of its own; what it prints last."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    if ancestor is not None and "bert-pytorch" in arguments:
        environment["PYTHONPATH"] = os.pathsep.join([ancestor, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def write_vocabulary(corpus: Path, path: Path, n_words: int) -> None:
    """Write the commonest words of a corpus, `n_words` with the specials."""
    counts = Counter(corpus.read_text(encoding="utf-8").split())
    words = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *(word for word, _ in counts.most_common(n_words - 5))]
    # A vocabulary larger than the text's is filled up with words that never occur: its cost is that of its size.
    words += [f"<unused{number}>" for number in range(n_words - len(words))]
    path.write_text("\n".join(words) + "\n", encoding="utf-8")


def prepare(args: argparse.Namespace, folder: Path) -> list[str]:
    """Write corpora and vocabulary; the sides that can run."""
    (folder / "corpus.txt").write_bytes(Path(args.corpus).read_bytes())
    write_vocabulary(folder / "corpus.txt", folder / "vocab.txt", SIZES[args.size].words)
    sides = [side for side in args.sides if is_there(side, args.ancestor)]
    for side in [each for each in args.sides if each not in sides]:
        print(f"{side}: not there, left out", file=sys.stderr)
    return sides


def compare(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Speed and memory of all sides in turn."""
    sides = prepare(args, folder)
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    rates = []
    for number in range(args.rounds):
        rates.append(run_apart(["--matmul", "2"], None)["flops"])
        for side in sides:
            words = ["--measure", side, str(folder), args.size, str(args.seconds), args.recipe, str(args.tokens_per_part or "")]
            runs[side].append(run_apart(words, args.ancestor))
        speeds = ", ".join(f"{side} {runs[side][-1]['tokens_per_second']:.0f}" for side in sides)
        print(f"round {number}: {speeds} tokens/s; matrix product {rates[-1] / 1e9:.0f} GFLOP/s", file=sys.stderr, flush=True)
    speed = {side: statistics.median(run["tokens_per_second"] for run in runs[side]) for side in sides}
    shares = {side: [run["flops"] / rate for run, rate in zip(runs[side], rates, strict=True)] for side in sides}
    peers = [side for side in sides if not side.startswith("ours")]
    return {
        "ok": True,
        "size": SIZES[args.size]._asdict(),
        "tokens_per_second": speed,
        "ratios": {side: {peer: speed[side] / speed[peer] for peer in peers} for side in sides if side not in peers},
        "machine_share": {side: statistics.median(each) for side, each in shares.items()},
        "matmul_flops": statistics.median(rates),
        "peak_memory_bytes": {side: max(run["peak_memory_bytes"] for run in runs[side]) for side in sides},
        "rounds": args.rounds,
        "tokens_per_part": args.tokens_per_part,
    }


def compare_learning(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Held-out loss of all sides after equal minutes, seed by seed; what an earlier call has measured is taken over."""
    import learning

    sides = [side for side in prepare(args, folder) if side != "ours"]
    (folder / "valid.txt").write_bytes(Path(args.valid).read_bytes())
    learning.write_held_out(folder, SIZES[args.size])
    size, runs = SIZES[args.size]._asdict(), {}
    if args.output and Path(f"{args.output}.json").is_file():
        earlier = json.loads(Path(f"{args.output}.json").read_text(encoding="utf-8"))
        if earlier["size"] == size and "held_out_loss" in earlier:
            runs = earlier["runs"]
    report = learning_report(size, runs)
    for minutes in args.minutes:
        for seed in args.seeds:
            for side in sides:
                if str(seed) in runs.get(f"{minutes:g}", {}).get(side, {}):
                    continue
                words = ["--learn", side, str(folder), args.size, str(60 * minutes), str(seed), args.recipe]
                run = run_apart(words, args.ancestor)
                runs.setdefault(f"{minutes:g}", {}).setdefault(side, {})[str(seed)] = run
                what = f"{minutes:g} min, seed {seed}, {side}: {run['loss']:.3f} nats, {run['steps']} steps"
                print(what, file=sys.stderr, flush=True)
                report = learning_report(size, runs)
                write(report, args.output)
    return report


def learning_report(size: dict[str, int], runs: dict[str, dict[str, dict[str, Any]]]) -> dict[str, object]:
    """What the runs of a size, by minutes, side and seed, come to."""
    means = {
        minutes: {side: statistics.mean(run["loss"] for run in each.values()) for side, each in by.items()}
        for minutes, by in runs.items()
    }
    return {"ok": True, "size": size, "held_out_loss": means, "runs": runs}


def table_of(report: dict[str, Any]) -> str:
    """The report as a Markdown table."""
    if "held_out_loss" in report:
        sides = sorted({side for by in report["held_out_loss"].values() for side in by})
        head = ["minutes", *sides]
        rows = []
        for minutes, by in report["runs"].items():
            losses = {side: [run["loss"] for run in runs.values()] for side, runs in by.items()}
            cells = {
                side: f"{statistics.mean(each):.3f} ({min(each):.3f} to {max(each):.3f}; {len(each)})"
                for side, each in losses.items()
            }
            rows.append([minutes, *(cells.get(side, "") for side in sides)])
    else:
        head = ["side", "tokens/s", "share of the matrix product", "peak memory, GB"]
        parts = report["tokens_per_second"], report["machine_share"], report["peak_memory_bytes"]
        rows = [[side, f"{parts[0][side]:.0f}", f"{parts[1][side]:.0%}", f"{parts[2][side] / 1e9:.2f}"] for side in parts[0]]
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write(report: dict[str, Any], output: str | None) -> None:
    """Write the report and its table, if a place for them is given."""
    if output:
        Path(f"{output}.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
        Path(f"{output}.md").write_text(table_of(report), encoding="utf-8")


def draw(report: dict[str, Any], path: str) -> None:
    """The report as a picture, where matplotlib is there."""
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib: not there, no picture", file=sys.stderr)
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    if "held_out_loss" in report:
        longest = max(report["runs"], key=float)
        for side, runs in report["runs"][longest].items():
            for number, run in enumerate(runs.values()):
                seconds, losses = zip(*run["curve"], strict=True)
                color = f"C{list(report['runs'][longest]).index(side)}"
                axes.plot([each / 60 for each in seconds], losses, color=color, label=None if number else side)
        axes.set(xlabel="minutes", ylabel="held-out masked words, nats")
        axes.legend()
    else:
        axes.barh(list(report["tokens_per_second"]), list(report["tokens_per_second"].values()))
        axes.set(xlabel="real tokens a second")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    """Compare, or in a process of its own measure one side."""
    if sys.argv[1:2] == ["--matmul"]:
        print(json.dumps(measure_matmul(float(sys.argv[2]))))
        return 0
    if sys.argv[1:2] == ["--measure"]:
        side, folder, size, seconds, recipe, most = sys.argv[2:]
        print(json.dumps(measure(side, Path(folder), SIZES[size], float(seconds), recipe, most)))
        return 0
    if sys.argv[1:2] == ["--learn"]:
        import learning

        side, folder, size, seconds, seed, recipe = sys.argv[2:]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            done = learning.learn(side, Path(folder), SIZES[size], float(seconds), int(seed), recipe)
        print(json.dumps(done))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--corpus", required=True, metavar="FILE", help="pairs, two texts and a tab a line")
    add("--ancestor", metavar="FOLDER", help="where bert-pytorch 0.0.1a4 is unpacked")
    add("--size", choices=SIZES, default="small", help="hidden 256 x 8 or x 4 layers, or BERT-base (small)")
    add("--sides", nargs="+", choices=SIDES, default=SIDES, metavar="SIDE", help="which, of " + ", ".join(SIDES))
    add("--recipe", default=str(RECIPE), metavar="FILE", help="of ours-recipe (the shipped one)")
    add("--rounds", type=int, default=5, help="rounds (5)")
    add("--seconds", type=float, default=20, help="seconds a measurement (20)")
    add("--tokens_per_part", type=int, metavar="N", help="tokens that ours computes at once (all of a step's)")
    add("--minutes", type=float, nargs="+", metavar="N", help="learn so long each, instead of measuring speed")
    add("--valid", metavar="FILE", help="pairs held out, for --minutes")
    add("--seeds", type=int, nargs="+", default=[0, 1, 2], metavar="N", help="runs a side, for --minutes (0 1 2)")
    add("--output", metavar="PREFIX", help="write PREFIX.json, PREFIX.md, PREFIX.png")
    args = parser.parse_args()
    if args.minutes and not args.valid:
        parser.error("--minutes needs --valid")
    with tempfile.TemporaryDirectory() as folder:
        report = compare_learning(args, Path(folder)) if args.minutes else compare(args, Path(folder))
    write(report, args.output)
    if args.output:
        draw(report, f"{args.output}.png")
    print(json.dumps({name: value for name, value in report.items() if name != "runs"}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
