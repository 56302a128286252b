"""The masked-word loss from vectors, without the scores of all targets at once.

Shapes: M targets, C targets of one chunk, D hidden size, V vocabulary size.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import BackwardCFunction, FunctionCtx

_SCORES_PER_CHUNK = {"cpu": 1 << 22, "cuda": 1 << 26}
"""On two cores 2^22 to 2^24 scores at a time took the same within 10 %, 2^20 a third more; a GPU wants more work at once."""
_ALIGNED = 64
"""Scores of 20,005 words took 1.5 times as long as those of 20,032 (200 targets, two cores): rows of them began anywhere."""


def linear_cross_entropy(
    x: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Negative log-likelihood of the targets under `softmax(x @ weight.T + bias)`, summed, and how many have the top score.

    Scores live for so many targets at a time that memory grows with neither M nor V; their gradients are taken at once, so
    that the way back computes no score again. `F.linear_cross_entropy` of torch 2.13 was as fast at one piece, three to eight
    times slower in chunks, and tells no accuracy. Under autocast the products are of its type, the softmax is of 32 bits.

    Args:
        x: Vectors `[M, D]`; those beyond the number of targets count for nothing.
        weight: `[V, D]`.
        bias: `[V]`.
        targets: Ids `[M]` int64.
        smoothing: Share of each target that is spread over all words alike.

    Returns:
        Sum in nats `[]`, differentiable; count `[]`, int64.
    """
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    is_differentiated = torch.is_grad_enabled() and any(each.requires_grad for each in (x, weight, bias))
    return _LinearCrossEntropy.apply(x, weight, bias, targets, dtype, is_differentiated, smoothing)


class _LinearCrossEntropy(Function):
    """Sums losses and gradients chunk by chunk on the way forth; the way back scales them."""

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        dtype: torch.dtype,
        is_differentiated: bool,
        smoothing: float,
    ) -> tuple[Tensor, Tensor]:
        """See `linear_cross_entropy`."""
        wide = torch.promote_types(dtype, torch.float32)
        loss, n_hits = x.new_zeros((), dtype=wide), targets.new_zeros(())
        x_MD, weight_VD, bias_V, targets_M1 = x.to(dtype), weight.to(dtype), bias.to(dtype), targets[:, None]
        n_words, n_added = len(weight), -len(weight) % _ALIGNED
        if 0 < 16 * n_added <= n_words:
            # Words that there are not, and that have no chance.
            weight_VD, bias_V = F.pad(weight_VD, (0, 0, 0, n_added)), F.pad(bias_V, (0, n_added), value=-torch.inf)
        grads = [torch.zeros_like(each, dtype=wide) for each in (x, weight_VD, bias_V)] if is_differentiated else []
        n_rows = max(1, _SCORES_PER_CHUNK.get(x.device.type, 1 << 22) // len(weight_VD))
        with torch.autocast(x.device.type, enabled=False):
            for start in range(0, len(x), n_rows):
                chunk = slice(start, start + n_rows)
                x_CD, targets_C1 = x_MD[chunk], targets_M1[chunk]
                n_targets = len(targets_C1)
                scores_CV = torch.addmm(bias_V, x_CD, weight_VD.t()).to(wide)
                score_C1, top_C1 = scores_CV.gather(1, targets_C1), scores_CV[:n_targets].amax(1, keepdim=True)
                n_hits += (score_C1 == top_C1).sum()
                p_CV = scores_CV.softmax(1)
                # The top word's probability is one over the softmax's divisor, and at least 1 / V: its logarithm is exact.
                loss += (top_C1 - score_C1 - p_CV[:n_targets].amax(1, keepdim=True).log()).sum()
                if smoothing:
                    loss += smoothing * (score_C1 - scores_CV[:n_targets, :n_words].mean(1, keepdim=True)).sum()
                if is_differentiated:
                    p_CV.scatter_add_(1, targets_C1, torch.full_like(score_C1, smoothing - 1.0))
                    if smoothing:
                        p_CV[:, :n_words] -= smoothing / n_words
                    p_CV[n_targets:] = 0
                    _add_gradients(grads, chunk, p_CV.to(dtype), x_CD, weight_VD)
        ctx.save_for_backward(*(grad[:size] for grad, size in zip(grads, (len(x), n_words, n_words), strict=False)))
        ctx.mark_non_differentiable(n_hits)
        return loss, n_hits

    @staticmethod
    def backward(ctx: BackwardCFunction, *outer: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients by that of the sum, in place, so that there is one way back only.

        Autograd brings each to the type of what it belongs to.
        """
        return (*(grad.mul_(outer[0]) for grad in ctx.saved_tensors), None, None, None, None)


def _add_gradients(grads: list[Tensor], chunk: slice, error_CV: Tensor, x_CD: Tensor, weight_VD: Tensor) -> None:
    """Add what a chunk's errors, probabilities less one at the target, contribute."""
    grad_x_MD, grad_weight_VD, grad_bias_V = grads
    grad_x_MD[chunk] = error_CV @ weight_VD
    if error_CV.dtype == grad_weight_VD.dtype:
        grad_weight_VD.addmm_(error_CV.t(), x_CD)
    else:
        grad_weight_VD += error_CV.t() @ x_CD
    grad_bias_V += error_CV.sum(0, dtype=grad_bias_V.dtype)
