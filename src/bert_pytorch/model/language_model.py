"""The two pretraining heads on top of the encoder.

Shapes: B sequences, L tokens per sequence, D hidden size, V vocabulary size, M masked tokens in the batch.
"""

from __future__ import annotations

import os

from torch import Tensor, nn

from ..errors import InputError
from .bert import BERT, starts_of
from .language_model_head import MaskedLanguageModel, unigram_log_probabilities
from .original import PlainMaskedLanguageModel, PlainNextSentence
from .transformer import init_weights

__all__ = ["BERTLM", "MaskedLanguageModel", "NextSentencePrediction", "unigram_log_probabilities"]


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
        if bert.architecture == "bert-pytorch":
            self.next_sentence = PlainNextSentence(bert.hidden)
            self.mask_lm = PlainMaskedLanguageModel(bert.hidden, vocab_size)
            return
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
