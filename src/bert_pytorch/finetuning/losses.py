"""Losses of both engines where the model's own is not wanted: weighted by class, focal, or the user's.

Shapes: B texts, L tokens, C labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from ..errors import InputError
from .features import IGNORED
from .labels import LabelMap
from .settings import Settings
from .tasks import ANSWERS, MULTI, REGRESSION
from .user_code import load_function

_GAMMA = 2.0
Loss = Callable[[Tensor, Tensor], Tensor]
"""From logits and labels to the mean loss."""


def class_weights(settings: Settings, labels: LabelMap, found: Sequence[int]) -> Tensor | None:
    """A weight for each label `[C]`; `balanced` makes all labels count alike: rows over labels times its own rows.

    Raises:
        InputError: There are not as many weights as labels, or one is not above 0.
    """
    given = settings.class_weights
    if given is None:
        return None
    if isinstance(given, str):
        counts = Counter(found)
        # A label that is named but does not occur has no row that could be weighted.
        return torch.tensor([len(found) / (len(labels) * counts[i]) if counts[i] else 1.0 for i in range(len(labels))])
    if len(given) != len(labels) or not all(weight > 0 for weight in given):
        message = f"class_weights are {list(given)}, expected {len(labels)} numbers above 0, for {', '.join(labels.names)}"
        raise InputError(f"{message} [E-FINETUNE-SETTING]")
    return torch.tensor([float(weight) for weight in given])


def make_loss(settings: Settings, labels: LabelMap | None, found: Sequence[int]) -> Loss | None:
    """The loss that the settings ask for; None: the usual one of the task.

    Args:
        settings: `compute_loss`, `loss` and `class_weights`.
        labels: The labels of the task, if any.
        found: Ids of the labels of the training rows, for balanced weights.

    Raises:
        InputError: Weights do not fit the labels, or the user's file has no such function.
    """
    if settings.compute_loss is not None:
        return load_function(settings.compute_loss, "compute_loss")
    if labels is None or (settings.class_weights is None and settings.loss == "cross_entropy"):
        return None
    weights = class_weights(settings, labels, found)
    is_focal = settings.loss == "focal"

    def loss(logits: Tensor, targets: Tensor) -> Tensor:
        """The mean over texts, so that it does not depend on how rows fall into batches."""
        each_B = nn.functional.cross_entropy(logits.float(), targets, reduction="none")
        if is_focal:
            # Lin et al. 2017 (arXiv 1708.02002), equation 4.
            each_B = (1 - (-each_B).exp()) ** _GAMMA * each_B
        return (each_B if weights is None else each_B * weights.to(each_B.device)[targets]).mean()

    return loss


def usual_loss(logits: Tensor, batch: dict[str, Tensor], task: str, kind: str | None) -> Tensor:
    """The loss of a task that the native engine's heads are trained by, as Transformers' heads have it.

    Args:
        logits: `[B, C]`, `[B, L, C]` or, for answers, `[B, L, 2]`.
        batch: Holds `labels`, or `start_positions` and `end_positions` `[B]`.
        task: Name of the task.
        kind: Kind of classification.
    """
    logits = logits.float()
    if task == ANSWERS:
        # Padding takes no part: the softmax runs over the tokens there are.
        scores = logits.masked_fill(batch["attention_mask"][..., None] == 0, -1e9)
        start = nn.functional.cross_entropy(scores[..., 0], batch["start_positions"])
        return (start + nn.functional.cross_entropy(scores[..., 1], batch["end_positions"])) / 2
    labels = batch["labels"]
    if kind == REGRESSION:
        return nn.functional.mse_loss(logits.squeeze(-1), labels.float())
    if kind == MULTI:
        return nn.functional.binary_cross_entropy_with_logits(logits, labels.float())
    return nn.functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


def count_targets(batch: Mapping[str, Tensor]) -> int:
    """What a mean loss of a batch is over: tagged tokens, or rows."""
    labels = batch.get("labels")
    if labels is not None and labels.shape == batch["input_ids"].shape and not labels.is_floating_point():
        return int((labels != IGNORED).sum())
    return len(batch["input_ids"])
