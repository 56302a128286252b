"""Self-attention over one batch of sequences.

Shapes: B sequences, L tokens per sequence, D hidden size, N heads, H features per head, P places; S = B * N.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function

from .dropout import Context, draw_kept, keep
from .recording import is_recorded
from .rotation import as_complex, conjugate, rotate

_LONG = 256
"""From so many tokens on, keeping attention weights `[B, N, L, L]` for the way back costs more than computing them again."""


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
        rotation: Tensor | None = None,
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
        n_sequences, n_tokens, _ = x.shape
        qkv_BL3NH = self.qkv_linear(x).view(n_sequences, n_tokens, 3, self.h, self.d_k)
        mixed_BLD = attend(qkv_BL3NH, mask, rotation, self.dropout if self.training else 0.0)
        return self.output_linear(take(mixed_BLD, places))


def take(x: Tensor, places: Tensor | None) -> Tensor:
    """The vectors `[P, D]` of `x` `[B, L, D]` at `places` `[P]`, numbers of the `B * L`; all, as they are, for None."""
    return x if places is None else x.flatten(0, 1).index_select(0, places)


def attend(qkv: Tensor, mask: Tensor | None, rotation: Tensor | None, p: float) -> Tensor:
    """Mix the values of each sequence by its queries and keys, on a CPU with the fastest operations for the case.

    Args:
        qkv: Queries, keys and values `[B, L, 3, N, H]`.
        mask: As in `MultiHeadedAttention.forward`.
        rotation: Likewise.
        p: Probability of zeroing an attention weight.

    Returns:
        `[B, L, D]`.
    """
    if qkv.device.type == "cpu" and not is_recorded() and _is_plain_faster(qkv, p):
        return _Attention.apply(qkv, mask, rotation, p)
    if rotation is not None:
        qkv = torch.cat((rotate(qkv[:, :, :2], rotation[..., None, None, :, :]), qkv[:, :, 2:]), 2)
    # Parted along a middle axis, the three gradients come together in one copy.
    q_BNLH, k_BNLH, v_BNLH = (each.transpose(1, 2) for each in qkv.unbind(2))
    mixed_BNLH = F.scaled_dot_product_attention(q_BNLH, k_BNLH, v_BNLH, attn_mask=mask, dropout_p=p)
    return mixed_BNLH.transpose(1, 2).flatten(2)


def _is_plain_faster(qkv: Tensor, p: float) -> bool:
    """Whether torch's fused kernel is beaten: on short rows; where dropout turns it off; and always by far on 16 bits."""
    is_16_bit = qkv.element_size() == 2 or torch.get_float32_matmul_precision() == "medium"
    return p > 0 or is_16_bit or qkv.size(1) < _LONG


class _Attention(Function):
    """Plain products of matrices, queries and keys turned while they are sorted by heads; keeps the attention weights."""

    @staticmethod
    def forward(ctx: Context, qkv: Tensor, mask: Tensor | None, rotation: Tensor | None, p: float) -> Tensor:
        """See `attend`."""
        n_sequences, n_tokens, _, n_heads, n_features = qkv.shape
        with torch.autocast("cpu", enabled=False):
            q_SLH, k_SLH, v_SLH = by_head = _by_head(qkv, rotation)
            scores_SLL = _scaled(q_SLH, k_SLH.transpose(1, 2), n_features**-0.5)
            if mask is not None:
                scores_BNLL = scores_SLL.view(n_sequences, n_heads, n_tokens, n_tokens)
                scores_BNLL += torch.zeros_like(mask, dtype=qkv.dtype).masked_fill_(~mask, torch.finfo(qkv.dtype).min)
            weight_SLL = scores_SLL.softmax(-1)
            kept_SLL, ctx.scale = draw_kept(weight_SLL, p) if p else (None, 1.0)
            mixed_SLH = _scaled(_kept(weight_SLL, kept_SLL), v_SLH, ctx.scale)
        absent = qkv.new_empty(0)
        ctx.save_for_backward(by_head, weight_SLL, *(absent if each is None else each for each in (kept_SLL, rotation)))
        return mixed_SLH.view(n_sequences, n_heads, n_tokens, n_features).transpose(1, 2).flatten(2)

    @staticmethod
    def backward(ctx: Context, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """The product rule, backwards through what `forward` does."""
        by_head, weight_SLL, *others = ctx.saved_tensors
        kept_SLL, rotation = (each if each.numel() else None for each in others)
        q_SLH, k_SLH, v_SLH = by_head
        n_heads = len(q_SLH) // len(outer[0])
        grad_SLH = outer[0].unflatten(-1, (n_heads, -1)).transpose(1, 2).flatten(0, 1)
        with torch.autocast("cpu", enabled=False):
            grad_v_SLH = _scaled(_kept(weight_SLL, kept_SLL).transpose(1, 2), grad_SLH, ctx.scale)
            grad_weight_SLL = _kept(_scaled(grad_SLH, v_SLH.transpose(1, 2), ctx.scale), kept_SLL)
            grad_scores_SLL = torch.ops.aten._softmax_backward_data(grad_weight_SLL, weight_SLL, -1, weight_SLL.dtype)
            grad_q_SLH = _scaled(grad_scores_SLL, k_SLH, q_SLH.size(-1) ** -0.5)
            grad_k_SLH = _scaled(grad_scores_SLL.transpose(1, 2), q_SLH, q_SLH.size(-1) ** -0.5)
        return _by_token((grad_q_SLH, grad_k_SLH, grad_v_SLH), n_heads, rotation), None, None, None


def _scaled(left: Tensor, right: Tensor, scale: float) -> Tensor:
    """`scale * left @ right` for stacks of matrices, in one pass."""
    return torch.baddbmm(left.new_empty(()), left, right, beta=0, alpha=scale)


def _kept(weight: Tensor, kept: Tensor | None) -> Tensor:
    """Attention weights, or their gradients, without those that dropout takes."""
    return weight if kept is None else keep(weight, kept)


def _by_head(qkv: Tensor, rotation: Tensor | None) -> Tensor:
    """Queries, keys and values `[3, S, L, H]` of `[B, L, 3, N, H]`, the first two turned."""
    by_head_3BNLH = torch.empty_like(qkv.permute(2, 0, 3, 1, 4), memory_format=torch.contiguous_format)
    _turn(qkv.permute(2, 0, 3, 1, 4), rotation, by_head_3BNLH)
    return by_head_3BNLH.flatten(1, 2)


def _by_token(qkv: Sequence[Tensor], n_heads: int, rotation: Tensor | None) -> Tensor:
    """`_by_head` the other way, for gradients `[S, L, H]` of queries, keys and values."""
    n_rows, n_tokens, n_features = qkv[0].shape
    by_token_BL3NH = qkv[0].new_empty(n_rows // n_heads, n_tokens, 3, n_heads, n_features)
    back = None if rotation is None else conjugate(rotation)
    _turn([each.unflatten(0, (-1, n_heads)) for each in qkv], back, by_token_BL3NH.permute(2, 0, 3, 1, 4))
    return by_token_BL3NH


def _turn(qkv: Sequence[Tensor] | Tensor, rotation: Tensor | None, target: Tensor) -> None:
    """Copy three `[B, N, L, H]` to `target` `[3, B, N, L, H]`, the first two turned by what `rotation_of` gives."""
    for number, each_BNLH in enumerate(qkv):
        if rotation is None or number == 2:
            target[number] = each_BNLH
        elif each_BNLH.element_size() == 2:
            target[number] = rotate(each_BNLH, rotation.unsqueeze(-4))
        else:
            torch.mul(as_complex(each_BNLH), torch.view_as_complex(rotation).unsqueeze(-3), out=as_complex(target[number]))
