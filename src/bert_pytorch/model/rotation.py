"""Rotary positions: queries and keys are turned by angles that grow with the position.

Shapes: B sequences, L tokens per sequence, N heads, H features per head.

Source: Su et al. 2021 (arXiv 2104.09864), section 3.2; features j and j + H / 2 are a pair, as in GPT-NeoX.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction, FunctionCtx


def rotation_of(positions: Tensor, n_features: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles of some positions, `[L, 1, 1, H / 2]` or `[B, L, 1, 1, H / 2]`.

    Args:
        positions: `[L]` or `[B, L]`.
        n_features: H, even.
        base: The longest wave takes `2 pi base` positions, about.
        dtype: Of the result.
    """
    frequency_h = base ** -(torch.arange(0, n_features, 2, dtype=torch.float32, device=positions.device) / n_features)
    angle = (positions[..., None].float() * frequency_h)[..., None, None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn queries and keys of `[B, L, 3, N, H]` by the angles of `rotation_of`, and leave the values as they are.

    A compiler gets the plain formula, which it fuses itself.
    """
    cos, sin = cos.to(qkv.dtype), sin.to(qkv.dtype)
    if not torch.compiler.is_compiling():
        return _Rotation.apply(qkv, cos, sin)
    left, right = qkv[:, :, :2].chunk(2, -1)
    turned = torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
    return torch.cat((turned, qkv[:, :, 2:]), 2)


class _Rotation(Function):
    """The way back turns the gradients the other way, so nothing of the way forth is kept but the angles."""

    @staticmethod
    def forward(ctx: FunctionCtx, qkv: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """See `rotate`."""
        ctx.save_for_backward(torch.stack((cos, sin)))
        return _turn(qkv, cos, sin, 1.0)

    @staticmethod
    def backward(ctx: BackwardCFunction, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Turn back."""
        cos, sin = ctx.saved_tensors[0].unbind()
        return _turn(outer[0], cos, sin, -1.0), None, None


def _turn(qkv_BL3NH: Tensor, cos: Tensor, sin: Tensor, direction: float) -> Tensor:
    turned = torch.empty_like(qkv_BL3NH, memory_format=torch.contiguous_format)
    turned[:, :, 2] = qkv_BL3NH[:, :, 2]
    left, right = qkv_BL3NH[:, :, :2].chunk(2, -1)
    new_left, new_right = turned[:, :, :2].chunk(2, -1)
    torch.mul(left, cos, out=new_left).addcmul_(right, sin, value=-direction)
    torch.mul(right, cos, out=new_right).addcmul_(left, sin, value=direction)
    return turned
