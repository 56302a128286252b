"""From token ids to normalised vectors.

Shapes: B sequences, L tokens per sequence, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .dropout import Dropout

N_SEGMENTS = 3
"""Rows of the segment table: 0 on padding, 1 on the first text, 2 on the second."""


class BERTEmbedding(nn.Module):
    """Sum of word, learned position and segment vectors, then layer norm and dropout.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3, "Input/Output Representations"; the norm and the dropout as
    in the released code.
    """

    def __init__(self, vocab_size: int, embed_size: int, dropout: float = 0.1, max_len: int = 512) -> None:
        """Build the three tables.

        Args:
            vocab_size: Number of token ids; id 0 is padding and keeps the zero vector it starts with.
            embed_size: Length of each vector, the model's hidden size.
            dropout: Probability of zeroing an element, in [0, 1).
            max_len: Longest sequence, in tokens.
        """
        super().__init__()
        self.embed_size = embed_size
        self.token = nn.Embedding(vocab_size, embed_size, padding_idx=0)
        self.position = nn.Embedding(max_len, embed_size)
        self.segment = nn.Embedding(N_SEGMENTS, embed_size, padding_idx=0)
        self.norm = nn.LayerNorm(embed_size, eps=1e-12)
        self.dropout = Dropout(dropout)

    def forward(self, sequence: Tensor, segment_label: Tensor, positions: Tensor | None = None) -> Tensor:
        """Embed `[B, L]` token ids with their `[B, L]` segments, at positions `[B, L]` or else 0, 1, ..., into `[B, L, D]`."""
        if positions is None:
            positions = torch.arange(sequence.size(1), device=sequence.device)
        sum_BLD = self.token(sequence) + self.position(positions) + self.segment(segment_label)
        return self.dropout(self.norm(sum_BLD))


class WordEmbedding(nn.Module):
    """Word vectors, layer norm and dropout: what a model needs that tells positions by rotation and knows no segments.

    Source: Warner et al. 2024 (arXiv 2412.13663), section 2.1.
    """

    def __init__(self, vocab_size: int, embed_size: int, dropout: float = 0.1) -> None:
        """Build the table; arguments as in `BERTEmbedding`."""
        super().__init__()
        self.embed_size = embed_size
        self.token = nn.Embedding(vocab_size, embed_size, padding_idx=0)
        self.norm = nn.LayerNorm(embed_size, eps=1e-5, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, sequence: Tensor) -> Tensor:
        """Embed `[B, L]` token ids into `[B, L, D]`."""
        return self.dropout(self.norm(self.token(sequence)))
