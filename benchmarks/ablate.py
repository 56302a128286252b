#!/usr/bin/env python3
"""What lowers the held-out masked-word loss most in equal time: recipes side by side, several seeds each.

Every run trains a model of the same width and depth on the same pairs for the same seconds of processor time, from new
weights, and then predicts the same hidden words of the held-out pairs (15 % of them, drawn once). Runs follow each other seed
by seed, each in a process of its own. A recipe is the base recipe with some settings changed, each named on the command line.
The last line is JSON.

    python benchmarks/ablate.py --train PAIRS --valid PAIRS --seconds 300 --recipes base batch_size=32 lr=2e-3,dropout=0.1

Settings: architecture, feed_forward_hidden, dropout, objective, mlm_probability, batch_size, optimizer (adamw, muon), lr,
weight_decay, beta2, schedule (linear: warm-up, then down to 0; wsd: warm-up, stable, then down to 0), warmup and decay (shares
of the time), word_bias (start the output bias at the word frequencies), max_grad_norm, precision (of float32 products: highest,
medium).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compare import SOURCE, write_vocabulary

sys.path.insert(0, str(SOURCE))

if TYPE_CHECKING:
    import torch

    from bert_pytorch.trainer.objective import PretrainingObjective


class Recipe(NamedTuple):
    """All that an ablation changes."""

    architecture: str = "bert"
    feed_forward_hidden: int = 0
    dropout: float = 0.0
    objective: str = "mlm"
    mlm_probability: float = 0.15
    batch_size: int = 32
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float = 0.01
    beta2: float = 0.999
    schedule: str = "linear"
    warmup: float = 0.05
    decay: float = 0.4
    word_bias: bool = True
    max_grad_norm: float = 1.0
    precision: str = "highest"

    @classmethod
    def of(cls, text: str) -> Recipe:
        """`base`, or `name=value,name=value`."""
        changes = dict(part.split("=", 1) for part in text.split(",") if part != "base")
        kinds = {name: type(value) for name, value in cls._field_defaults.items()}
        return cls(**{name: value == "true" if kinds[name] is bool else kinds[name](value) for name, value in changes.items()})

    def rate(self, share: float) -> float:
        """The rate at a share of the time, as a share of the peak."""
        if share < self.warmup:
            return max(share, 1e-3) / self.warmup
        start = self.warmup if self.schedule == "linear" else 1 - self.decay
        return max(0.0, min(1.0, (1 - share) / (1 - start)))


def make_optimizers(recipe: Recipe, objective: PretrainingObjective) -> list[torch.optim.Optimizer]:
    """AdamW for all, or Muon for the matrices of the blocks and AdamW for the rest."""
    import torch

    from bert_pytorch.trainer.optim_schedule import parameter_groups

    groups = parameter_groups(objective.language_model, recipe.weight_decay)
    if recipe.optimizer == "adamw":
        return [torch.optim.AdamW(groups, lr=recipe.lr, betas=(0.9, recipe.beta2), fused=True)]
    matrices = [value for value in objective.language_model.bert.transformer_blocks.parameters() if value.dim() == 2]
    ids = {id(value) for value in matrices}
    rest = [{**group, "params": [value for value in group["params"] if id(value) not in ids]} for group in groups]
    return [
        torch.optim.Muon(matrices, lr=recipe.lr, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=recipe.lr, betas=(0.9, recipe.beta2), fused=True),
    ]


def measure(recipe: Recipe, folder: Path, size: tuple[int, int, int, int], seconds: float, seed: int) -> dict[str, float]:
    """One run in this process."""
    import torch

    from bert_pytorch import BERT, BERTLM, BERTDataset, WordVocab
    from bert_pytorch.dataset.loader import BatchLoader
    from bert_pytorch.memory import keep_freed_memory
    from bert_pytorch.trainer.batch import prepare_batch
    from bert_pytorch.trainer.objective import PretrainingObjective

    keep_freed_memory()
    torch.manual_seed(seed)
    torch.set_float32_matmul_precision(recipe.precision)
    hidden, layers, heads, seq_len = size
    vocab = WordVocab.load_vocab(folder / "vocab.txt")
    cpu = torch.device("cpu")
    chosen = {"objective": recipe.objective, "mlm_probability": recipe.mlm_probability, "seed": seed}
    data = BERTDataset(folder / "train.txt", vocab, seq_len, **chosen)
    loader = BatchLoader(data, recipe.batch_size, shuffle=True, group_by_length=True)
    options = {"architecture": recipe.architecture, "feed_forward_hidden": recipe.feed_forward_hidden or None}
    objective = PretrainingObjective(BERTLM(BERT(len(vocab), hidden, layers, heads, recipe.dropout, **options), len(vocab)))
    if recipe.word_bias:
        objective.language_model.mask_lm.start_bias_at(data.word_counts)
    optimizers = make_optimizers(recipe, objective)
    began, steps, tokens, epoch, share = time.process_time(), 0, 0, 0, 0.0
    while share < 1:
        loader.set_epoch(epoch)
        for batch in loader:
            share = (time.process_time() - began) / seconds
            if share >= 1:
                break
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group["lr"] = recipe.lr * recipe.rate(share)
            sums = objective(**prepare_batch(batch, len(vocab), cpu))[0]
            for optimizer in optimizers:
                optimizer.zero_grad()
            (sums[0] / sums[2] + sums[3] / sums[5].clamp(min=1)).backward()
            torch.nn.utils.clip_grad_norm_(objective.parameters(), recipe.max_grad_norm)
            for optimizer in optimizers:
                optimizer.step()
            steps, tokens = steps + 1, tokens + int(sums[7])
        epoch += 1
    return {"loss": held_out_loss(objective, folder, seq_len), "steps": steps, "tokens": tokens}


def held_out_loss(objective: PretrainingObjective, folder: Path, seq_len: int) -> float:
    """Nats a hidden word, the same words for every recipe."""
    import torch

    from bert_pytorch import BERTDataset, WordVocab
    from bert_pytorch.dataset.loader import BatchLoader
    from bert_pytorch.trainer.batch import prepare_batch

    vocab = WordVocab.load_vocab(folder / "vocab.txt")
    loader = BatchLoader(BERTDataset(folder / "valid.txt", vocab, seq_len, objective="mlm", seed=0), 64, group_by_length=True)
    objective.eval()
    with torch.no_grad():
        sums = sum(objective(**prepare_batch(batch, len(vocab), torch.device("cpu")))[0].double() for batch in loader)
    return float(sums[0] / sums[2])


def run_apart(arguments: list[str]) -> dict[str, float]:
    """This script again, in a process of its own; what it prints last."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{arguments}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(args: argparse.Namespace, folder: Path) -> dict[str, object]:
    """All recipes, seed by seed."""
    for name in ("train", "valid"):
        (folder / f"{name}.txt").write_bytes(Path(getattr(args, name)).read_bytes())
    write_vocabulary(folder / "train.txt", folder / "vocab.txt", args.words)
    runs: dict[str, list[dict[str, float]]] = {text: [] for text in args.recipes}
    for seed in args.seeds:
        for text, done in runs.items():
            sizes = [str(number) for number in (args.hidden, args.layers, args.heads, args.seq_len, args.threads)]
            done.append(run_apart(["--measure", text, str(folder), *sizes, str(args.seconds), str(seed)]))
            print(f"seed {seed} {text}: {done[-1]}", file=sys.stderr, flush=True)
    table = {}
    for text, done in runs.items():
        losses = [run["loss"] for run in done]
        spread = statistics.stdev(losses) if len(losses) > 1 else math.nan
        table[text] = {"mean_loss": statistics.mean(losses), "spread": None if math.isnan(spread) else spread, "runs": done}
    return {"ok": True, "seconds": args.seconds, "threads": args.threads, "recipes": table}


def main() -> int:
    """Compare, or in a process of its own measure one run."""
    if sys.argv[1:2] == ["--measure"]:
        import torch

        text, folder, *numbers, seconds, seed = sys.argv[2:]
        hidden, layers, heads, seq_len, threads = map(int, numbers)
        torch.set_num_threads(threads)
        with contextlib.redirect_stdout(io.StringIO()):
            report = measure(Recipe.of(text), Path(folder), (hidden, layers, heads, seq_len), float(seconds), int(seed))
        print(json.dumps(report))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--train", required=True, metavar="FILE", help="pairs to train on")
    add("--valid", required=True, metavar="FILE", help="pairs held out")
    add("--recipes", nargs="+", default=["base"], metavar="NAME=VALUE,...", help="changes to the base recipe, or base")
    add("--seeds", nargs="+", type=int, default=[0, 1, 2], metavar="N", help="one run each (0 1 2)")
    add("--seconds", type=float, default=300, help="of processor time a run, all threads together (300)")
    add("--threads", type=int, default=1, help="threads a run (1)")
    for name, value in (("words", 20_000), ("hidden", 256), ("layers", 8), ("heads", 8), ("seq_len", 64)):
        add(f"--{name}", type=int, default=value, help=f"({value})")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(args, Path(folder))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
