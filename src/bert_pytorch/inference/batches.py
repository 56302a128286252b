"""Sequences of any length by like length, and a function run over the batches on every core.

Shapes: B sequences, L tokens per sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor

from ..memory import keep_freed_memory

TOKENS_AT_ONCE = 4096
"""Of rows with hidden words, mostly of small models, to which a batch costs more than its caches do."""


def by_length(lengths: Sequence[int], tokens_per_batch: int) -> list[list[int]]:
    """Numbers of sequences, those of like length together, long ones first, as many as fit into a batch with its padding."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not batches or lengths[batches[-1][0]] * (len(batches[-1]) + 1) > tokens_per_batch:
            batches.append([])
        batches[-1].append(i)
    return batches


def pad(seqs: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Sequences as one tensor `[B, L]` int64, 0 behind their ends."""
    longest = max(map(len, seqs))
    return torch.tensor([[*seq, *[0] * (longest - len(seq))] for seq in seqs], device=device)


def run_over(batches: Sequence[list[int]], work: Callable[[list[int]], None], device: torch.device) -> None:
    """Run `work` on each batch, without gradients; on a CPU one batch a core at a time.

    Cores that share one batch wait for each other at every operation: two cores with a batch each took a tenth to a fifth less.
    """
    n_threads = torch.get_num_threads()
    if device.type != "cpu" or n_threads < 2 or len(batches) < 2:
        with torch.inference_mode():
            for batch in batches:
                work(batch)
        return
    keep_freed_memory()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(n_threads, initializer=partial(torch.set_num_threads, 1)) as pool:
            for _ in pool.map(partial(_without_gradients, work), batches):
                pass
    finally:
        torch.set_num_threads(n_threads)


def _without_gradients(work: Callable[[list[int]], None], batch: list[int]) -> None:
    # Whether gradients are kept is a setting of each thread.
    with torch.inference_mode():
        work(batch)
