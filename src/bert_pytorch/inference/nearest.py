"""The lines of a text that lie nearest to others, by the angle between their vectors.

Shapes: n lines, q queries, D hidden size.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

_AT_ONCE = 4096


class Near(NamedTuple):
    """A line near to another."""

    number: int
    """From 0."""
    similarity: float
    """Cosine of the angle, -1 to 1."""


def nearest(queries: Tensor, lines: Tensor, top_k: int, *, is_same: bool = False) -> list[list[Near]]:
    """For each query the `top_k` nearest lines, nearest first; equal ones by number.

    Args:
        queries: `[q, D]`.
        lines: `[n, D]`.
        top_k: At most as many as there are.
        is_same: The queries are the lines themselves: none is near to itself.
    """
    own_nD = F.normalize(lines, dim=-1)
    found: list[list[Near]] = []
    for start in range(0, len(queries), _AT_ONCE):
        part_qD = F.normalize(queries[start : start + _AT_ONCE], dim=-1)
        cosines_qn = part_qD @ own_nD.T
        if is_same:
            rows = torch.arange(len(part_qD))
            cosines_qn[rows, rows + start] = -torch.inf
        top = cosines_qn.topk(min(top_k, len(lines) - is_same))
        for numbers, values in zip(top.indices.tolist(), top.values.tolist(), strict=True):
            found.append(
                sorted(
                    (Near(*each) for each in zip(numbers, values, strict=True)),
                    key=lambda near: (-near.similarity, near.number),
                )
            )
    return found
