"""The architecture `"bert-pytorch"`: embedding, block and heads as in bert-pytorch 0.0.1a4, so that its models can be used.

What it has otherwise than the paper: sinusoids for positions, no norm in the embedding, norms before the sublayers and none at
the end, a norm that divides by the unbiased deviation, the tanh form of GELU, no pooler, and an output layer of its own.

Shapes: B sequences, L tokens per sequence, D hidden size, V vocabulary size, P places.

Source: bert-pytorch 0.0.1a4, package `bert_pytorch.model`; written anew. `Differs:` one dropout rate for all places, and none
within the feed-forward sublayer, which matters in training alone.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .attention import MultiHeadedAttention
from .dropout import Dropout
from .embedding import N_SEGMENTS
from .language_model_head import MaskedLanguageModel
from .transformer import PositionwiseFeedForward, PreNormBlock, init_weights

_LONGEST_WAVE = 10_000.0


class SinusoidEmbedding(nn.Module):
    """Sum of word, position and segment vectors, then dropout; positions are fixed sinusoids.

    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5.
    """

    sinusoids: Tensor

    def __init__(self, vocab_size: int, embed_size: int, dropout: float = 0.1, max_len: int = 512) -> None:
        """Build the tables; arguments as in `BERTEmbedding`."""
        super().__init__()
        self.embed_size = embed_size
        self.token = nn.Embedding(vocab_size, embed_size, padding_idx=0)
        self.segment = nn.Embedding(N_SEGMENTS, embed_size, padding_idx=0)
        self.register_buffer("sinusoids", sinusoids(max_len, embed_size), persistent=False)
        self.dropout = Dropout(dropout)

    def forward(self, sequence: Tensor, segment_label: Tensor, positions: Tensor | None = None) -> Tensor:
        """Embed `[B, L]` as `BERTEmbedding` does."""
        places = self.sinusoids[: sequence.size(1)] if positions is None else self.sinusoids[positions]
        return self.dropout(self.token(sequence) + places + self.segment(segment_label))


class UnbiasedNorm(nn.Module):
    """A layer norm that divides by the unbiased standard deviation, to which a millionth is added."""

    def __init__(self, hidden: int) -> None:
        """Build the norm for vectors of this size."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to `[..., D]`."""
        deviation, mean = torch.std_mean(x, -1, keepdim=True)
        return self.weight * (x - mean) / (deviation + 1e-6) + self.bias


class OriginalBlock(PreNormBlock):
    """A pre-norm encoder layer: `x = x + dropout(sublayer(norm(x)))`, twice, and dropout once more."""

    def __init__(self, hidden: int, attn_heads: int, feed_forward_hidden: int, dropout: float) -> None:
        """Build the two sublayers; arguments as in `TransformerBlock`."""
        nn.Module.__init__(self)
        self.attention_norm = UnbiasedNorm(hidden)
        self.attention = MultiHeadedAttention(h=attn_heads, d_model=hidden, dropout=dropout)
        self.feed_forward_norm = UnbiasedNorm(hidden)
        self.feed_forward = PositionwiseFeedForward(d_model=hidden, d_ff=feed_forward_hidden)
        self.feed_forward.activation = nn.GELU(approximate="tanh")
        self.dropout = Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        rotation: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """Map as `TransformerBlock.forward`."""
        return self.dropout(super().forward(x, mask, rotation, places))


class PlainNextSentence(nn.Module):
    """Two classes from the vector of the first token, without a pooler."""

    def __init__(self, hidden: int) -> None:
        """Build the head for vectors of this size."""
        super().__init__()
        self.linear = nn.Linear(hidden, 2)
        self.apply(init_weights)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[B, L, D]` to log-probabilities `[B, 2]`, 1 = is next."""
        return self.linear(x[:, 0]).log_softmax(-1)


class PlainMaskedLanguageModel(MaskedLanguageModel):
    """The word at a position by one linear map that shares no weights."""

    def __init__(self, hidden: int, vocab_size: int) -> None:
        """Build the head for vectors of this size."""
        nn.Module.__init__(self)
        self.decoder = nn.Linear(hidden, vocab_size)
        self.apply(init_weights)

    def _transformed(self, x: Tensor) -> Tensor:
        return x


def sinusoids(max_len: int, hidden: int) -> Tensor:
    """Sines at even features and cosines at odd ones, of `[max_len]` positions: `[max_len, D]`."""
    frequency_h = (torch.arange(0, hidden, 2).float() * -(math.log(_LONGEST_WAVE) / hidden)).exp()
    angles = torch.arange(max_len).float()[:, None] * frequency_h
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[:, :hidden].contiguous()
