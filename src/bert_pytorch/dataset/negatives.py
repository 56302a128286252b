"""Partners for "not next" examples: a second text of another line, never equal to the true one."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b

from .draws import Draws


class Partners:
    """Draws a line whose second text differs from that of a given line, each such line with equal chance.

    Lines are sorted by a hash of their second text's words, so that lines with equal texts stand side by side and a draw can
    step over them: exact, without rejection, 24 bytes a line. Two texts of equal hash count as equal.
    """

    def __init__(self, second_texts: Iterable[str]) -> None:
        """Sort the lines by their second text.

        Args:
            second_texts: The second text of each line, in order.
        """
        hashes = array("q", (_hash(text) for text in second_texts))
        self._order = array("q", sorted(range(len(hashes)), key=hashes.__getitem__))
        self._group = array("q", bytes(8 * len(hashes)))
        start = 0
        for rank, line in enumerate(self._order):
            if hashes[line] != hashes[self._order[start]]:
                start = rank
            self._group[line] = start
        self._group_end = array("q", bytes(8 * len(hashes)))
        end = len(hashes)
        for rank in range(len(hashes) - 1, -1, -1):
            self._group_end[rank] = end
            if self._group[self._order[rank]] == rank:
                end = rank

    def draw(self, line: int, draws: Draws) -> int | None:
        """The index of a line with another second text, or None when all lines have the same."""
        start = self._group[line]
        end = self._group_end[start]
        n_others = len(self._order) - (end - start)
        if not n_others:
            return None
        rank = draws.integer(n_others)
        return self._order[rank if rank < start else rank + end - start]


def _hash(text: str) -> int:
    digest = blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
