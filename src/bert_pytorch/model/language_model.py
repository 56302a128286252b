"""The two pretraining heads on top of the encoder.

Shapes: B sequences, L tokens per sequence, D hidden size, V vocabulary size, M masked tokens in the batch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..errors import InputError
from .bert import BERT, starts_of
from .cross_entropy import linear_cross_entropy
from .transformer import init_weights

_SCORES_AT_ONCE = 1 << 22


class BERTLM(nn.Module):
    """BERT with its next-sentence and masked-word heads."""

    def __init__(self, bert: BERT, vocab_size: int) -> None:
        """Put the two heads on the encoder.

        Args:
            bert: The encoder; it is used, not copied.
            vocab_size: Must equal `bert.vocab_size`, since the output projection is the word embedding itself.

        Raises:
            InputError: The two vocabulary sizes differ.
        """
        super().__init__()
        if vocab_size != bert.vocab_size:
            raise InputError(
                f"BERTLM: vocab_size is {vocab_size}, but the BERT was built with {bert.vocab_size}; "
                "give both the length of one vocabulary [E-MODEL-VOCAB]"
            )
        self.bert = bert
        self.next_sentence = NextSentencePrediction(bert.hidden)
        is_modern = bert.architecture == "modernbert"
        self.mask_lm = MaskedLanguageModel(
            bert.hidden, bert.embedding.token, bias=not is_modern, eps=1e-5 if is_modern else 1e-12
        )

    def forward(
        self, x: Tensor, segment_label: Tensor, bert_label: Tensor | None = None, example: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Predict the next-sentence relation and the masked words.

        Args:
            x: Token ids `[B, L]`, 0 on padding.
            segment_label: Segments `[B, L]`.
            bert_label: Target ids `[B, L]`, 0 where there is no target. When given, words are predicted at the M targets
                alone, row by row: the projection to V words at every position is most of a training step's work.
            example: For rows that hold several examples, as in `BERT.forward`; there are then as many next-sentence answers as
                examples, row by row.

        Returns:
            Log-probabilities `[B, 2]` (1 = is next), and `[B, L, V]`, or `[M, V]` when `bert_label` is given.
        """
        hidden_BLD = self.bert(x, segment_label, example)
        # Of each example the first token, as a sequence of its own.
        next_B2 = self.next_sentence(hidden_BLD if example is None else hidden_BLD[starts_of(example) & (x != 0)][:, None])
        if bert_label is None:
            return next_B2, self.mask_lm(hidden_BLD)
        return next_B2, self.mask_lm(hidden_BLD[bert_label != 0])

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> BERTLM:
        """The model of a hub-style folder or of a checkpoint, in evaluation mode; a warning names heads that begin anew.

        Raises:
            InputError: It cannot be read, or is of another graph.
        """
        # Files stand above models; only these two names, those of Transformers, point up to them.
        from ..interop.huggingface import load_any

        return load_any(folder)

    def save_pretrained(self, folder: str | os.PathLike[str], vocab_path: str | os.PathLike[str] | None = None) -> None:
        """Write a folder that Transformers loads.

        Args:
            folder: Made where it is missing.
            vocab_path: The vocabulary's file; None: no tokenizer is written.

        Raises:
            InputError: The architecture has no counterpart, or the vocabulary is another.
            SaveError: A file cannot be written.
        """
        from ..interop.huggingface import save_model

        save_model(self, folder, vocab_path)


class NextSentencePrediction(nn.Module):
    """Whether the second text follows the first, from the vector of the first token: pooler, then two classes.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.1, task 2; the tanh pooler as in the released code.
    `Differs:` class 1 means "is next", as in bert-pytorch; the released code has it as class 0.
    """

    def __init__(self, hidden: int) -> None:
        """Build the head for vectors of this size."""
        super().__init__()
        self.pooler = nn.Linear(hidden, hidden)
        self.linear = nn.Linear(hidden, 2)
        self.apply(init_weights)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[B, L, D]` to log-probabilities `[B, 2]`."""
        return self.linear(self.pooler(x[:, 0]).tanh()).log_softmax(-1)


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
