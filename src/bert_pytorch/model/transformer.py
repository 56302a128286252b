"""One encoder layer: attention and feed-forward, each added to its input and normalised.

Shapes: B sequences, L tokens per sequence, D hidden size, F feed-forward size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .attention import MultiHeadedAttention
from .dropout import Dropout


class TransformerBlock(nn.Module):
    """A post-norm encoder layer: `x = norm(x + dropout(sublayer(x)))`, twice.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.1; exact GELU as in Devlin et al. 2018 (arXiv 1810.04805v2),
    appendix A.2.
    """

    def __init__(self, hidden: int, attn_heads: int, feed_forward_hidden: int, dropout: float) -> None:
        """Build the two sublayers.

        Args:
            hidden: Hidden size D.
            attn_heads: Number of attention heads.
            feed_forward_hidden: Feed-forward size F, 4 x D in the paper.
            dropout: Probability of zeroing an element of a sublayer's output or an attention weight, in [0, 1).
        """
        super().__init__()
        self.attention = MultiHeadedAttention(h=attn_heads, d_model=hidden, dropout=dropout)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.feed_forward = PositionwiseFeedForward(d_model=hidden, d_ff=feed_forward_hidden)
        self.feed_forward_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map `[B, L, D]` to `[B, L, D]`; `mask` as in `MultiHeadedAttention.forward`."""
        x = self.attention_norm(x + self.dropout(self.attention(x, mask)))
        return self.feed_forward_norm(x + self.dropout(self.feed_forward(x)))


class PositionwiseFeedForward(nn.Module):
    """Two linear maps with a GELU between them, the same for each position: D -> F -> D."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Build the two maps."""
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.activation = nn.GELU()
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[B, L, D]` to `[B, L, D]`."""
        return self.w_2(self.activation(self.w_1(x)))


def init_weights(module: nn.Module) -> None:
    """Start one module as the released BERT does: truncated normal of width 0.02, biases and padding rows zero."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
