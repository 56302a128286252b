#!/usr/bin/env python3
"""Say before a run what it takes: parameters, memory, time, and the largest batch that fits. Takes the flags of bert.

A few steps are done on real batches and thrown away; memory is that of a batch whose rows are all full. With -o or --cache_dir
the corpus stays encoded for the run itself. --max_minutes M, of bert, asks here for the --max_steps that fit into M minutes,
30 % of them left for evaluating and saving. --gpus measures nothing: it plans for other hardware by formulas that
references/distributed.md states. Exit 0: the run fits; 1: it does not, and the advice says what to change.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.assembly import check_device_flags, make_loaders, make_trainer, plan_steps
from bert_pytorch.cli import bert_parser
from bert_pytorch.command import Parser, at_least, between, run, say
from bert_pytorch.estimate import GIB, SHARE_TO_USE, steps_within
from bert_pytorch.inputs import check_data_flags, open_datasets
from bert_pytorch.memory import free_bytes, peak_memory_bytes
from bert_pytorch.paper_plan import check_paper_flags, plan_on_paper

if TYPE_CHECKING:
    from torch import Tensor

    from bert_pytorch import BERTDataset, BERTTrainer
    from bert_pytorch.dataset.vocab import Vocab

N_WARM_UP, N_MEASURED = 2, 8
BYTES_PER_PARAMETER = 16
"""Weight, gradient and two moments of AdamW, four bytes each."""
BITS = "float32_matmul_precision"
WAYS = {"bf16": {"bf16": True, "fp16": False}, f"{BITS} medium": {BITS: "medium"}, "torch_compile": {"torch_compile": True}}
PAYS = 0.95
"""One of them pays when a step takes at most this share of its time."""
TIMES = ("seconds_per_step", "real_tokens_per_second", "seconds_per_epoch", "planned_seconds", "budget_steps", "budget_seconds")


class PlanParser(Parser):
    """Own flags, which the help shows, and all of `bert` besides."""

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse a command line; `words` of the result is the line itself."""
        words = list(sys.argv[1:] if argv is None else argv)
        if {"-h", "--help"} & set(words):
            self.print_help()
            self.exit(0)
        planner = bert_parser()
        planner.prog = self.prog
        add_flags(planner)
        return argparse.Namespace(**vars(planner.parse(words)), words=words)


def add_flags(parser: Parser) -> None:
    """The flags that are not of `bert`."""
    add = parser.add_argument
    add("--token_budget", type=at_least(1), metavar="N", help="also plan for N real tokens in all")
    add("--memory_limit", type=between(0, float("inf"), above=True), metavar="GIB", help="memory to plan for (what is free)")
    add("--measure_steps", type=at_least(1), metavar="N", help="steps that are timed (8)")
    add("--compare", action="store_true", help="also time fewer bits, --torch_compile and one thread: minutes")
    above_0 = between(0, float("inf"), above=True)
    add("--gpus", type=at_least(1), metavar="N", help="measure nothing: plan on paper for N GPUs a node, with --sharding too")
    add("--nodes", type=at_least(1), metavar="N", help="so many nodes (1)")
    add("--gpu_memory", type=above_0, metavar="GIB", help="of each GPU (80)")
    add("--gpu_tflops", type=above_0, metavar="X", help="of its data sheet (A100: 312; TF32 156, 32 bits 19.5)")
    add("--efficiency", type=between(0, 1, above=True), metavar="X", help="share of these that a run gets (0.3)")
    add("--interconnect", type=above_0, metavar="GB", help="a second, slowest link (one node 300, several 25)")
    add("--json", action="store_true", help="print the closing JSON line only")
    add("--rows", type=at_least(1), help=argparse.SUPPRESS)


class Memory(NamedTuple):
    """Bytes of a run: those that any batch takes, those that a row of `seq_len` tokens adds, and those there are."""

    fixed: float
    per_row: float
    free: int | None

    @property
    def largest_batch(self) -> int | None:
        """Rows that fit; None where the free memory is not known."""
        return None if self.free is None else max(0, int((SHARE_TO_USE * self.free - self.fixed) / self.per_row))


def measure_peak(args: argparse.Namespace, vocab: Vocab) -> dict[str, object]:
    """In a process of its own: the most memory that two steps take on batches of `--rows` full rows."""
    import torch

    draws = torch.Generator().manual_seed(args.seed)
    ids = torch.randint(1, len(vocab), (args.rows, args.seq_len), generator=draws)
    is_target = torch.rand(ids.shape, generator=draws) < args.mlm_probability
    batch: dict[str, Tensor] = {"bert_input": ids, "bert_label": ids * is_target, "segment_label": torch.ones_like(ids)}
    if args.objective != "mlm":
        batch["is_next"] = torch.zeros(args.rows, dtype=torch.int64)
    args.warmup_steps = 0
    trainer = make_trainer(args, vocab, [batch] * 2, None, check_device_flags(args), max_steps=2)
    trainer.train(0)
    return {"ok": True, "peak": peak_memory_bytes(trainer.device) if trainer.step.n_parts == 1 else None}


def peak_of(args: argparse.Namespace, rows: int) -> int:
    """What `measure_peak` reports in a process of its own; beyond all bounds where that process did not live to tell."""
    command = [sys.executable, __file__, *args.words, "--rows", str(rows), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    try:
        return int(json.loads(done.stdout.splitlines()[-1])["peak"])
    except (IndexError, KeyError, TypeError, ValueError):
        return sys.maxsize


def measure_memory(args: argparse.Namespace, n_parameters: int, n_rows: int, free: int | None) -> Memory:
    """The peaks of two small batches, and the line through them."""
    if free is not None and BYTES_PER_PARAMETER * n_parameters > free:
        return Memory(BYTES_PER_PARAMETER * n_parameters, 1.0, free)
    sizes = max(1, n_rows // 4), max(2, n_rows // 2)
    peaks = [peak_of(args, rows) for rows in sizes]
    per_row = max(1.0, (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]))
    return Memory(peaks[0] - per_row * sizes[0], per_row, free)


def time_steps(trainer: BERTTrainer, batches: Sequence[dict[str, Tensor]], n_together: int) -> dict[str, float]:
    """Seconds of the first steps, seconds and real tokens of a step after them; a step has `n_together` batches."""
    import torch

    seconds, report, n_first = [], {}, N_WARM_UP * n_together
    # As many steps as there are batches, however long the plan.
    trainer.max_steps = None
    for part in (batches[:n_first], batches[n_first:]):
        trainer.train_data, began = part, time.perf_counter()
        report = trainer.train(0)
        if trainer.device.type == "cuda":
            torch.cuda.synchronize(trainer.device)
        seconds.append(time.perf_counter() - began)
    n_steps = report["steps"]
    return {"first": seconds[0], "step": seconds[1] / n_steps, "tokens": report["real_tokens"] / n_steps}


def compare_ways(
    args: argparse.Namespace, vocab: Vocab, dataset: BERTDataset, batches: Sequence[dict[str, Tensor]], n_planned: int
) -> tuple[dict[str, float], list[str]]:
    """The time of a step computed in other ways, over that of the plain way, and what to do with the answer."""
    import torch

    n_threads, ratios, advice = torch.get_num_threads(), {}, []
    ways: dict[str, dict[str, bool | str]] = dict(WAYS)
    if not torch.cuda.is_available() and n_threads > 1:
        ways["OMP_NUM_THREADS=1"] = {}
    for name, change in ways.items():
        times = []
        for settings in ({}, change):
            torch.set_num_threads(1 if settings is change and not change else n_threads)
            changed = argparse.Namespace(**{**vars(args), **settings})
            trainer = make_trainer(changed, vocab, batches, None, check_device_flags(args), n_planned, dataset)
            times.append(time_steps(trainer, batches, args.gradient_accumulation_steps))
        torch.set_num_threads(n_threads)
        plain, other = times
        ratios[name] = other["step"] / plain["step"]
        repaid = (other["first"] - plain["first"]) / max(1e-9, plain["step"] - other["step"])
        flag = name if "=" in name else f"--{name}"
        pays = ratios[name] <= PAYS and repaid < n_planned
        advice.append(f"{flag} {'pays' if pays else 'does not pay'}: a step takes {ratios[name]:.0%} of the time")
    return ratios, advice


def advise(args: argparse.Namespace, memory: Memory, n_parameters: int, n_rows: int, padding: float) -> list[str]:
    """What to change so that the run fits, and what wastes its time."""
    advice, largest = [], memory.largest_batch
    if largest is not None and largest < n_rows:
        if not args.gradient_checkpointing:
            advice.append("--gradient_checkpointing: less memory a row for a third more work")
        if largest:
            advice.append(
                f"--tokens_per_part {max(1, largest * 7 // 8) * args.seq_len}: the same steps, computed in parts that fit"
            )
        else:
            needs = BYTES_PER_PARAMETER * n_parameters / GIB
            advice.append(f"not one row fits; weights and AdamW alone take {needs:.1f} GiB: lower -hs, -l or the vocabulary")
    if padding > 0.1 and not args.packing:
        advice.append(f"{padding:.0%} of the places are padding: --group_by_length, or --packing")
    return advice


def work(args: argparse.Namespace) -> dict[str, object]:
    """Measure and plan; `ok` says whether the run fits."""
    from bert_pytorch.dataset.vocab import Vocab

    check_paper_flags(args)
    with_cuda = args.gpus is None and check_device_flags(args)
    vocab = Vocab.load_vocab(args.vocab_path)
    if args.rows is not None:
        return measure_peak(args, vocab)
    with tempfile.TemporaryDirectory() as folder:
        args.output_path = args.output_path or f"{folder}/bert.model"
        check_data_flags(args)
        args.test_dataset = None
        dataset, _ = open_datasets(args, vocab)
        if args.gpus is not None:
            return shown(args, plan_on_paper(args, vocab, dataset))
        loader, _ = make_loaders(args, dataset, None, with_cuda)
        batches = list(islice(loader, (N_WARM_UP + (args.measure_steps or N_MEASURED)) * args.gradient_accumulation_steps))
        while len(batches) <= N_WARM_UP * args.gradient_accumulation_steps:
            batches *= 2
        return plan(args, vocab, dataset, batches, plan_steps(args, loader), loader.count_batches(0))


def plan(
    args: argparse.Namespace,
    vocab: Vocab,
    dataset: BERTDataset,
    batches: list[dict[str, Tensor]],
    n_planned: int,
    n_batches_a_pass: int,
) -> dict[str, object]:
    """The report, from some batches of a run of `n_planned` steps."""
    trainer = make_trainer(args, vocab, batches, None, check_device_flags(args), n_planned, dataset)
    n_parameters = sum(parameter.numel() for parameter in trainer.language_model.parameters())
    n_rows = args.tokens_per_batch // args.seq_len if args.tokens_per_batch else args.batch_size
    if args.tokens_per_part is not None:
        n_rows = min(n_rows, max(1, args.tokens_per_part // args.seq_len))
    memory = measure_memory(args, n_parameters, n_rows, free_bytes(trainer.device, args.memory_limit))
    fits = memory.free is None or memory.fixed + memory.per_row * n_rows <= SHARE_TO_USE * memory.free
    padding = sum(float((batch["bert_input"] == 0).float().mean()) for batch in batches) / len(batches)
    advice, ratios, timed = advise(args, memory, n_parameters, n_rows, padding), {}, None
    if fits:
        timed = time_steps(trainer, batches, args.gradient_accumulation_steps)
    if fits and args.compare:
        ratios, more = compare_ways(args, vocab, dataset, batches, n_planned)
        advice += more
    report = {
        "ok": fits,
        "parameters": n_parameters,
        "peak_memory_bytes": int(memory.fixed + memory.per_row * n_rows),
        "free_memory_bytes": memory.free,
        "largest_batch_size": memory.largest_batch,
        "padding_share": padding,
        "planned_steps": n_planned,
        "steps_per_epoch": -(-n_batches_a_pass // args.gradient_accumulation_steps),
    }
    report |= times(report, timed, args)
    return shown(args, {**report, "step_time_ratios": ratios, "advice": advice, "device": str(trainer.device)})


def times(report: dict[str, object], timed: dict[str, float] | None, args: argparse.Namespace) -> dict[str, object]:
    """Seconds of a step, of a pass, of the plan, and of the tokens or minutes asked for; null where nothing was timed."""
    if timed is None:
        return dict.fromkeys(TIMES)
    seconds = timed["step"]
    n_steps = steps_within(seconds, timed["tokens"], args.token_budget, args.max_minutes)
    values = (
        *(seconds, timed["tokens"] / seconds, seconds * report["steps_per_epoch"], seconds * report["planned_steps"]),
        *(n_steps, None if n_steps is None else seconds * n_steps),
    )
    return dict(zip(TIMES, values, strict=True))


def shown(args: argparse.Namespace, report: dict[str, object]) -> dict[str, object]:
    """Say a report to a human reader, and return it."""
    for line in (*facts(report), *(f"- {line}" for line in report["advice"])):
        say(args, line)
    return report


def facts(report: dict[str, object]) -> list[str]:
    """The report for a human reader."""
    free = report["free_memory_bytes"]
    memory = f"{report['peak_memory_bytes'] / GIB:.2f} GiB" + ("" if free is None else f" of {free / GIB:.2f} GiB free")
    lines = [f"{report['parameters']:,} parameters", f"{memory}, largest batch {report['largest_batch_size']}"]
    if report["seconds_per_step"] is not None:
        lines.append(f"{report['seconds_per_step']:.3g} s a step, {report['real_tokens_per_second']:.0f} tokens/s")
        lines.append(f"{report['planned_steps']} steps planned: {report['planned_seconds'] / 60:.1f} minutes")
    if report["budget_steps"] is not None:
        lines.append(f"budget: --max_steps {report['budget_steps']}: {report['budget_seconds'] / 60:.1f} minutes")
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and plan."""
    parser = PlanParser(description=__doc__, usage="%(prog)s -c FILE -v FILE [other flags of bert] [flags below]")
    add_flags(parser)
    return run(parser, work, argv)


if __name__ == "__main__":
    sys.exit(main())
