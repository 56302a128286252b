"""The page of an evaluation: figures, confusion matrix, calibration, labels, worst errors. One file, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..trainer.report_html import facts, gallery, page, section, table, text
from ..trainer.report_plots import Line, Plot
from .judging import calibration_of, confusion_of
from .predicting import Answered, record_of
from .tasks import SINGLE

_MOST_LABELS = 30


def evaluation_page(
    answered: Answered,
    figures: Mapping[str, object],
    labels: Mapping[str, Mapping[str, float]],
    errors: Sequence[tuple[float, int]],
) -> bytes:
    """The page as the bytes of its file.

    Args:
        answered: The model and its predictions.
        figures: By name.
        labels: The table of labels.
        errors: The worst examples: loss and number.
    """
    title = f"Evaluation of {answered.model.folder}"
    parts = [f"<header>\n<h1>{text(title)}</h1>\n</header>", section("Figures", facts(figures, measured=True))]
    if answered.model.settings.task_and_kind[1] == SINGLE:
        parts += [section("Confusion matrix", _confusion(answered)), section("Calibration", _calibration(answered))]
    if labels:
        rows = [[text(name), *(text(_short(value)) for value in row.values())] for name, row in labels.items()]
        parts.append(section("Labels", table("Labels", ("label", "precision", "recall", "F1", "support"), rows)))
    if errors:
        rows = [[text(answered.examples[i].where), text(_short(loss)), *_words(answered, i)] for loss, i in errors]
        parts.append(
            section("Errors, the worst first", table("Errors", ("row", "loss", "text", "right", "said"), rows, "words"))
        )
    return page(title, parts)


def true_of(answered: Answered, i: int) -> object:
    """The right label of an example as a user reads it."""
    example, labels = answered.examples[i], answered.model.labels
    if example.answers:
        return [words for words, _ in example.answers]
    if labels is None:
        return example.label
    if not isinstance(example.label, list):
        return labels.names[example.label]
    if all(isinstance(each, int) for each in example.label):
        return [labels.names[each] for each in example.label]
    return [name for name, is_on in zip(labels.names, example.label, strict=True) if is_on]


def _confusion(answered: Answered) -> str:
    names = list((answered.model.labels.names if answered.model.labels else ())[:_MOST_LABELS])
    matrix = confusion_of(answered)
    rows = [[text(name), *(text(n) for n in matrix[i][: len(names)])] for i, name in enumerate(names)]
    note = "" if len(matrix) <= len(names) else f'<p class="note">The first {len(names)} of {len(matrix)} labels.</p>'
    return (
        '<p class="about">Rows: the right label; columns: what the model says.</p>'
        + table("Confusion matrix", ("", *names), rows)
        + note
    )


def _calibration(answered: Answered) -> str:
    found = calibration_of(answered)
    if found is None:
        return ""
    error, bins = found
    points = [(confidence, share) for confidence, share, _ in bins]
    ideal = [(confidence, confidence) for confidence, _, _ in bins]
    lines = [Line("share right", points, 1), Line("as confident as right", ideal, 2)]
    plot = Plot("Share right by confidence", lines, x_label="confidence")
    return f'<p class="about">Expected calibration error {error:.4f}.</p>' + gallery([plot], "no predictions")


def _words(answered: Answered, i: int) -> list[str]:
    record = record_of(answered, i)
    said = next((record[name] for name in ("label", "labels", "value", "output", "answer", "tags") if name in record), None)
    shown = record.get("text") or record.get("question") or " ".join(answered.examples[i].words)
    return [text(shown), text(true_of(answered, i)), text(said)]


def _short(value: float) -> str:
    return f"{value:.4g}"
