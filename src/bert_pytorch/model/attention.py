"""Self-attention over one batch of sequences.

Shapes: B sequences, L tokens per sequence, D hidden size, N heads, H features per head, P places.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout


class MultiHeadedAttention(nn.Module):
    """Multi-head scaled dot-product self-attention with one fused projection for queries, keys and values.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.
    """

    def __init__(self, h: int, d_model: int, dropout: float = 0.1, *, bias: bool = True) -> None:
        """Build the projections.

        Args:
            h: Number of heads; divides `d_model`.
            d_model: Hidden size.
            dropout: Probability of zeroing an attention weight while training, in [0, 1).
            bias: Whether the projections have one.
        """
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.dropout = dropout
        self.qkv_linear = nn.Linear(d_model, 3 * d_model, bias=bias)
        self.output_linear = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotation: tuple[Tensor, Tensor] | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Mix each sequence's vectors.

        Args:
            x: `[B, L, D]`.
            mask: Booleans that broadcast to `[B, N, L, L]`, True where a query may look at a key; None: everywhere.
            rotation: What `rotation_of` gives for the positions; None: queries and keys are not turned.
            places: Which results are wanted, as numbers of the `B * L` places `[P]`; None: all.

        Returns:
            `[B, L, D]`, or `[P, D]` at `places`.
        """
        n_sequences, n_tokens, hidden = x.shape
        # Parted along a middle axis, the three gradients come together in one copy.
        q_BLNH, k_BLNH, v_BLNH = self.qkv_linear(x).view(n_sequences, n_tokens, 3, self.h, self.d_k).unbind(2)
        if rotation is not None:
            q_BLNH, k_BLNH = rotate(q_BLNH, rotation), rotate(k_BLNH, rotation)
        q_BNLH, k_BNLH, v_BNLH = (each.transpose(1, 2) for each in (q_BLNH, k_BLNH, v_BLNH))
        p = self.dropout if self.training else 0.0
        # On a CPU, dropout turns the fused kernel off, and its 16-bit gradients take twenty times as long as those here.
        if x.device.type == "cpu" and (p or q_BNLH.element_size() == 2):
            mixed_BNLH = attend(q_BNLH, k_BNLH, v_BNLH, mask, p)
        else:
            mixed_BNLH = F.scaled_dot_product_attention(q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, dropout_p=p)
        return self.output_linear(take(mixed_BNLH.transpose(1, 2).reshape(n_sequences, n_tokens, hidden), places))


def take(x: Tensor, places: Tensor | None) -> Tensor:
    """The vectors `[P, D]` of `x` `[B, L, D]` at `places` `[P]`, numbers of the `B * L`; all, as they are, for None."""
    return x if places is None else x.flatten(0, 1).index_select(0, places)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """`F.scaled_dot_product_attention` in plain operations.

    Args:
        q: Queries `[B, N, L, H]`.
        k: Keys, likewise.
        v: Values, likewise.
        mask: As in `MultiHeadedAttention.forward`.
        p: Probability of zeroing an attention weight.
    """
    scores_BNLL = (q * q.size(-1) ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores_BNLL = scores_BNLL.masked_fill(~mask, torch.finfo(scores_BNLL.dtype).min)
    return dropout(scores_BNLL.softmax(-1), p) @ v


def rotation_of(positions: Tensor, n_features: int, base: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles by which a position turns queries and keys, `[L, 1, H / 2]` or `[B, L, 1, H / 2]`.

    Source: Su et al. 2021 (arXiv 2104.09864), section 3.2; features j and j + H / 2 are a pair, as in GPT-NeoX.

    Args:
        positions: `[L]` or `[B, L]`.
        n_features: H, even.
        base: The longest wave takes `2 pi base` positions, about.
        dtype: Of the result.
    """
    frequency_h = base ** -(torch.arange(0, n_features, 2, dtype=torch.float32, device=positions.device) / n_features)
    angle = (positions[..., None].float() * frequency_h)[..., None, :]
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn queries or keys `[B, L, N, H]` by the angles of `rotation_of`."""
    cos, sin = rotation
    left, right = x.chunk(2, -1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)
