"""Memory and time of a run on many GPUs, on paper: arithmetic on sizes, which `references/distributed.md` states.

Letters: D hidden size, F feed-forward size, V vocabulary size, L tokens of a row, N processes, P parameters.
"""

from __future__ import annotations

from math import ceil, log2
from typing import NamedTuple

FULL_BYTES = 4
"""Weights, gradients and moments are of 32 bits, under autocast too."""
GIB = 1 << 30
RUNTIME_BYTES = 3 * GIB // 2
"""What CUDA, its libraries and the exchange take before a model is there; an assumption."""
SHARE_TO_USE = 0.9
"""Of a GPU's memory: the allocator needs room between what is allocated."""
SHARE_TO_TRAIN = 0.7
"""Of the minutes a run may take; the rest is for evaluating, saving, and a machine that is busier than now."""
LATENCY_SECONDS = 20e-6
"""Of one exchange, for each doubling of the processes; an assumption."""
OVERLAP = 2 / 3
"""Share of the computation, that of the way back, behind which exchanges can hide."""
_BUCKET_BYTES = 25 << 20
_SCORES_AT_ONCE = 1 << 26
MOMENTS = {
    **dict.fromkeys(("adamw_torch_fused", "adamw_torch", "nadam", "nadamw", "radam", "adamax", "adadelta", "rprop"), 2),
    **{"adagrad": 1, "rmsprop": 1, "asgd": 1, "sgd": 0, "adafactor": 0, "muon": 2},
}
"""Numbers that an optimiser keeps for a weight; with momentum (`--optim_args`) some keep one more, and Muon one less."""
WAYS = ("ddp", "grad", "full")


class Sizes(NamedTuple):
    """A model."""

    hidden: int
    feed_forward: int
    layers: int
    heads: int
    vocab: int
    in_blocks: int
    """Parameters of all blocks."""
    outside: int
    """All others."""
    is_gated: bool = False
    """Whether the feed-forward part is GeGLU."""

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.in_blocks + self.outside


class Work(NamedTuple):
    """What one process computes in a step."""

    rows: int
    """Of one batch."""
    tokens: int
    """Of a row, padding included."""
    target_share: float
    batches: int = 1
    """A step, one after the other, or parts of one."""
    number_bytes: int = 4
    """Of what layers hand on: 4, or 2 under `--bf16` and `--fp16`."""
    dropout: bool = True
    checkpointing: bool = False
    moments: int = 2


class Cluster(NamedTuple):
    """The hardware. Rates are of one GPU and of the slowest link between two of them."""

    nodes: int
    gpus: int
    memory_bytes: float
    flops: float
    """A second, of the kind of numbers that are multiplied."""
    efficiency: float
    """Share of them that a run gets."""
    link_bytes: float
    """A second."""

    @property
    def processes(self) -> int:
        """One a GPU."""
        return self.nodes * self.gpus


def activation_bytes(sizes: Sizes, work: Work) -> int:
    """What one row leaves of its way forth for its way back, with fused attention.

    Source: the count of Korthikanti et al. 2022 (arXiv 2205.05198), section 4.1, for these blocks; norms keep 32 bits.
    """
    hidden, a = sizes.hidden, work.number_bytes
    # Inputs of two norms; of projections, queries to values, results of attention, input of the feed-forward part.
    layer = 2 * FULL_BYTES * hidden + 6 * a * hidden + (4 if sizes.is_gated else 2) * a * sizes.feed_forward
    layer += FULL_BYTES * sizes.heads + 2 * hidden * work.dropout
    if work.checkpointing:
        layers = sizes.layers * FULL_BYTES * hidden + layer
    else:
        layers = sizes.layers * layer
    embedding = (FULL_BYTES + work.dropout) * hidden
    head = work.target_share * hidden * (3 * a + 2 * FULL_BYTES)
    return ceil(work.tokens * (layers + embedding + head))


def memory(sizes: Sizes, work: Work, n_processes: int, way: str) -> dict[str, int]:
    """Bytes of one process, by what they are for.

    Args:
        sizes: The model.
        work: Its share of a step.
        n_processes: N.
        way: `ddp`, `grad` or `full`.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), sections 3 and 5.
    """
    n, kept, total = n_processes if way != "ddp" else 1, FULL_BYTES * sizes.parameters, sizes.parameters
    block = ceil(sizes.in_blocks / max(1, sizes.layers))
    # Beside the share: all weights from the way forth to the way back, or those outside of blocks and two blocks'.
    gathered = {"ddp": 0, "grad": kept, "full": FULL_BYTES * (sizes.outside + 2 * block)}[way] if n > 1 else 0
    # Gradients are whole until they are exchanged, behind the last batch of a step.
    whole = 0 if n == 1 else kept if work.batches > 1 else FULL_BYTES * (sizes.outside + 2 * block)
    scores = min(_SCORES_AT_ONCE, ceil(work.rows * work.tokens * work.target_share) * sizes.vocab)
    head = FULL_BYTES * (sizes.vocab * sizes.hidden + 3 * scores)
    return {
        "weights": ceil(kept / n),
        "gradients": ceil(kept / n),
        "moments": ceil(work.moments * kept / n),
        "gathered": gathered + whole,
        "copies": work.number_bytes * total if work.number_bytes < FULL_BYTES else 0,
        "head": head,
        "activations": work.rows * activation_bytes(sizes, work),
        "runtime": RUNTIME_BYTES,
    }


def flops_of_step(sizes: Sizes, work: Work) -> float:
    """Multiplications and additions of one process in a step; the way back takes twice those of the way forth."""
    n_tokens = work.rows * work.tokens
    block = 2 * sizes.in_blocks + 4 * work.tokens * sizes.hidden * sizes.layers
    head = 2 * work.target_share * sizes.hidden * (sizes.hidden + sizes.vocab)
    return work.batches * n_tokens * ((4 if work.checkpointing else 3) * block + 3 * head)


def exchange(sizes: Sizes, work: Work, cluster: Cluster, way: str) -> tuple[float, float]:
    """Bytes that the slowest link carries in a step, and seconds that this takes."""
    n = cluster.processes
    if n == 1:
        return 0.0, 0.0
    kept = FULL_BYTES * sizes.parameters
    # Gathering all weights, or sharing all gradients out, moves (N - 1) / N of them; DDP's all-reduce is both.
    n_moves = {"ddp": 2, "grad": work.batches + 1, "full": 2 * work.batches + 1}[way]
    n_calls = ceil(kept / _BUCKET_BYTES) if way == "ddp" else n_moves * (sizes.layers + 1)
    n_bytes = n_moves * kept * (n - 1) / n
    return n_bytes, n_bytes / cluster.link_bytes + n_calls * LATENCY_SECONDS * log2(n)


def seconds_of_step(sizes: Sizes, work: Work, cluster: Cluster, way: str) -> dict[str, float]:
    """Seconds of a step: of computing, of exchanging, and of both where one hides behind the other."""
    compute = flops_of_step(sizes, work) / (cluster.flops * cluster.efficiency)
    moving = exchange(sizes, work, cluster, way)[1]
    return {"compute": compute, "exchange": moving, "step": compute + max(0.0, moving - OVERLAP * compute)}


def largest_batch(sizes: Sizes, work: Work, cluster: Cluster, way: str) -> int:
    """Rows of a batch that fit; 0 where not one does."""
    low, high = 0, 1 << 24
    while low < high:
        rows = (low + high + 1) // 2
        taken = sum(memory(sizes, work._replace(rows=rows), cluster.processes, way).values())
        low, high = (rows, high) if taken <= SHARE_TO_USE * cluster.memory_bytes else (low, rows - 1)
    return low


def steps_within(step_seconds: float, step_tokens: float, tokens: int | None, minutes: float | None) -> int | None:
    """Steps for a budget of tokens, or that fit into minutes; the fewer where both are given, None where neither is.

    Args:
        step_seconds: Of one step.
        step_tokens: Real tokens of one step.
        tokens: To be trained on.
        minutes: That the whole run may take.
    """
    bounds = [] if tokens is None else [ceil(tokens / max(1, round(step_tokens)))]
    bounds += [] if minutes is None else [max(1, int(SHARE_TO_TRAIN * 60 * minutes / step_seconds))]
    return min(bounds, default=None)
