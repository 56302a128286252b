"""Dropout as torch defines it, several times faster on a CPU.

Torch draws a number for each element there, which takes longer than a layer norm of the same size. Sixteen bits an element
decide as well: the probability is rounded to a multiple of 1/65,536. They come from torch's global generator.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

_N_VALUES = 1 << 16


class Context(FunctionCtx):
    """What a function keeps for its way back; torch declares it for functions of one argument alone."""

    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]
    scale: float


class Dropout(nn.Module):
    """Zeroes elements while training, and scales the others so that the mean stays."""

    def __init__(self, p: float) -> None:
        """Set the probability of zeroing an element, in [0, 1]."""
        super().__init__()
        self.p = p

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """Map a tensor to one of the same shape, and add it to `residual` where one is given."""
        return dropout(x, self.p if self.training else 0.0, residual)


def dropout(x: Tensor, p: float, residual: Tensor | None = None) -> Tensor:
    """Zero each element of `x` with probability `p`, divide the others by `1 - p`, and add them to `residual` if there is one.

    Source: Srivastava et al. 2014, "Dropout", section 4, with the scaling moved from test to training.
    """
    if 0 < p < 1 and x.device.type == "cpu" and not torch.compiler.is_compiling():
        return _Dropout.apply(x, residual, p)
    dropped = F.dropout(x, p)
    return dropped if residual is None else residual + dropped


def draw_kept(x: Tensor, p: float) -> tuple[Tensor, float]:
    """Which elements of `x` stay, 0 or 1 as int16 in its shape, and what to multiply them by."""
    n_zeroed = min(max(round(p * _N_VALUES), 1), _N_VALUES - 1)
    bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None).view(torch.int16)[: x.numel()]
    # In place, sixteen bits are compared several times as fast as with a boolean result.
    return bits.ge_(n_zeroed - (_N_VALUES >> 1)).view(x.shape), _N_VALUES / (_N_VALUES - n_zeroed)


def keep(x: Tensor, kept: Tensor) -> Tensor:
    """`x` with zeros where `kept`, of the same shape, has them."""
    return kept.to(x.dtype).mul_(x)


class _Dropout(Function):
    """Keeps two bytes an element for the way back."""

    @staticmethod
    def forward(ctx: Context, x: Tensor, residual: Tensor | None, p: float) -> Tensor:
        """See `Dropout.forward`."""
        kept, ctx.scale = draw_kept(x, p)
        ctx.save_for_backward(kept)
        if residual is None:
            return keep(x, kept).mul_(ctx.scale)
        return torch.addcmul(residual, x, kept.to(x.dtype), value=ctx.scale)

    @staticmethod
    def backward(ctx: Context, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Zero and scale alike; a residual's gradient is the sum's."""
        return keep(outer[0], ctx.saved_tensors[0]).mul_(ctx.scale), outer[0] if ctx.needs_input_grad[1] else None, None
