"""Self-attention over one batch of sequences.

Shapes: B sequences, L tokens per sequence, D hidden size, N heads, H features per head, P places.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .dropout import dropout
from .rotation import rotate


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
        qkv_BL3NH = self.qkv_linear(x).view(n_sequences, n_tokens, 3, self.h, self.d_k)
        if rotation is not None:
            qkv_BL3NH = rotate(qkv_BL3NH, *rotation)
        # Parted along a middle axis, the three gradients come together in one copy.
        q_BLNH, k_BLNH, v_BLNH = qkv_BL3NH.unbind(2)
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
