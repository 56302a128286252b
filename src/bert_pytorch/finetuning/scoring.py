"""From what a model puts out to predictions, and from predictions to figures.

Shapes: N examples, W windows, L tokens, C labels.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import metrics
from .examples import Example
from .features import Features, context_places
from .labels import LabelMap
from .metrics import Figures
from .settings import Settings
from .tasks import ANSWERS, MULTI, REGRESSION, TOKENS

_BEST = 20


class Predictions(NamedTuple):
    """What a model says of N examples.

    Attributes:
        values: Of each a label's id, a number, a list of 0 and 1, a list of tags by word, or an answer.
        confidence: Of each how sure the model is, in [0, 1]; of a number nothing.
        scores: Of each the probability of every label, where there is one label a text or a set.
    """

    values: list[Any]
    confidence: list[float | None]
    scores: list[list[float]]


def predict_labels(logits: Tensor, kind: str | None) -> Predictions:
    """Labels from `[N, C]` logits."""
    logits = logits.float()
    if kind == REGRESSION:
        numbers = logits.squeeze(-1).tolist()
        return Predictions(numbers, [None] * len(numbers), [])
    if kind == MULTI:
        shares = logits.sigmoid()
        sure = torch.maximum(shares, 1 - shares).min(-1).values
        return Predictions((shares > 0.5).long().tolist(), list(sure.tolist()), shares.tolist())
    shares = logits.softmax(-1)
    best = shares.max(-1)
    return Predictions(best.indices.tolist(), list(best.values.tolist()), shares.tolist())


def predict_tags(logits: Sequence[Tensor], features: Features, examples: Sequence[Example], labels: LabelMap) -> Predictions:
    """Tags by word from each window's `[L, C]`; the first piece of a word decides, a word that was cut off is `O`."""
    values, confidence = [], []
    rest = "O" if "O" in labels.names else labels.names[0]
    for scores, window, owner in zip(logits, features.windows, features.owners, strict=True):
        shares = scores[: len(window.ids)].float().softmax(-1)
        best = shares.max(-1)
        tags, sure = [rest] * len(examples[owner].words), 1.0
        seen: set[int] = set()
        for i, word in enumerate(window.words):
            if word is not None and word not in seen:
                seen.add(word)
                tags[word] = labels.names[int(best.indices[i])]
                sure = min(sure, float(best.values[i]))
        values.append(tags)
        confidence.append(sure)
    return Predictions(values, confidence, [])


def predict_answers(
    starts: Sequence[Tensor], ends: Sequence[Tensor], features: Features, examples: Sequence[Example], most_tokens: int
) -> Predictions:
    """The likeliest answer of each question over all windows of its context.

    Args:
        starts: Of each window `[L]` logits of where the answer begins.
        ends: Likewise of where it ends.
        features: The windows.
        examples: The questions.
        most_tokens: Longest answer.
    """
    # Two windows may hold the same place of the context: it counts once, with the better score.
    best: list[dict[tuple[int, int], float]] = [{} for _ in examples]
    for start, end, window, owner in zip(starts, ends, features.windows, features.owners, strict=True):
        first, last = context_places(window)
        n_best = min(_BEST, last + 1 - first)
        begins = (start[first : last + 1].float().topk(n_best).indices + first).tolist()
        closes = (end[first : last + 1].float().topk(n_best).indices + first).tolist()
        for i in begins:
            for j in closes:
                if i <= j < i + most_tokens:
                    place = window.offsets[i][0], window.offsets[j][1]
                    score = float(start[i]) + float(end[j])
                    best[owner][place] = max(score, best[owner].get(place, -math.inf))
    values: list[Any] = []
    confidence: list[float | None] = []
    for found, example in zip(best, examples, strict=True):
        top = heapq.nlargest(_BEST, ((score, place) for place, score in found.items()))
        if not top:
            values.append("")
            confidence.append(0.0)
            continue
        total = sum(math.exp(score - top[0][0]) for score, _ in top)
        begin, close = top[0][1]
        values.append((example.pair or "")[begin:close])
        confidence.append(1 / total)
    return Predictions(values, confidence, [])


def measure(predictions: Predictions, examples: Sequence[Example], settings: Settings, labels: LabelMap | None) -> Figures:
    """The figures of a task from predictions of the head."""
    task, kind = settings.task_and_kind
    true = [example.label for example in examples]
    if task.name == TOKENS and labels is not None:
        names = list(labels.names)
        return metrics.entities(predictions.values, [[names[i] for i in tags] for tags in true])
    if task.name == ANSWERS:
        return metrics.answers(predictions.values, [[text for text, _ in example.answers] for example in examples])
    if kind == REGRESSION:
        return metrics.regression(predictions.values, true)
    if kind == MULTI:
        return metrics.multi_label(predictions.values, true)
    return metrics.classification(predictions.values, true, len(labels or ()))


def predict(
    outputs: Sequence[Tensor], features: Features, examples: Sequence[Example], settings: Settings, labels: LabelMap | None
) -> Predictions:
    """Predictions of any task with a head.

    Args:
        outputs: Of each window its logits: `[C]` of a text, `[L, C]` of tokens, `[L, 2]` of where an answer begins and ends.
        features: The windows.
        examples: What they are of.
        settings: The task.
        labels: Its labels, if any.
    """
    task, kind = settings.task_and_kind
    if task.name == TOKENS and labels is not None:
        return predict_tags(outputs, features, examples, labels)
    if task.name == ANSWERS:
        starts, ends = [each[:, 0] for each in outputs], [each[:, 1] for each in outputs]
        return predict_answers(starts, ends, features, examples, settings.max_answer_tokens)
    return predict_labels(torch.stack(list(outputs)), kind)


def own_figures(function: Callable[..., Any] | None, predictions: Predictions, examples: Sequence[Example]) -> Figures:
    """What a user's `compute_metrics(predictions, labels)` tells; of questions a label is the list of right texts."""
    if function is None:
        return {}
    true = [[text for text, _ in example.answers] if example.answers else example.label for example in examples]
    return {str(name): float(value) for name, value in function(predictions.values, true).items()}
