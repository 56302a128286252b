"""In which order examples are seen, and how they share the rows of batches.

Shapes: n examples, T words of all texts, R rows, W columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .draws import mix
from .examples import Examples
from .ragged import bands, ramps
from .tensor_draws import example_keys, integers, mix_32_

PAD_INDEX, EOS_INDEX, SOS_INDEX = 0, 2, 3
_N_ROUNDS = 4
_FEW = 1 << 12
"""So many numbers are sorted by a draw each: too few for digits to mix."""


class EpochOrder:
    """All numbers below n once, in an order that is a function of `(seed, epoch)`; no list of them is ever made.

    Numbers are written as two digits of bases about the square root of n, which are shifted in turn by a hash of the other: a
    Feistel network over any base. What falls outside is shifted again until it falls inside.

    Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains", sections 4 and 5.
    """

    def __init__(self, n: int, seed: int, epoch: int, shuffle: bool = True) -> None:
        """Set the order; without `shuffle` it is 0, 1, 2, ..."""
        self.n = n
        self.shuffle = shuffle
        self.bases = (math.isqrt(max(n - 1, 0)) + 1, -(-n // (math.isqrt(max(n - 1, 0)) + 1)))
        self.keys = [mix(seed, epoch, number) >> 33 for number in range(_N_ROUNDS)]

    def __getitem__(self, places: slice) -> Tensor:
        """The numbers at these places, int64."""
        numbers = torch.arange(*places.indices(self.n))
        if not self.shuffle:
            return numbers
        if self.n <= _FEW:
            return example_keys(self.keys[0], self.keys[1], torch.arange(self.n)).argsort()[numbers]
        numbers = self._permuted(numbers)
        while (outside := numbers >= self.n).any():
            numbers[outside] = self._permuted(numbers[outside])
        return numbers

    def _permuted(self, numbers: Tensor) -> Tensor:
        high = numbers // self.bases[0]
        digits = [numbers - high * self.bases[0], high]
        for number, key in enumerate(self.keys):
            shifted, base = number % 2, self.bases[number % 2]
            moved = digits[shifted].add_(integers(mix_32_((digits[1 - shifted] + key).int()), base))
            # Both are below the base; a remainder would take longer.
            moved.add_(moved >= base, alpha=-base)
        return digits[1].mul_(self.bases[0]).add_(digits[0])


class BatchShape(NamedTuple):
    """The size of one batch."""

    n_rows: int
    n_columns: int
    n_examples: int


class Layout(NamedTuple):
    """Where examples lie in the rows of some batches, which lie one behind the other in one stretch of memory."""

    places: Tensor
    """Where each example begins, `[n]`."""
    order: Tensor
    """The examples as they come in the batches, `[n]`."""
    shapes: list[BatchShape]
    """The batches."""
    numbers: Tensor | None = None
    """Which example of its row each is, from 1, `[n]`; None where a row holds one."""

    def parts(self, n_places: int) -> Iterator[tuple[Tensor, Layout]]:
        """Neighbouring batches that take so many places, or as many as the last one of them needs.

        Yields:
            The examples of these batches `[k]`, and the layout of these alone.
        """
        start = first = size = 0
        shapes: list[BatchShape] = []
        for number, shape in enumerate(self.shapes, start=1):
            shapes.append(shape)
            size += shape.n_rows * shape.n_columns
            if size < n_places and number < len(self.shapes):
                continue
            n_examples = sum(each.n_examples for each in shapes)
            members = self.order[first : first + n_examples]
            numbers = None if self.numbers is None else self.numbers[members]
            yield members, Layout(self.places[members] - start, torch.arange(n_examples), shapes, numbers)
            start, first, size, shapes = start + size, first + n_examples, 0, []


def lay_out(
    sizes_n: Tensor,
    batch_size: int,
    *,
    seq_len: int,
    tokens_per_batch: int | None = None,
    group_by_length: bool = False,
    packing: bool = False,
    pad_to_multiple_of: int = 1,
    key: int = 0,
) -> Layout:
    """Share examples out over batches.

    Args:
        sizes_n: Tokens of each example.
        batch_size: Rows a batch.
        seq_len: Columns of a row that holds several examples.
        tokens_per_batch: Most tokens a batch, padding included, in place of `batch_size`.
        group_by_length: Examples of like size share a batch; the longest batch comes first, then the others in an order that
            `key` decides.
        packing: A row holds as many examples as fit.
        pad_to_multiple_of: A row that holds one is so many columns wide, times a whole number, and at most `seq_len`.
        key: Decides the order of batches.
    """
    if packing:
        return _pack(sizes_n, max(1, tokens_per_batch // seq_len) if tokens_per_batch else batch_size, seq_len)
    if pad_to_multiple_of > 1:
        sizes_n = (-(-sizes_n // pad_to_multiple_of) * pad_to_multiple_of).clamp(max=seq_len)
    order_n = sizes_n.argsort(stable=True) if group_by_length else torch.arange(sizes_n.numel())
    if tokens_per_batch:
        counts = _cut_by_tokens(sizes_n[order_n].tolist(), tokens_per_batch)
    else:
        counts = [min(batch_size, sizes_n.numel() - start) for start in range(0, sizes_n.numel(), batch_size)]
    if group_by_length:
        groups = order_n.split(counts)
        # The smaller one stays the last, so that batches can be counted off.
        n_moved = len(counts) - (not tokens_per_batch and counts[-1] < batch_size)
        moved = example_keys(key, 0, torch.arange(n_moved)).argsort().tolist() + list(range(n_moved, len(counts)))
        # What does not fit fails in the first step, and memory that held the longest is not cut up for it later.
        moved.sort(key=lambda number: number != n_moved - 1)
        order_n, counts = torch.cat([groups[i] for i in moved]), [counts[i] for i in moved]
    return _in_order(sizes_n, order_n, counts)


def lay_out_counts(sizes_n: Tensor, counts: list[int], seq_len: int, pad_to_multiple_of: int = 1) -> Layout:
    """Share examples out over batches of so many each, in their order; a batch may have none."""
    if pad_to_multiple_of > 1:
        sizes_n = (-(-sizes_n // pad_to_multiple_of) * pad_to_multiple_of).clamp(max=seq_len)
    return _in_order(sizes_n, torch.arange(sizes_n.numel()), counts)


def _in_order(sizes_n: Tensor, order_n: Tensor, counts: list[int]) -> Layout:
    """Examples in an order, cut into batches."""
    batch_n = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    widths = sizes_n.new_ones(len(counts)).scatter_reduce_(0, batch_n, sizes_n[order_n], "amax")
    shapes = [BatchShape(count, width, count) for count, width in zip(counts, widths.tolist(), strict=True)]
    steps_n = widths[batch_n]
    places_n = torch.empty_like(sizes_n)
    places_n[order_n] = steps_n.cumsum(0) - steps_n
    return Layout(places_n, order_n, shapes)


def _cut_by_tokens(sizes: Sequence[int], tokens_per_batch: int) -> list[int]:
    """Examples a batch, so that rows times the longest stay within the tokens; an example longer than these is alone."""
    counts = [0]
    longest = 0
    for size in sizes:
        longest = max(longest, size)
        if counts[-1] and (counts[-1] + 1) * longest > tokens_per_batch:
            counts.append(0)
            longest = size
        counts[-1] += 1
    return counts


def _pack(sizes_n: Tensor, n_rows: int, seq_len: int) -> Layout:
    """Put each example, the longest first, into the row where it leaves the least room; batches get like shares of the rows."""
    rows_with_room: list[list[int]] = [[] for _ in range(seq_len + 1)]
    order_n = sizes_n.argsort(descending=True, stable=True)
    used: list[int] = []
    filled: list[int] = []
    seats: list[tuple[int, int, int]] = []
    for size in sizes_n[order_n].tolist():
        room = next((room for room in range(size, seq_len + 1) if rows_with_room[room]), None)
        if room is None:
            row = len(used)
            used.append(0)
            filled.append(0)
        else:
            row = rows_with_room[room].pop()
        seats.append((row, used[row], filled[row] + 1))
        used[row] += size
        filled[row] += 1
        if used[row] < seq_len:
            rows_with_room[seq_len - used[row]].append(row)
    n_batches = -(-len(used) // n_rows)
    row_n, column_n, number_n = torch.tensor(seats).unbind(1)
    batch_n, row_n = row_n % n_batches, row_n // n_batches
    counts = torch.tensor(filled)
    shapes = [BatchShape(len(used[i::n_batches]), seq_len, int(counts[i::n_batches].sum())) for i in range(n_batches)]
    starts = torch.tensor([0, *(shape.n_rows * shape.n_columns for shape in shapes)]).cumsum(0)
    seat_n = starts[batch_n] + row_n * seq_len + column_n
    places_n, numbers_n = torch.empty_like(sizes_n), torch.empty_like(sizes_n)
    places_n[order_n], numbers_n[order_n] = seat_n, number_n
    return Layout(places_n, places_n.argsort(), shapes, numbers_n)


def take_rows(layout: Layout, rank: int, n_ranks: int) -> tuple[Layout, Tensor]:
    """Of each batch the rows `rank`, `rank + n_ranks`, ...; and which examples these hold."""
    sizes = torch.tensor([shape.n_rows * shape.n_columns for shape in layout.shapes])
    ends = sizes.cumsum(0)
    batch_n = torch.bucketize(layout.places, ends, right=True)
    columns = torch.tensor([shape.n_columns for shape in layout.shapes])[batch_n]
    within_n = layout.places - (ends - sizes)[batch_n]
    row_n = within_n // columns
    is_own_n = row_n % n_ranks == rank
    counts = batch_n[is_own_n].bincount(minlength=len(layout.shapes)).tolist()
    shapes = [
        BatchShape(len(range(rank, shape.n_rows, n_ranks)), shape.n_columns, count)
        for shape, count in zip(layout.shapes, counts, strict=True)
    ]
    starts = torch.tensor([0, *(shape.n_rows * shape.n_columns for shape in shapes)]).cumsum(0)
    places_n = (starts[batch_n] + row_n // n_ranks * columns + within_n % columns)[is_own_n]
    numbers_n = None if layout.numbers is None else layout.numbers[is_own_n]
    return Layout(places_n, places_n.argsort(), shapes, numbers_n), is_own_n.nonzero()[:, 0]


def fill_rows(examples: Examples, layout: Layout) -> dict[str, Tensor]:
    """Write examples into the rows of a layout.

    Returns:
        `bert_input`, `bert_label`, `segment_label` and, where rows are shared, `example` (which example of its row a token
        belongs to, from 1, and 0 on padding): the batches one behind the other, `[sum of R * W]`; and `is_next` `[n]`, if any.
    """
    n_places = sum(shape.n_rows * shape.n_columns for shape in layout.shapes)
    lengths_nc = examples.lengths
    n_columns = lengths_nc.size(1)
    # The first text begins one after `<sos>`, the second two after the first one's last word.
    begins_nc = layout.places[:, None] + 1 + (lengths_nc.cumsum(1) - lengths_nc) + torch.arange(n_columns)
    ends_nc = begins_nc + lengths_nc
    places_T = ramps(begins_nc.flatten(), lengths_nc.flatten())
    targets_M = places_T.index_select(0, examples.targets)
    inputs, labels = torch.zeros(n_places, dtype=torch.int64), torch.zeros(n_places, dtype=torch.int64)
    inputs.scatter_(0, places_T, examples.words.long()).scatter_(0, targets_M, examples.hidden.long())
    inputs.scatter_(0, layout.places, SOS_INDEX).scatter_(0, ends_nc.flatten(), EOS_INDEX)
    labels.scatter_(0, targets_M, examples.words.index_select(0, examples.targets).long())
    # A segment is text and closing marker; the first has the opening one too.
    firsts_nc = torch.cat([layout.places[:, None], begins_nc[:, 1:]], 1)
    numbers_nc = torch.arange(1, n_columns + 1).expand_as(lengths_nc)
    segments = bands(n_places, firsts_nc.flatten(), ends_nc.flatten() + 1, numbers_nc.flatten())
    rows = {"bert_input": inputs, "bert_label": labels, "segment_label": segments}
    if layout.numbers is not None:
        rows["example"] = bands(n_places, layout.places, ends_nc[:, -1] + 1, layout.numbers)
    if examples.is_next is not None:
        rows["is_next"] = examples.is_next[layout.order]
    return rows


def cut_batches(rows: dict[str, Tensor], shapes: Sequence[BatchShape]) -> list[dict[str, Tensor]]:
    """The batches of `fill_rows`, as views: `[R, W]` each, `is_next` one answer an example."""
    sizes, n_examples = [shape.n_rows * shape.n_columns for shape in shapes], [shape.n_examples for shape in shapes]
    parts = {name: values.split(n_examples if name == "is_next" else sizes) for name, values in rows.items()}
    return [
        {
            name: of_batches[number] if name == "is_next" else of_batches[number].view(shape.n_rows, shape.n_columns)
            for name, of_batches in parts.items()
        }
        for number, shape in enumerate(shapes)
    ]
