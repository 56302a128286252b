"""The tasks: what each reads, what a model answers, and the figure that decides."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from ..errors import UsageError

CLASSIFICATION, TOKENS, ANSWERS = "sequence-classification", "token-classification", "question-answering"
MASKED, CAUSAL, SEQ2SEQ = "masked-lm", "causal-lm", "seq2seq"
SINGLE, MULTI, REGRESSION = "single_label_classification", "multi_label_classification", "regression"
"""Kinds of sequence classification, under the names of Transformers' `problem_type`."""


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        name: As a user writes it.
        model_class: The class of Transformers that has the head.
        metric: The figure that decides which evaluation is the best.
        greater_is_better: Whether more of it is better.
        is_native: Whether this library has a head of its own for it.
    """

    name: str
    model_class: str
    metric: str
    greater_is_better: bool
    is_native: bool


TASKS = {
    task.name: task
    for task in (
        Task(CLASSIFICATION, "AutoModelForSequenceClassification", "accuracy", True, True),
        Task(TOKENS, "AutoModelForTokenClassification", "entity_f1", True, True),
        Task(ANSWERS, "AutoModelForQuestionAnswering", "f1", True, True),
        Task(MASKED, "AutoModelForMaskedLM", "loss", False, False),
        Task(CAUSAL, "AutoModelForCausalLM", "loss", False, False),
        Task(SEQ2SEQ, "AutoModelForSeq2SeqLM", "rougeL", True, False),
    )
}
SHORT_NAMES = {
    "regression": (CLASSIFICATION, REGRESSION),
    "multi-label": (CLASSIFICATION, MULTI),
    "sentence-pair": (CLASSIFICATION, SINGLE),
}
"""Names that say the kind too."""
METRIC_OF_KIND = {SINGLE: "accuracy", MULTI: "micro_f1", REGRESSION: "pearson"}


def find_task(name: str) -> tuple[Task, str | None]:
    """A task by its name, and the kind that the name says, if any.

    Raises:
        UsageError: There is none of this name; the message has the nearest.
    """
    plain = str(name).replace("_", "-").lower()
    if plain in SHORT_NAMES:
        full, kind = SHORT_NAMES[plain]
        return TASKS[full], kind
    if plain not in TASKS:
        known = [*TASKS, *SHORT_NAMES]
        near = difflib.get_close_matches(plain, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"expected one of: {', '.join(known)}"
        raise UsageError(f"task {name!r} is unknown; {hint} [E-FINETUNE-TASK]")
    return TASKS[plain], None


def metric_of(task: Task, kind: str | None) -> str:
    """The figure that decides for a task of this kind."""
    return METRIC_OF_KIND[kind] if task.name == CLASSIFICATION and kind is not None else task.metric
