"""What the trainer does with a loader, whoever made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from itertools import islice

from torch import Tensor

from ..errors import InputError


def tell_epoch(data_loader: Iterable[Mapping[str, Tensor]], epoch: int) -> None:
    """Tell a loader, its dataset and its samplers which pass begins, those that want to know."""
    for part in (data_loader, *(getattr(data_loader, name, None) for name in ("dataset", "sampler", "batch_sampler"))):
        set_epoch = getattr(part, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


def count_batches(data_loader: Iterable[Mapping[str, Tensor]]) -> int | None:
    """Batches of a pass, or None where the loader cannot tell (a loader over a stream has a length that raises)."""
    try:
        return len(data_loader) if isinstance(data_loader, Sized) else None
    except TypeError:
        return None


def skip_batches(data_loader: Iterable[Mapping[str, Tensor]], n_batches: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
    """Begin a pass over a loader and leave out the batches that a run had before it stopped.

    Raises:
        InputError: There are fewer.
    """
    batches = iter(data_loader)
    n_seen = sum(1 for _ in islice(batches, n_batches))
    if n_seen < n_batches:
        message = f"the loader ended after {n_seen} batches, the checkpoint stopped after {n_batches}"
        raise InputError(f"train({epoch}): {message}; give the same data [E-TRAINER-NO-DATA]")
    return batches
