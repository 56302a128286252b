"""Where to compute."""

from __future__ import annotations

from .errors import UnavailableError


def check_device(device: str, with_cuda: bool = True) -> bool:
    """Whether to use CUDA.

    Args:
        device: `cpu`, `cuda` (there must be one) or `auto` (where there is one).
        with_cuda: Otherwise never.

    Raises:
        UnavailableError: `device` is `cuda` and torch finds no GPU.
    """
    if device == "cpu" or not with_cuda:
        return False
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        message = "--device cuda: torch finds no CUDA GPU; pass --device cpu, or install a CUDA build of torch and its driver"
        raise UnavailableError(f"{message} [E-DEVICE-CUDA]")
    return torch.cuda.is_available()
