"""Sequences of different lengths, one after the other in one tensor, without a step of Python for each.

Shapes: n sequences, T elements of all of them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def ramps(starts_n: Tensor, lengths_n: Tensor, step: int = 1) -> Tensor:
    """For each sequence `start, start + step, ...`, as many as its length: `[T]`, int64 like `starts_n`, wrapping round."""
    if not bool(lengths_n.all()):
        is_some_n = lengths_n > 0
        starts_n, lengths_n = starts_n[is_some_n], lengths_n[is_some_n]
    ends_n = lengths_n.cumsum(0)
    steps_T = torch.full((int(ends_n[-1]) if len(ends_n) else 0,), step)
    # Where a sequence begins, the step leads there from the last element of the one before.
    jumps_n = starts_n.clone()
    jumps_n[1:] -= starts_n[:-1] + (lengths_n[:-1] - 1).mul_(step)
    steps_T.scatter_(0, ends_n - lengths_n, jumps_n)
    return torch.cumsum(steps_T, 0, out=steps_T)


def bands(size: int, starts_n: Tensor, ends_n: Tensor, values_n: Tensor) -> Tensor:
    """A tensor `[size]` with a value at each place from a start up to its end, which do not overlap, and 0 elsewhere."""
    steps = values_n.new_zeros(size + 1)
    steps.scatter_add_(0, starts_n, values_n).scatter_add_(0, ends_n, -values_n)
    return torch.cumsum(steps, 0, out=steps)[:size]
