"""In which order examples are seen."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler

from .draws import mix


class EpochSampler(Sampler[int]):
    """All indices once a pass, in an order that is a function of `(seed, epoch)` alone."""

    def __init__(self, n_examples: int, seed: int = 0, shuffle: bool = True) -> None:
        """Set the orders.

        Args:
            n_examples: Size of the dataset.
            seed: Decides the orders.
            shuffle: Otherwise the order is 0, 1, 2, ... in every pass.
        """
        self.n_examples = n_examples
        self.seed = seed
        self.shuffle = shuffle
        self._epoch = 0
        self._start = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the pass, from 0."""
        self._epoch = epoch

    def start_at(self, n_seen: int) -> None:
        """Leave out the first `n_seen` indices of the next pass: how a run that stopped within a pass goes on."""
        self._start = n_seen

    def __len__(self) -> int:
        """Count the indices of a whole pass."""
        return self.n_examples

    def __iter__(self) -> Iterator[int]:
        """Go through the pass that was chosen."""
        start, self._start = self._start, 0
        if not self.shuffle:
            yield from range(start, self.n_examples)
            return
        generator = torch.Generator().manual_seed(mix(self.seed, self._epoch) >> 1)
        yield from torch.randperm(self.n_examples, generator=generator)[start:].tolist()
