"""Heads for labelled data on top of the encoder: a label a text, a tag a token, an answer in a context.

Shapes: B sequences, L tokens per sequence, D hidden size, C labels.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from .bert import BERT
from .transformer import init_weights

POOLINGS = ("cls", "mean", "max")


class BERTForSequenceClassification(nn.Module):
    """One or several labels, or a number, for a text or a pair.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 4.1; the tanh pooler and dropout as in the released code.
    """

    def __init__(self, bert: BERT, n_labels: int, *, pooling: str = "cls", dropout: float | None = None) -> None:
        """Put a new head on the encoder.

        Args:
            bert: The encoder; it is used, not copied.
            n_labels: Labels C; 1 for a number.
            pooling: What a text's vector is of: its first token (`cls`), or the mean or the maximum over its tokens.
            dropout: On the pooled vector; None: the encoder's.

        Raises:
            InputError: `n_labels` is below 1, or the pooling is unknown.
        """
        super().__init__()
        _check(n_labels)
        if pooling not in POOLINGS:
            raise InputError(f"heads: pooling {pooling!r}, expected one of: {', '.join(POOLINGS)} [E-MODEL-HEAD]")
        self.bert, self.n_labels, self.pooling = bert, n_labels, pooling
        self.pooler = nn.Linear(bert.hidden, bert.hidden)
        self.dropout = nn.Dropout(bert.dropout if dropout is None else dropout)
        self.linear = nn.Linear(bert.hidden, n_labels)
        for part in (self.pooler, self.linear):
            part.apply(init_weights)

    def forward(self, x: Tensor, segment_info: Tensor) -> Tensor:
        """Map token ids and segments `[B, L]`, as `BERT.forward` takes them, to logits `[B, C]`."""
        if self.pooling == "cls":
            # Of the last block only the first tokens are computed.
            places_B = torch.arange(x.size(0), device=x.device) * x.size(1)
            pooled_BD = self.bert(x, segment_info, places=places_B)
        else:
            is_token_BL1 = (x != 0)[..., None]
            hidden_BLD = self.bert(x, segment_info)
            if self.pooling == "mean":
                pooled_BD = (hidden_BLD * is_token_BL1).sum(1) / is_token_BL1.sum(1).clamp(min=1)
            else:
                pooled_BD = hidden_BLD.masked_fill(~is_token_BL1, -torch.inf).amax(1)
        return self.linear(self.dropout(self.pooler(pooled_BD).tanh()))


class BERTForTokenClassification(nn.Module):
    """A tag for each token.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 5.3.
    """

    def __init__(self, bert: BERT, n_labels: int, *, dropout: float | None = None) -> None:
        """Put a new head on the encoder.

        Args:
            bert: The encoder; it is used, not copied.
            n_labels: Tags C.
            dropout: On the vectors; None: the encoder's.

        Raises:
            InputError: `n_labels` is below 1.
        """
        super().__init__()
        _check(n_labels)
        self.bert, self.n_labels = bert, n_labels
        self.dropout = nn.Dropout(bert.dropout if dropout is None else dropout)
        self.linear = nn.Linear(bert.hidden, n_labels)
        self.linear.apply(init_weights)

    def forward(self, x: Tensor, segment_info: Tensor) -> Tensor:
        """Map token ids and segments `[B, L]` to logits `[B, L, C]`."""
        return self.linear(self.dropout(self.bert(x, segment_info)))


class BERTForQuestionAnswering(nn.Module):
    """Where in a context the answer to a question begins and ends.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 4.2.
    """

    def __init__(self, bert: BERT) -> None:
        """Put a new head on the encoder.

        Args:
            bert: The encoder; it is used, not copied.
        """
        super().__init__()
        self.bert = bert
        self.linear = nn.Linear(bert.hidden, 2)
        self.linear.apply(init_weights)

    def forward(self, x: Tensor, segment_info: Tensor) -> Tensor:
        """Map token ids and segments `[B, L]` to logits `[B, L, 2]`: of being the answer's first, and its last token."""
        return self.linear(self.bert(x, segment_info))


def _check(n_labels: int) -> None:
    if n_labels < 1:
        raise InputError(f"heads: n_labels is {n_labels}, expected at least 1 [E-MODEL-HEAD]")
