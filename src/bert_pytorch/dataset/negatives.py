"""Partners for "not next" examples: a second text of another line, never equal to the true one.

Shapes: N lines of the corpus, n examples.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .tensor_draws import integers


class PartnerDraws(Protocol):
    """What draws partners."""

    def draw(self, lines_n: Tensor, bits_n: Tensor) -> tuple[Tensor, Tensor]:
        """As `Partners.draw`."""
        ...


class Partners(NamedTuple):
    """Draws a line whose second text differs from that of a given line, each such line with equal chance.

    Lines are sorted by the hash of their second text's ids, so that lines with equal texts stand side by side and a draw can
    step over them: exact, without rejection, 12 bytes a line. Two texts of equal hash count as equal.
    """

    order: Tensor
    """Lines sorted by their second text, `[N]` int32."""
    group_start: Tensor
    """Where in `order` the lines with the same second text as this line begin, `[N]` int32."""
    group_size: Tensor
    """How many these are, `[N]` int32."""

    @classmethod
    def of(cls, hashes_N: Tensor, most_at_once: int = 1 << 22) -> Partners:
        """Sort the lines.

        Args:
            hashes_N: A hash of each line's second text, int64.
            most_at_once: Lines to sort at once, about; more are sorted by ranges of hashes, so that memory stays bounded.
        """
        n_lines = hashes_N.numel()
        table = cls(*(torch.empty(n_lines, dtype=torch.int32) for _ in range(3)))
        n_parts = max(1, -(-n_lines // most_at_once))
        edges = [-(1 << 63) + (part << 64) // n_parts for part in range(n_parts)]
        n_sorted = 0
        for low, high in zip(edges, [*edges[1:], None], strict=True):
            is_here_N = hashes_N >= low
            lines = (is_here_N if high is None else is_here_N.logical_and_(hashes_N < high)).nonzero()[:, 0]
            hashes, places = hashes_N[lines].sort(stable=True)
            lines = lines[places]
            sizes = hashes.unique_consecutive(return_counts=True)[1]
            starts = sizes.cumsum(0) - sizes + n_sorted
            table.order[n_sorted : n_sorted + lines.numel()] = lines.int()
            table.group_start[lines] = starts.repeat_interleave(sizes).int()
            table.group_size[lines] = sizes.repeat_interleave(sizes).int()
            n_sorted += lines.numel()
        return table

    def draw(self, lines_n: Tensor, bits_n: Tensor) -> tuple[Tensor, Tensor]:
        """A partner for each line.

        Args:
            lines_n: Lines, int64.
            bits_n: A draw for each.

        Returns:
            The partners `[n]`, and whether there is any `[n]`; where all lines have the same second text, the line itself.
        """
        start_n, size_n = (table.index_select(0, lines_n).long() for table in (self.group_start, self.group_size))
        n_others = self.order.numel() - size_n
        rank_n = integers(bits_n, n_others)
        rank_n += size_n * (rank_n >= start_n)
        has_any_n = n_others > 0
        others_n = self.order.index_select(0, rank_n.clamp_(max=self.order.numel() - 1)).long()
        return torch.where(has_any_n, others_n, lines_n), has_any_n
