"""How good a model is on labelled rows: figures, tables, errors by loss, and a comparison with another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from . import metrics
from .comparing import Interval, bootstrap
from .examples import Example
from .predicting import Answered
from .scoring import measure
from .tasks import ANSWERS, MULTI, REGRESSION, SEQ2SEQ, SINGLE, TOKENS


def figures_of(answered: Answered) -> metrics.Figures:
    """The figures of the task."""
    if answered.model.settings.task_and_kind[0].name == SEQ2SEQ:
        from .generating import rouge

        return rouge(answered.predictions.values, [example.label for example in answered.examples])
    return measure(answered.predictions, answered.examples, answered.model.settings, answered.model.labels)


def scores_of(answered: Answered) -> list[float]:
    """How right each example is, the more the better; their mean is the task's figure, or for entities that of sentences."""
    return [_score(answered, i) for i in range(len(answered.examples))]


def losses_of(answered: Answered) -> list[float]:
    """The loss of each example: of one label a text that of its right label, else how far from right it is."""
    kind = answered.model.settings.task_and_kind[1]
    if kind == SINGLE:
        shares = answered.predictions.scores
        return [-math.log(max(1e-12, row[e.label])) for row, e in zip(shares, answered.examples, strict=True)]
    return [-score if kind == REGRESSION else 1 - score for score in scores_of(answered)]


def errors_of(answered: Answered, most: int) -> list[tuple[float, int]]:
    """Examples that are not right, the worst first: loss and number."""
    scores, losses = scores_of(answered), losses_of(answered)
    is_number = answered.model.settings.task_and_kind[1] == REGRESSION
    wrong = [(losses[i], i) for i, score in enumerate(scores) if is_number or score < 1]
    return sorted(wrong, key=lambda each: (-each[0], each[1]))[:most]


def label_table(answered: Answered) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and support by label, or by type of entity; none for other tasks."""
    task, kind = answered.model.settings.task_and_kind
    labels = answered.model.labels
    if labels is None or kind in (MULTI, REGRESSION):
        return {}
    if task.name == TOKENS:
        true = [[labels.name(i) for i in example.label] for example in answered.examples]
        return metrics.entity_table(answered.predictions.values, true)
    return dict(zip(labels.names, metrics.class_table(confusion_of(answered)), strict=True))


def confusion_of(answered: Answered) -> list[list[int]]:
    """True labels by predicted ones; of one label a text."""
    labels = answered.model.labels
    true = [example.label for example in answered.examples]
    return metrics.confusion(answered.predictions.values, true, len(labels or ()))


def calibration_of(answered: Answered) -> tuple[float, list[list[float]]] | None:
    """The calibration error and its bins, where there is one label a text."""
    if answered.model.settings.task_and_kind[1] != SINGLE:
        return None
    right = [value == example.label for value, example in _pairs(answered)]
    return metrics.calibration([float(c or 0.0) for c in answered.predictions.confidence], right)


def compare(one: Answered, other: Answered, n_draws: int, seed: int) -> Interval:
    """By how much the second model is better, example by example, with its interval.

    Raises:
        InputError: The two are of different tasks, labels or examples.
    """
    if one.model.settings.task_and_kind != other.model.settings.task_and_kind or one.model.labels != other.model.labels:
        message = "was trained for another task or other labels; compare models of one task"
        raise InputError(f"{other.model.folder}: {message} [E-FINETUNE-COMPARE]")
    differences = [b - a for a, b in zip(scores_of(one), scores_of(other), strict=True)]
    return bootstrap(differences, n_draws, seed)


def _pairs(answered: Answered) -> list[tuple[Any, Example]]:
    return list(zip(answered.predictions.values, answered.examples, strict=True))


def _score(answered: Answered, i: int) -> float:
    task, kind = answered.model.settings.task_and_kind
    labels, example, value = answered.model.labels, answered.examples[i], answered.predictions.values[i]
    if task.name == TOKENS and labels is not None:
        return _sentence_f1(value, [labels.name(each) for each in example.label])
    if task.name == ANSWERS:
        return metrics.answer_scores(value, [text for text, _ in example.answers])[1]
    if task.name == SEQ2SEQ:
        return float(value.strip() == example.label.strip())
    if kind == REGRESSION:
        return -abs(value - example.label)
    if kind == MULTI:
        return float(list(map(bool, value)) == list(map(bool, example.label)))
    return float(value == example.label)


def _sentence_f1(predicted: Sequence[str], true: Sequence[str]) -> float:
    found, wanted = metrics.spans(predicted), metrics.spans(true)
    return 2 * len(found & wanted) / (len(found) + len(wanted)) if found or wanted else 1.0
