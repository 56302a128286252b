"""The masked-word head: from the vector at a position to the word that stands there.

Shapes: D hidden size, V vocabulary size, M masked tokens in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import InputError
from .cross_entropy import linear_cross_entropy
from .transformer import init_weights

_SCORES_AT_ONCE = 1 << 22


class MaskedLanguageModel(nn.Module):
    """The word at a position, from its vector: transform, then the word embedding as output projection, plus a bias.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.1, task 1; transform and tying as in the released code.
    """

    def __init__(self, hidden: int, token: nn.Embedding, *, bias: bool = True, eps: float = 1e-12) -> None:
        """Build the head on the word embedding.

        Args:
            hidden: Hidden size D.
            token: The word embedding `[V, D]` to share weights with.
            bias: Whether transform and norm have one.
            eps: What the norm adds to the variance.
        """
        super().__init__()
        self.transform = nn.Linear(hidden, hidden, bias=bias)
        self.activation = nn.GELU()
        self.norm = nn.LayerNorm(hidden, eps=eps, bias=bias)
        self.apply(init_weights)
        self.decoder = nn.Linear(hidden, token.num_embeddings, device="meta")
        self.decoder.weight = token.weight
        self.decoder.bias = nn.Parameter(torch.zeros(token.num_embeddings))

    def start_bias_at(self, word_counts: Sequence[int]) -> None:
        """Set the output bias to the log frequency of each id, so that an untrained model predicts the unigram distribution.

        Training from scratch otherwise spends its first minutes on learning just that.

        Args:
            word_counts: How often each of the V ids is a masked word's target; 0 for ids that never are.

        Raises:
            InputError: The number of counts is not V.
        """
        log_frequency_V = unigram_log_probabilities(word_counts)
        if log_frequency_V.numel() != self.decoder.bias.numel():
            raise InputError(
                f"MaskedLanguageModel: {log_frequency_V.numel()} word counts for {self.decoder.bias.numel()} ids; "
                "count each id of the model's own vocabulary [E-MODEL-VOCAB]"
            )
        with torch.no_grad():
            self.decoder.bias.copy_(log_frequency_V)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., D]` to log-probabilities `[..., V]`."""
        return self.decoder(self._transformed(x)).log_softmax(-1)

    def loss(self, x: Tensor, targets: Tensor, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
        """Map `[M, D]` and target ids `[M]` to what `linear_cross_entropy` returns, without the probabilities of all words."""
        return linear_cross_entropy(self._transformed(x), self.decoder.weight, self.decoder.bias, targets, smoothing)

    def predict(self, x: Tensor) -> Tensor:
        """The likeliest word at each of `[M, D]` vectors, as ids `[M]`; few scores live at a time."""
        n_rows = max(1, _SCORES_AT_ONCE // self.decoder.out_features)
        return torch.cat([self.decoder(self._transformed(part)).argmax(-1) for part in x.split(n_rows)])

    def _transformed(self, x: Tensor) -> Tensor:
        return self.norm(self.activation(self.transform(x)))


def unigram_log_probabilities(word_counts: Sequence[int]) -> Tensor:
    """Log-probabilities `[V]` of words drawn by frequency alone, each count raised by one so that none is impossible."""
    counts_V = torch.tensor(word_counts, dtype=torch.float64) + 1.0
    return (counts_V / counts_V.sum()).log().float()
