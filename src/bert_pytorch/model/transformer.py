"""One encoder layer: attention and feed-forward, each added to its input.

Shapes: B sequences, L tokens per sequence, D hidden size, F feed-forward size, P places.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from .attention import MultiHeadedAttention, take
from .dropout import Context, Dropout
from .recording import is_recorded


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

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotation: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Map `[B, L, D]` to `[B, L, D]`, or to `[P, D]` at `places`; arguments as for `MultiHeadedAttention.forward`."""
        x = self.attention_norm(self.dropout(self.attention(x, mask, rotation, places), take(x, places)))
        return self.feed_forward_norm(self.dropout(self.feed_forward(x), x))


class PreNormBlock(nn.Module):
    """A pre-norm encoder layer without biases: `x = x + dropout(sublayer(norm(x)))`, twice.

    Source: Warner et al. 2024 (arXiv 2412.13663), section 2.1.
    """

    def __init__(
        self, hidden: int, attn_heads: int, feed_forward_hidden: int, dropout: float, *, is_first: bool = False
    ) -> None:
        """Build the two sublayers.

        Args:
            hidden: Hidden size D.
            attn_heads: Number of attention heads.
            feed_forward_hidden: Feed-forward size F.
            dropout: Probability of zeroing an element of a sublayer's output or an attention weight, in [0, 1).
            is_first: The first block has no norm before its attention, as what it gets has just been normalised.
        """
        super().__init__()
        self.attention_norm = nn.Identity() if is_first else nn.LayerNorm(hidden, eps=1e-5, bias=False)
        self.attention = MultiHeadedAttention(h=attn_heads, d_model=hidden, dropout=dropout, bias=False)
        self.feed_forward_norm = nn.LayerNorm(hidden, eps=1e-5, bias=False)
        self.feed_forward = GatedFeedForward(d_model=hidden, d_ff=feed_forward_hidden)
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotation: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Map as `TransformerBlock.forward`."""
        x = self.dropout(self.attention(self.attention_norm(x), mask, rotation, places), take(x, places))
        return self.dropout(self.feed_forward(self.feed_forward_norm(x)), x)


class PositionwiseFeedForward(nn.Module):
    """Two linear maps with a GELU between them, the same for each position: D -> F -> D."""

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Build the two maps."""
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.activation = nn.GELU()
        self.w_2 = nn.Linear(d_ff, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., D]`."""
        return self.w_2(self.activation(self.w_1(x)))


class GatedFeedForward(nn.Module):
    """GeGLU: one linear map through a GELU, times another, then a third, without biases: D -> F -> D.

    Source: Shazeer 2020 (arXiv 2002.05202), section 2.
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        """Build the maps; the first two are one, activated half first."""
        super().__init__()
        self.w_1 = nn.Linear(d_model, 2 * d_ff, bias=False)
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., D]`."""
        return self.w_2(geglu(self.w_1(x)))


def geglu(x: Tensor) -> Tensor:
    """Map `[..., 2 F]` to `[..., F]`: GELU of the first half, times the second."""
    if not is_recorded():
        return _GeGLU.apply(x)
    activated, gate = x.chunk(2, -1)
    return F.gelu(activated) * gate


class _GeGLU(Function):
    """Copies no half, and writes the gradient of each where it belongs."""

    @staticmethod
    def forward(ctx: Context, x: Tensor) -> Tensor:
        """See `geglu`."""
        raw, gate = x.chunk(2, -1)
        activated = F.gelu(raw)
        ctx.save_for_backward(x, activated)
        return activated * gate

    @staticmethod
    def backward(ctx: Context, *outer: Tensor) -> Tensor:
        """The product rule."""
        x, activated = ctx.saved_tensors
        raw, gate = x.chunk(2, -1)
        grad = torch.empty_like(x)
        grad_raw, grad_gate = grad.chunk(2, -1)
        torch.mul(outer[0], activated, out=grad_gate)
        torch.ops.aten.gelu_backward(outer[0] * gate, raw, grad_input=grad_raw)
        return grad


def init_weights(module: nn.Module) -> None:
    """Start one module as the released BERT does: truncated normal of width 0.02, biases and padding rows zero."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.trunc_normal_(module.weight, std=0.02, a=-0.04, b=0.04)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        with torch.no_grad():
            module.weight[module.padding_idx].zero_()
