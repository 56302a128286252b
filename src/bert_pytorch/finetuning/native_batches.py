"""Batches of like length: rows that are drawn together are sorted, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .collating import PaddingCollator
from .features import Features

_CHUNK = 50
"""Batches that are made of rows drawn together."""


class NativeBatches:
    """The batches of a file, in an order that seed and pass alone decide.

    Attributes:
        features: What they are made of.
    """

    def __init__(self, features: Features, collator: PaddingCollator, batch_size: int, seed: int) -> None:
        """Make batches of so many rows."""
        self.features, self.collator, self.batch_size, self.seed = features, collator, batch_size, seed
        self.lengths = [len(item["input_ids"]) for item in features.items]

    def __len__(self) -> int:
        """Count the batches of a pass."""
        return -(-len(self.lengths) // self.batch_size)

    def shuffled(self, epoch: int) -> list[list[int]]:
        """The rows of each batch of a pass."""
        generator = torch.Generator().manual_seed((self.seed << 20) + epoch)
        order: list[int] = torch.randperm(len(self.lengths), generator=generator).tolist()
        size = self.batch_size * _CHUNK
        batches = []
        for start in range(0, len(order), size):
            chunk = sorted(order[start : start + size], key=self.lengths.__getitem__)
            batches += [chunk[i : i + self.batch_size] for i in range(0, len(chunk), self.batch_size)]
        places: list[int] = torch.randperm(len(batches), generator=generator).tolist()
        return [batches[i] for i in places]

    def sorted(self) -> list[list[int]]:
        """The rows of each batch from short to long, for evaluation."""
        order = sorted(range(len(self.lengths)), key=self.lengths.__getitem__)
        return [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]

    def make(self, rows: Sequence[int]) -> dict[str, Tensor]:
        """The batch of some rows."""
        return self.collator([self.features.items[i] for i in rows])

    def evaluation(self) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
        """Rows and batch, from short to long."""
        for rows in self.sorted():
            yield rows, self.make(rows)
