"""The plan of `plan_run.py --gpus`: a run on GPUs that are not here, by the formulas of `estimate.py`."""

from __future__ import annotations

import argparse
from math import ceil
from typing import TYPE_CHECKING

from .assembly import make_bert, training_arguments
from .errors import UsageError
from .estimate import (
    GIB,
    MOMENTS,
    SHARE_TO_USE,
    WAYS,
    Cluster,
    Sizes,
    Work,
    exchange,
    flops_of_step,
    largest_batch,
    memory,
    seconds_of_step,
    steps_within,
)

if TYPE_CHECKING:
    from .dataset import BERTDataset
    from .dataset.vocab import Vocab

TFLOPS = {"16": 312.0, "high": 156.0, "32": 19.5}
"""An A100's, by the numbers multiplied: of 16 bits, TF32, of 32 bits; its data sheet."""
GPU_GIB = 80.0
WITHIN_A_NODE, BETWEEN_NODES = 300.0, 25.0
"""GB a second in one direction: NVLink of an A100, and a network of 200 Gbit/s."""
EFFICIENCY = 0.3
_ON_PAPER = ("nodes", "gpu_memory", "gpu_tflops", "efficiency", "interconnect")
_MEASURED = ("memory_limit", "compare", "measure_steps")


def check_paper_flags(args: argparse.Namespace) -> None:
    """Refuse flags that have no effect with, or without, `--gpus`.

    Raises:
        UsageError: There is one.
    """
    names, where = (_ON_PAPER, "without --gpus") if args.gpus is None else (_MEASURED, "with --gpus, which measures nothing")
    for name in names:
        if getattr(args, name) not in (None, False):
            raise UsageError(f"--{name} has no effect {where}; leave one out [E-SETTING-CONFLICT]")
    if args.gpus is not None and args.deepspeed is not None:
        message = "--deepspeed: with --gpus plan ZeRO 2 as --sharding grad and ZeRO 3 as --sharding full"
        raise UsageError(f"{message}; leave one out [E-SETTING-CONFLICT]")


def cluster_of(args: argparse.Namespace) -> Cluster:
    """The hardware that the flags name."""
    nodes = args.nodes or 1
    kind = "16" if args.bf16 or args.fp16 else "high" if args.float32_matmul_precision == "high" else "32"
    link = args.interconnect or (WITHIN_A_NODE if nodes == 1 else BETWEEN_NODES)
    return Cluster(
        nodes=nodes,
        gpus=args.gpus,
        memory_bytes=(args.gpu_memory or GPU_GIB) * GIB,
        flops=(args.gpu_tflops or TFLOPS[kind]) * 1e12,
        efficiency=args.efficiency or EFFICIENCY,
        link_bytes=link * 1e9,
    )


def sizes_of(args: argparse.Namespace, vocab: Vocab) -> Sizes:
    """The model that the flags name, without making it."""
    import torch

    from .model import BERTLM

    with torch.device("meta"):
        model = BERTLM(make_bert(args, vocab), len(vocab))
    total = sum(each.numel() for each in model.parameters())
    in_blocks = sum(each.numel() for each in model.bert.transformer_blocks.parameters())
    return Sizes(
        hidden=args.hidden,
        feed_forward=model.bert.feed_forward_hidden,
        layers=args.layers,
        heads=args.attn_heads,
        vocab=len(vocab),
        in_blocks=in_blocks,
        outside=total - in_blocks,
        is_gated=args.architecture == "modernbert",
    )


def work_of(args: argparse.Namespace) -> Work:
    """What one process computes in a step; a batch that is computed in parts is so many smaller ones."""
    rows = max(1, args.tokens_per_batch // args.seq_len) if args.tokens_per_batch else args.batch_size
    n_parts = 1
    if args.tokens_per_part is not None:
        n_parts = -(-rows // max(1, args.tokens_per_part // args.seq_len))
    return Work(
        rows=-(-rows // n_parts),
        tokens=args.seq_len,
        target_share=args.mlm_probability,
        batches=args.gradient_accumulation_steps * n_parts,
        number_bytes=2 if args.bf16 or args.fp16 else 4,
        dropout=args.dropout > 0,
        checkpointing=args.gradient_checkpointing,
        moments=MOMENTS[args.optim],
    )


def plan_on_paper(args: argparse.Namespace, vocab: Vocab, dataset: BERTDataset) -> dict[str, object]:
    """The report; `ok` says whether the run fits."""
    sizes, work, cluster, way = sizes_of(args, vocab), work_of(args), cluster_of(args), args.sharding or "ddp"
    usable, n = SHARE_TO_USE * cluster.memory_bytes, cluster.processes
    parts = memory(sizes, work, n, way)
    of_ways = {each: sum(memory(sizes, work, n, each).values()) for each in WAYS}
    seconds = seconds_of_step(sizes, work, cluster, way)
    a_pair = (dataset.n_words + (dataset.encoded.n_columns + 1) * len(dataset)) / len(dataset)
    a_row = args.seq_len if args.packing else min(a_pair, args.seq_len)
    tokens = n * work.batches * work.rows * a_row
    pairs = n * work.batches * work.rows * max(1.0, args.seq_len / a_pair if args.packing else 1.0)
    a_pass = ceil(len(dataset) / pairs)
    n_steps = args.max_steps or a_pass * args.epochs
    training_arguments(args, n_steps)  # Refuses what the run itself would.
    budget = steps_within(seconds["step"], tokens, args.token_budget, args.max_minutes)
    report: dict[str, object] = {
        "ok": of_ways[way] <= usable,
        "parameters": sizes.parameters,
        "processes": n,
        "peak_memory_bytes": of_ways[way],
        "memory": parts,
        "peak_memory_bytes_by_way": of_ways,
        "free_memory_bytes": int(cluster.memory_bytes),
        "largest_batch_size": largest_batch(sizes, work, cluster, way),
        "planned_steps": n_steps,
        "steps_per_epoch": a_pass,
        "flops_per_step": n * flops_of_step(sizes, work),
        "exchanged_bytes_per_step": exchange(sizes, work, cluster, way)[0],
        "compute_seconds": seconds["compute"],
        "exchange_seconds": seconds["exchange"],
        "seconds_per_step": seconds["step"],
        "real_tokens_per_second": tokens / seconds["step"],
        "seconds_per_epoch": seconds["step"] * a_pass,
        "planned_seconds": seconds["step"] * n_steps,
        "budget_steps": budget,
        "budget_seconds": None if budget is None else seconds["step"] * budget,
    }
    advice = _advise(args, of_ways, usable, report, seconds)
    device = f"{cluster.nodes} x {cluster.gpus} GPUs, on paper"
    return {**report, "assumed": cluster._asdict(), "advice": advice, "device": device}


def _advise(
    args: argparse.Namespace, of_ways: dict[str, int], usable: float, report: dict[str, object], seconds: dict[str, float]
) -> list[str]:
    advice, way = [], args.sharding or "ddp"
    leaner = [each for each in WAYS[WAYS.index(way) + 1 :] if of_ways[each] <= usable]
    if not report["ok"] and leaner:
        advice.append(f"--sharding {leaner[0]}: {of_ways[leaner[0]] / GIB:.1f} GiB a GPU")
    if not report["ok"] and not args.gradient_checkpointing:
        advice.append("--gradient_checkpointing: less memory a row for a third more work")
    if not report["ok"] and report["largest_batch_size"]:
        tokens = int(str(report["largest_batch_size"])) * args.seq_len
        advice.append(f"--tokens_per_part {tokens}: the same steps, computed in parts that fit")
    if report["ok"] and way != "ddp" and of_ways["ddp"] <= usable:
        advice.append("copies fit too: without --sharding less is exchanged")
    if seconds["step"] > 1.1 * seconds["compute"]:
        share = 1 - seconds["compute"] / seconds["step"]
        advice.append(f"{share:.0%} of a step waits for the network: larger -b, or --gradient_accumulation_steps")
    return advice
