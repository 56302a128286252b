"""What a trainer settles before its first step: where it computes, and how long it warms up."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from ..errors import InputError, UnavailableError
from .loading import count_batches

DEFAULT_WARMUP_STEPS = 10_000


def check_settings(
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    log_freq: int,
    max_steps: int | None,
    max_grad_norm: float | None,
) -> None:
    """Refuse what would train on nonsense.

    Raises:
        InputError: A setting is out of its range; the message names it.
    """
    limits = {
        "lr": (lr, 0 < lr < math.inf, "a number above 0"),
        "betas": (betas, all(0 <= beta < 1 for beta in betas), "two numbers of at least 0 and below 1"),
        "weight_decay": (weight_decay, 0 <= weight_decay < math.inf, "a number of at least 0"),
        "log_freq": (log_freq, log_freq >= 1, "at least 1"),
        "max_steps": (max_steps, max_steps is None or max_steps >= 1, "at least 1, or None"),
        "max_grad_norm": (max_grad_norm, max_grad_norm is None or 0 < max_grad_norm < math.inf, "a number above 0, or None"),
    }
    for name, (value, is_good, expected) in limits.items():
        if not is_good:
            raise InputError(f"BERTTrainer: {name} is {value}, expected {expected} [E-TRAINER-SETTING]")


def check_step_settings(gradient_accumulation_steps: int, torch_compile: bool, torch_compile_backend: str | None) -> None:
    """Refuse what no step can be made of.

    Raises:
        InputError: A setting is out of its range, or two contradict each other.
    """
    if gradient_accumulation_steps < 1:
        got = f"gradient_accumulation_steps is {gradient_accumulation_steps}"
        raise InputError(f"BERTTrainer: {got}, expected at least 1 [E-TRAINER-SETTING]")
    if torch_compile_backend is not None and not torch_compile:
        raise InputError("BERTTrainer: torch_compile_backend has no effect without torch_compile [E-SETTING-CONFLICT]")


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


def default_warmup(
    train_dataloader: Iterable[Mapping[str, Tensor]], max_steps: int | None, gradient_accumulation_steps: int = 1
) -> int:
    """Warm-up steps where none are asked for: 10,000, at most one pass over the loader and a tenth of the run."""
    n_batches = count_batches(train_dataloader)
    n_steps = None if n_batches is None else -(-n_batches // gradient_accumulation_steps)
    limits = (DEFAULT_WARMUP_STEPS, n_steps, None if max_steps is None else max_steps // 10)
    return min(limit for limit in limits if limit is not None)
