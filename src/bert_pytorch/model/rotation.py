"""Rotary positions: queries and keys are turned by angles that grow with the position.

Shapes: B sequences, L tokens per sequence, N heads, H features per head.

Source: Su et al. 2021 (arXiv 2104.09864), section 3.2: features 2 j and 2 j + 1 are a pair, a complex number, so that one
multiplication turns it. `Differs:` ModernBERT as released pairs features j and j + H / 2; the same with the rows of the two
projections in another order.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .recording import is_recorded


def rotation_of(positions: Tensor, n_features: int, base: float, dtype: torch.dtype) -> Tensor:
    """Cosines and sines of the angles of some positions, `[L, H / 2, 2]` or `[B, L, H / 2, 2]`.

    Args:
        positions: `[L]` or `[B, L]`.
        n_features: H, even.
        base: The longest wave takes `2 pi base` positions, about.
        dtype: Of the result, where it has 32 bits or more.
    """
    frequency_h = base ** -(torch.arange(0, n_features, 2, dtype=torch.float32, device=positions.device) / n_features)
    angle = positions[..., None].float() * frequency_h
    return torch.stack((angle.cos(), angle.sin()), -1).to(torch.promote_types(dtype, torch.float32))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn queries or keys `[..., H]` by what `rotation_of` gives, put in a shape that broadcasts to `[..., H / 2, 2]`.

    A compiler, which knows no complex numbers, gets the formula in real ones.
    """
    if not is_recorded():
        return torch.view_as_real(as_complex(x) * torch.view_as_complex(rotation)).flatten(-2).to(x.dtype)
    left, right = x.unflatten(-1, (-1, 2)).unbind(-1)
    cos, sin = rotation.to(x.dtype).unbind(-1)
    return torch.stack((left * cos - right * sin, right * cos + left * sin), -1).flatten(-2)


def conjugate(rotation: Tensor) -> Tensor:
    """The same angles the other way, for gradients."""
    return rotation * rotation.new_tensor((1.0, -1.0))


def as_complex(x: Tensor) -> Tensor:
    """The pairs of `[..., H]` as complex numbers `[..., H / 2]`: a view, but of 16-bit numbers, which have none."""
    wide = x if x.element_size() > 2 else x.float()
    return torch.view_as_complex(wide.unflatten(-1, (-1, 2)))
