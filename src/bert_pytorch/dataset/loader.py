"""Batches of a dataset, prepared many at a time."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..errors import InputError, UsageError
from ..memory import keep_freed_memory
from .batching import BatchShape, EpochOrder, Layout, cut_batches, fill_rows, lay_out, lay_out_counts, take_rows
from .draws import mix
from .examples import Chosen
from .sharded import ShardedCorpus

if TYPE_CHECKING:
    from .dataset import BERTDataset

_WINDOW_TOKENS = 1 << 20
_WINDOW_EXAMPLES = 1 << 14
"""Texts are chosen for so many examples together, about: so many that a call of torch costs little an example. It is also what
lengths are sorted within."""
_PART_PLACES = 1 << 19
"""Rows are filled for so many tokens together: so few that they stay near the processor, so many that calls cost little."""

_SECONDS_TO_FINISH = 2


class Part(NamedTuple):
    """Some neighbouring batches of a pass."""

    rows: dict[str, Tensor]
    shapes: list[BatchShape]


class BatchLoader:
    """All examples of a dataset once a pass, in batches.

    A batch is a function of the dataset, the settings, `(seed, epoch)` and its number: the same with any number of workers, and
    after `start_at`.

    Attributes:
        dataset, batch_size: As given.
    """

    def __init__(
        self,
        dataset: BERTDataset,
        batch_size: int,
        n_workers: int = 0,
        *,
        shuffle: bool = False,
        pin_memory: bool = False,
        tokens_per_batch: int | None = None,
        group_by_length: bool = False,
        packing: bool = False,
        pad_to_multiple_of: int = 1,
        rank: int = 0,
        n_ranks: int = 1,
    ) -> None:
        """Set how batches are made.

        Args:
            dataset: The examples; its seed also decides the order.
            batch_size: Examples a batch, with `packing` rows; the last batch of a pass may be smaller.
            n_workers: Processes that prepare batches; 0: the training process does.
            shuffle: A new order each pass.
            pin_memory: Put batches into page-locked memory, for faster copies to a GPU.
            tokens_per_batch: Most tokens a batch, padding included, in place of `batch_size`.
            group_by_length: Examples of like length share a batch, so that less is padded; one of the longest comes first.
            packing: Several examples share a row, which `example` tells apart; nearly nothing is padded.
            pad_to_multiple_of: Rows are padded to a multiple of so many tokens, or to `seq_len`: fewer shapes for a compiler,
                and for what a CPU keeps of each shape.
            rank: Number of this process among those that share each batch, from 0.
            n_ranks: How many these are; each takes every `n_ranks`-th example of the batch that one process would have.

        Raises:
            UsageError: Settings contradict each other.
            InputError: A batch is smaller than the number of processes, or than one example.
        """
        if packing and group_by_length:
            raise UsageError("--group_by_length has no effect with --packing; leave one out [E-SETTING-CONFLICT]")
        if packing and pad_to_multiple_of > 1:
            raise UsageError("--pad_to_multiple_of has no effect with --packing; leave one out [E-SETTING-CONFLICT]")
        if tokens_per_batch is not None and tokens_per_batch < dataset.seq_len:
            message = f"tokens_per_batch is {tokens_per_batch}, expected at least seq_len, {dataset.seq_len}"
            raise InputError(f"{message}; raise it or lower seq_len [E-DATA-BATCH]")
        if not (0 <= rank < n_ranks and batch_size >= n_ranks):
            message = f"rank {rank} of {n_ranks} with batches of {batch_size}"
            raise InputError(f"{message}: expected ranks from 0 and an example for each [E-DATA-BATCH]")
        self.dataset = dataset
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.shuffle = shuffle
        self.pin_memory = pin_memory
        self.tokens_per_batch = tokens_per_batch
        self.group_by_length = group_by_length
        self.packing = packing
        self.pad_to_multiple_of = pad_to_multiple_of
        self.rank, self.n_ranks = rank, n_ranks
        # A whole number of batches, so that only the last window has a smaller one.
        most = max(1, min(_WINDOW_EXAMPLES, _WINDOW_TOKENS // dataset.seq_len))
        self.window_size = batch_size * max(1, most // batch_size)
        self._epoch = 0
        self._start = 0
        self._counted: dict[int, list[int]] = {}

    def set_epoch(self, epoch: int) -> None:
        """Choose the pass, from 0."""
        self._epoch = epoch
        self.dataset.set_epoch(epoch)

    def start_at(self, n_batches: int) -> None:
        """Leave out the first batches of the next pass: how a run that stopped within a pass goes on."""
        self._start = n_batches

    def __len__(self) -> int:
        """Count the batches of the chosen pass."""
        return self.count_batches(self._epoch)

    def count_batches(self, epoch: int) -> int:
        """Count the batches of a pass; where tokens decide, this draws all partners of the pass."""
        return sum(self._batches_a_window(epoch))

    def __iter__(self) -> Iterator[dict[str, Tensor]]:
        """Go through the batches of the chosen pass."""
        start, self._start = self._start, 0
        first = 0
        if start:
            for n_batches in self._batches_a_window(self._epoch):
                if start < n_batches:
                    break
                start -= n_batches
                first += 1
        windows = DataLoader(
            _Windows(self),
            batch_size=None,
            sampler=[(self._epoch, number) for number in range(first, self._n_windows)],
            num_workers=self.n_workers,
            pin_memory=self.pin_memory,
            collate_fn=_unchanged,
            worker_init_fn=_leave_signals_to_the_trainer,
            # Of its own, so that making an iterator takes nothing from the stream that dropout draws from.
            generator=torch.Generator().manual_seed(0),
        )
        for parts in windows:
            for part in parts:
                yield from cut_batches(part.rows, part.shapes)[start:]
                start = max(0, start - len(part.shapes))

    def examples_of(self, epoch: int, number: int, *, own: bool = False) -> list[int]:
        """Indices of the examples of a batch of a pass, in its order; of all processes where they share it, or of this one."""
        for window, n_batches in enumerate(self._batches_a_window(epoch)):
            if number < n_batches:
                indices = self._indices(epoch, window)
                layout = self._lay_out(self.dataset.choose(indices, epoch).sizes, epoch, window)
                if own and self.n_ranks > 1:
                    layout, members = take_rows(layout, self.rank, self.n_ranks)
                    indices = indices[members]
                return indices[layout.order].split([shape.n_examples for shape in layout.shapes])[number].tolist()
            number -= n_batches
        raise IndexError(f"BatchLoader: batch {number} behind the last one of pass {epoch}")

    @property
    def _n_windows(self) -> int:
        return -(-len(self.dataset) // self.window_size)

    def _indices(self, epoch: int, number: int) -> Tensor:
        encoded, seed = self.dataset.encoded, self.dataset.seed
        if isinstance(encoded, ShardedCorpus):
            order = encoded.order(seed, epoch, self.shuffle)
        else:
            order = EpochOrder(len(self.dataset), seed, epoch, self.shuffle)
        return order[number * self.window_size : (number + 1) * self.window_size]

    def _lay_out(self, sizes_n: Tensor, epoch: int, number: int) -> Layout:
        return lay_out(
            sizes_n,
            self.batch_size,
            seq_len=self.dataset.seq_len,
            tokens_per_batch=self.tokens_per_batch,
            group_by_length=self.group_by_length,
            packing=self.packing,
            pad_to_multiple_of=self.pad_to_multiple_of,
            key=mix(self.dataset.seed, epoch, number) >> 1,
        )

    def _place(self, epoch: int, number: int) -> tuple[Chosen, Layout, Tensor | None]:
        """A window: the examples, where those of this process lie, and which these are; None: all."""
        indices, is_by_count = self._indices(epoch, number), not (self.packing or self.group_by_length or self.tokens_per_batch)
        if self.n_ranks > 1 and is_by_count and isinstance(self.dataset.encoded, ShardedCorpus):
            # Which row is whose is known beforehand: what others take need not be fetched.
            places = torch.arange(len(indices))
            is_own = places % self.batch_size % self.n_ranks == self.rank
            counts = (places[is_own] // self.batch_size).bincount(minlength=-(-len(indices) // self.batch_size)).tolist()
            chosen = self.dataset.choose(indices[is_own], epoch)
            return chosen, lay_out_counts(chosen.sizes, counts, self.dataset.seq_len, self.pad_to_multiple_of), None
        chosen = self.dataset.choose(indices, epoch)
        layout, own = self._lay_out(chosen.sizes, epoch, number), None
        if self.n_ranks > 1:
            layout, own = take_rows(layout, self.rank, self.n_ranks)
        return chosen, layout, own

    def _batches_a_window(self, epoch: int) -> list[int]:
        if not (self.packing or self.tokens_per_batch):
            sizes = [self.window_size] * (self._n_windows - 1)
            sizes.append(len(self.dataset) - len(sizes) * self.window_size)
            return [-(-size // self.batch_size) for size in sizes]
        if epoch not in self._counted:
            layouts = (
                self._lay_out(self.dataset.choose(self._indices(epoch, number), epoch).sizes, epoch, number)
                for number in range(self._n_windows)
            )
            self._counted[epoch] = [len(layout.shapes) for layout in layouts]
        return self._counted[epoch]


class _Windows(Dataset[list[Part]]):
    """The windows of a loader, by pass and number."""

    def __init__(self, loader: BatchLoader) -> None:
        self.loader = loader

    def __getitem__(self, place: tuple[int, int]) -> list[Part]:
        keep_freed_memory()
        loader, (epoch, number) = self.loader, place
        # Nothing here is differentiated, and calls are quicker when torch knows; what is handed out is made outside, as tensors
        # made within cannot take part in training.
        with torch.inference_mode():
            chosen, layout, own = loader._place(epoch, number)
            parts = [
                (chosen.examples(members if own is None else own[members]), part)
                for members, part in layout.parts(_PART_PLACES)
            ]
        return [Part(fill_rows(examples, part), part.shapes) for examples, part in parts]


def _leave_signals_to_the_trainer(worker: int) -> None:
    """Go on when a signal ends the whole group: the trainer finishes its step and then ends its workers.

    A worker that dies makes torch raise an error in the trainer wherever it is, within a step too.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGALRM"):
        # Not for ever: at its own end Python sends this signal to workers that are left, and waits for them.
        signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
        signal.signal(signal.SIGTERM, lambda *_: signal.alarm(_SECONDS_TO_FINISH))


def _unchanged(window: object) -> object:
    """What torch would do instead, to go through every number of a window, takes longer than to make it."""
    return window
