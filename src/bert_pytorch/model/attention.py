"""Self-attention over one batch of sequences.

Shapes: B sequences, L tokens per sequence, D hidden size, N heads, H features per head.
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

    def __init__(self, h: int, d_model: int, dropout: float = 0.1) -> None:
        """Build the projections.

        Args:
            h: Number of heads; divides `d_model`.
            d_model: Hidden size.
            dropout: Probability of zeroing an attention weight while training, in [0, 1).
        """
        super().__init__()
        self.h = h
        self.d_k = d_model // h
        self.dropout = dropout
        self.qkv_linear = nn.Linear(d_model, 3 * d_model)
        self.output_linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Mix each sequence's vectors.

        Args:
            x: `[B, L, D]`.
            mask: Booleans that broadcast to `[B, N, L, L]`, True where a query may look at a key; None: everywhere.

        Returns:
            `[B, L, D]`.
        """
        n_sequences, n_tokens, hidden = x.shape
        qkv_BL3NH = self.qkv_linear(x).view(n_sequences, n_tokens, 3, self.h, self.d_k)
        q_BNLH, k_BNLH, v_BNLH = qkv_BL3NH.permute(2, 0, 3, 1, 4)
        p = self.dropout if self.training else 0.0
        if p and x.device.type == "cpu":
            mixed_BNLH = attend(q_BNLH, k_BNLH, v_BNLH, mask, p)
        else:
            mixed_BNLH = F.scaled_dot_product_attention(q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, dropout_p=p)
        return self.output_linear(mixed_BNLH.transpose(1, 2).reshape(n_sequences, n_tokens, hidden))


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, p: float) -> Tensor:
    """`F.scaled_dot_product_attention` with dropout, whose own way through it is slow on a CPU.

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
