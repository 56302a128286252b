"""What one batch contributes to the loss and to what is measured, as sums.

Shapes: B sequences, L tokens per sequence, M targets, E examples, V vocabulary size.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import BERTLM
from ..model.bert import starts_of

_MULTIPLE = 32
"""Vectors are wanted in whole multiples, the last ones in vain.

A CPU keeps a megabyte of each shape for products in fewer bits, which came to gigabytes when each batch had its own.
"""
SUMS = ("mlm_loss", "mlm_correct", "n_targets", "nsp_loss", "nsp_correct", "n_answers", "n_items", "real_tokens")
"""What the columns of a batch's sums are. Losses in nats; all differentiable where they depend on weights."""


class PretrainingObjective(nn.Module):
    """A language model's losses on a batch, computed where they are needed only: at targets and at first tokens."""

    def __init__(self, language_model: BERTLM, label_smoothing: float = 0.0) -> None:
        """Measure this model; it is used, not copied.

        Args:
            language_model: The model.
            label_smoothing: In training, the share of each hidden word that is spread over all words alike.
        """
        super().__init__()
        self.language_model, self.label_smoothing = language_model, label_smoothing

    def forward(
        self,
        bert_input: Tensor,
        segment_label: Tensor,
        bert_label: Tensor,
        is_next: Tensor | None = None,
        example: Tensor | None = None,
        places: tuple[Tensor, Tensor] | None = None,
        has_padding: bool | None = None,
    ) -> Tensor:
        """Sum losses and counts over a batch.

        Args:
            bert_input: Token ids `[B, L]`.
            segment_label: Segments `[B, L]`.
            bert_label: Target ids `[B, L]`, 0 where there is no target.
            is_next: Answers `[E]`, or by row `[B, ...]`, filled up with -1; None: masked words alone.
            example: As in `BERT.forward`.
            places: What `places_of` gives for the batch; None: computed here, for which a GPU waits.
            has_padding: As in `BERT.forward`.

        Returns:
            `[1, S]`, the columns named by `SUMS`.
        """
        model = self.language_model
        if is_next is not None and is_next.dim() > 1:
            is_next = is_next[is_next >= 0]
        first_E, target_M = places_of(bert_input, bert_label, example) if places is None else places
        n_first = 0 if is_next is None else len(first_E)
        in_vain = target_M.new_zeros(-len(target_M) % _MULTIPLE)
        wanted = torch.cat((target_M, in_vain) if is_next is None else (first_E, target_M, in_vain))
        vectors = model.bert(bert_input, segment_label, example, wanted, has_padding)
        smoothing = self.label_smoothing if model.training else 0.0
        mlm_loss, mlm_correct = model.mask_lm.loss(vectors[n_first:], bert_label.flatten()[target_M], smoothing)
        next_sentence: tuple[Tensor | int, ...] = (0, 0, 0)
        if is_next is not None:
            answers_E2 = model.next_sentence(vectors[:n_first, None])
            n_right = (answers_E2.argmax(-1) == is_next).sum()
            next_sentence = (F.nll_loss(answers_E2, is_next, reduction="sum"), n_right, n_first)
        return _row(mlm_loss, mlm_correct, len(target_M), *next_sentence, len(first_E), (bert_input != 0).sum())


class ParallelObjective(nn.DataParallel):
    """An objective on several GPUs, each with a part of the batch; one row of sums a GPU."""

    def forward(
        self,
        bert_input: Tensor,
        segment_label: Tensor,
        bert_label: Tensor,
        is_next: Tensor | None = None,
        example: Tensor | None = None,
        places: tuple[Tensor, Tensor] | None = None,
        has_padding: bool | None = None,
    ) -> Tensor:
        """As `PretrainingObjective.forward`; numbers of places in the whole batch mean nothing in a part, and are left out."""
        if is_next is not None and example is not None:
            is_next = answers_by_row(is_next, bert_input, example)
        return super().forward(bert_input, segment_label, bert_label, is_next, example)


def answers_by_row(is_next: Tensor, bert_input: Tensor, example: Tensor) -> Tensor:
    """The answers `[E]` of packed rows as `[B, most]`, filled up with -1, so that rows can be parted with their answers."""
    n_examples_B = (starts_of(example) & (bert_input != 0)).sum(1)
    is_there = torch.arange(int(n_examples_B.max()), device=is_next.device) < n_examples_B[:, None]
    rows = is_next.new_full(is_there.shape, -1)
    rows[is_there] = is_next
    return rows


def places_of(bert_input: Tensor, bert_label: Tensor, example: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where the first token of each example `[E]` and the targets `[M]` stand, as numbers of the `B * L` places, row by row."""
    n_rows, n_columns = bert_input.shape
    if example is None:
        first_E = torch.arange(0, n_rows * n_columns, n_columns, device=bert_input.device)
    else:
        first_E = (starts_of(example) & (bert_input != 0)).flatten().nonzero()[:, 0]
    return first_E, bert_label.flatten().nonzero()[:, 0]


def sums_by(criterion: Callable[[Tensor, Tensor], Tensor], model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The same sums the plain way, from all probabilities and a criterion that takes its mean, such as a user's own."""
    answers_E2, words_MV = model(batch["bert_input"], batch["segment_label"], batch["bert_label"], batch.get("example"))
    targets_M, is_next = batch["bert_label"][batch["bert_label"] != 0], batch.get("is_next")
    n_targets, n_items = len(targets_M), len(answers_E2)
    mlm_loss = criterion(words_MV, targets_M) * n_targets
    masked_words = (mlm_loss, (words_MV.argmax(-1) == targets_M).sum(), n_targets)
    next_sentence: tuple[Tensor | int, ...] = (0, 0, 0)
    if is_next is not None:
        n_right = (answers_E2.argmax(-1) == is_next).sum()
        next_sentence = (criterion(answers_E2, is_next) * n_items, n_right, n_items)
    return _row(*masked_words, *next_sentence, n_items, (batch["bert_input"] != 0).sum())


def _row(mlm_loss: Tensor, *others: Tensor | int) -> Tensor:
    """The sums of a batch `[1, S]`, in the order of `SUMS`, all of the first one's type."""
    counted = (each.to(mlm_loss.dtype) if isinstance(each, Tensor) else mlm_loss.new_full((), each) for each in others)
    return torch.stack([mlm_loss, *counted])[None]
