"""What a trainer settles before its first step: where it computes, and how long it warms up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized

import torch
from torch import Tensor

from ..errors import UnavailableError

DEFAULT_WARMUP_STEPS = 10_000


def choose_devices(with_cuda: bool, cuda_devices: Sequence[int] | None) -> tuple[torch.device, list[int]]:
    """The device that holds the model, and the numbers of all GPUs in use.

    Raises:
        UnavailableError: `cuda_devices` names a GPU that is not there.
    """
    if not (with_cuda and torch.cuda.is_available()):
        return torch.device("cpu"), []
    gpus = list(range(torch.cuda.device_count())) if cuda_devices is None else list(cuda_devices)
    if not gpus or max(gpus) >= torch.cuda.device_count() or min(gpus) < 0:
        there = torch.cuda.device_count()
        raise UnavailableError(f"cuda_devices is {gpus}, but there are {there} GPUs, counted from 0 [E-DEVICE-CUDA]")
    return torch.device("cuda", gpus[0]), gpus


def default_warmup(train_dataloader: Iterable[Mapping[str, Tensor]], max_steps: int | None) -> int:
    """Warm-up steps where none are asked for: 10,000, at most one pass over the loader and a tenth of the run."""
    n_batches = count_batches(train_dataloader)
    limits = (DEFAULT_WARMUP_STEPS, n_batches, None if max_steps is None else max_steps // 10)
    return min(limit for limit in limits if limit is not None)


def count_batches(data_loader: Iterable[Mapping[str, Tensor]]) -> int | None:
    """Batches of a pass, or None where the loader cannot tell (a loader over a stream has a length that raises)."""
    try:
        return len(data_loader) if isinstance(data_loader, Sized) else None
    except TypeError:
        return None
