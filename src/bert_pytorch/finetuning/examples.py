"""Rows as examples of a task, each fault named by its line; what a model would learn nonsense from is refused here."""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from .columns import find_columns
from .labels import LabelMap, map_labels, tag_map, text_of
from .reading import Table
from .settings import Settings
from .tasks import ANSWERS, CLASSIFICATION, MULTI, REGRESSION, SEQ2SEQ, TOKENS


@dataclass(frozen=True)
class Example:
    """One row.

    Attributes:
        where: Its place in the file.
        text: The text, or the question.
        pair: The second text, or the context.
        words: Of a tagged sentence, its tokens.
        label: A label's id, a number, a list of 0 and 1 by label, a list of tag ids, or the target text; None: not known.
        answers: Of a question the right answers, each with its first character in the context.
        key: The question's own id.
    """

    where: str
    text: str = ""
    pair: str | None = None
    words: Sequence[str] = ()
    label: Any = None
    answers: Sequence[tuple[str, int]] = ()
    key: str = ""


@dataclass
class Examples:
    """The examples of a file, and what was left out.

    Attributes:
        items: The examples.
        labels: The labels, where the task has any.
        skipped: Rows left out, by the code of their fault.
    """

    items: list[Example]
    labels: LabelMap | None = None
    skipped: dict[str, int] = field(default_factory=dict)


def make_examples(
    table: Table,
    settings: Settings,
    labels: LabelMap | None = None,
    *,
    with_labels: bool = True,
    is_training: bool = False,
) -> Examples:
    """Check the rows of a file and bring them into the form of the task.

    Args:
        table: The rows.
        settings: What they are for.
        labels: Those of training; None: this is the training file, they are found in it.
        with_labels: Whether rows have labels; without, for predictions, those there are ignored.
        is_training: Whether a model is to learn from them, for which numbers must differ.

    Raises:
        InputError: A column is not there, or a row has a fault and bad rows are not to be left out.
    """
    columns = find_columns(table, settings, with_labels=with_labels)
    task, kind = settings.task_and_kind
    items: list[Example] = []
    skipped: dict[str, int] = {}
    for i, row in enumerate(table.rows):
        try:
            items.append(_example(row, table.where(i), columns, task.name, kind, with_labels))
        except InputError as error:
            if not settings.skip_bad_rows:
                raise
            skipped[str(error.code)] = skipped.get(str(error.code), 0) + 1
    if not items:
        raise InputError(f"{table.source}: no row is left after {sum(skipped.values())} bad ones [E-FINETUNE-FEW-ROWS]")
    found = Examples(items, labels, skipped)
    if with_labels and kind != REGRESSION and task.name in (CLASSIFICATION, TOKENS):
        _number_labels(found, table, settings, kind)
    if is_training and kind == REGRESSION and len({item.label for item in items}) < 2:
        message = f"all numbers are {items[0].label}; there is nothing to learn"
        raise InputError(f"{table.source}: {message} [E-FINETUNE-ONE-CLASS]")
    return found


def _example(
    row: Mapping[str, Any], where: str, columns: Mapping[str, str | None], task: str, kind: str | None, with_labels: bool
) -> Example:
    names = columns["text"], columns["pair"], columns["label"]
    text, pair, label = (None if name is None else row.get(name) for name in names)
    if task == TOKENS:
        return _tagged(where, text, label if with_labels else None)
    first = _text(where, columns["text"], text)
    second = None if columns["pair"] is None else _text(where, columns["pair"], pair)
    if task == ANSWERS:
        answers = [] if label is None else _answers(where, label, second or "", with_labels)
        if with_labels and not answers:
            raise InputError(f"{where}: a question without an answer; leave it out, or set skip_bad_rows [E-FINETUNE-ANSWER]")
        return Example(where, first, second, answers=answers, key=str(row.get("id") or where))
    if not with_labels or columns["label"] is None:
        return Example(where, first, second)
    if task == SEQ2SEQ:
        return Example(where, first, label=_text(where, columns["label"], label))
    readers: dict[str | None, Callable[[str, object], object]] = {REGRESSION: _target, MULTI: _label_set}
    return Example(where, first, second, label=readers.get(kind, _label)(where, label))


def _text(where: str, column: str | None, value: object) -> str:
    if value is None or not str(value).strip():
        raise InputError(f"{where}: column {column} is empty; fill it, or set skip_bad_rows [E-FINETUNE-EMPTY]")
    if not isinstance(value, (str, int, float)):
        raise InputError(f"{where}: column {column} is a {type(value).__name__}, expected a text [E-FINETUNE-EMPTY]")
    return str(value)


def _label(where: str, value: object) -> str:
    if value is None or not str(value).strip() or (isinstance(value, float) and math.isnan(value)):
        raise InputError(f"{where}: no label; fill it, or set skip_bad_rows [E-FINETUNE-LABEL]")
    return text_of(value)


def _target(where: str, value: object) -> float:
    try:
        number = float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: the label is {value!r}, expected a number for regression [E-FINETUNE-LABEL]")
    return number


def _label_set(where: str, value: object) -> list[str]:
    """The labels of a text that may have several: a list, or a text with commas, semicolons or bars between; none is empty."""
    if value is None:
        raise InputError(f"{where}: no list of labels; write [] for none [E-FINETUNE-LABEL]")
    if isinstance(value, list):
        return [text_of(each) for each in value]
    text = str(value).strip()
    if text.startswith("["):
        return [text_of(each) for each in _list_of(where, text)]
    return [part.strip() for part in re.split(r"[,;|]", text) if part.strip()]


def _list_of(where: str, text: str) -> list[Any]:
    try:
        value = json.loads(text)
    except ValueError:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError) as error:
            raise InputError(f"{where}: {text[:60]!r} is no list [E-FINETUNE-LABEL]") from error
    if not isinstance(value, list):
        raise InputError(f"{where}: {text[:60]!r} is no list [E-FINETUNE-LABEL]")
    return value


def _tagged(where: str, words: object, tags: object) -> Example:
    words, tags = (
        (_list_of(where, value) if value.lstrip().startswith("[") else value.split()) if isinstance(value, str) else value
        for value in (words, tags)
    )
    if not isinstance(words, list) or not words or not all(str(word).strip() for word in words):
        raise InputError(f"{where}: no tokens, or an empty one; fill them, or set skip_bad_rows [E-FINETUNE-EMPTY]")
    if tags is not None and (not isinstance(tags, list) or len(tags) != len(words)):
        n_tags = len(tags) if isinstance(tags, list) else 0
        raise InputError(f"{where}: {len(words)} tokens and {n_tags} tags, expected one tag a token [E-FINETUNE-LABEL]")
    names = None if tags is None else [_label(where, tag) for tag in tags]
    return Example(where, words=[str(word) for word in words], label=names)


def _answers(where: str, value: object, context: str, with_labels: bool) -> list[tuple[str, int]]:
    """Answers with their places; a place that the text at it does not bear out is an error, a missing one is looked up."""
    if isinstance(value, str):
        value = {"text": [value]}
    if isinstance(value, list):
        value = {"text": [a.get("text") for a in value], "answer_start": [a.get("answer_start") for a in value]}
    texts = value.get("text") if isinstance(value, dict) else None
    if not isinstance(texts, list):
        raise InputError(f"{where}: answers without `text`, expected SQuAD's form [E-FINETUNE-ANSWER]")
    starts = value.get("answer_start") if isinstance(value, dict) else None
    starts = starts if isinstance(starts, list) else [None] * len(texts)
    answers = []
    for text, start in zip(texts, starts, strict=False):
        place = context.find(str(text)) if start is None else int(start)
        if with_labels and (not str(text).strip() or place < 0 or context[place : place + len(str(text))] != str(text)):
            there = "it is not in the context" if place < 0 or str(text) not in context else f"at {place} stands other text"
            hint = "mend answer_start, or set skip_bad_rows"
            raise InputError(f"{where}: answer {str(text)[:40]!r}: {there}; {hint} [E-FINETUNE-ANSWER]")
        answers.append((str(text), place))
    return answers


def _number_labels(found: Examples, table: Table, settings: Settings, kind: str | None) -> None:
    """Give labels their ids, those of training or new ones."""
    names = [
        (name, item.where) for item in found.items for name in (item.label if isinstance(item.label, list) else [item.label])
    ]
    if found.labels is None:
        make = tag_map if kind is None else map_labels
        found.labels = make([name for name, _ in names], table.source, settings.label_names)
    ids = found.labels.label2id
    strange = [(name, where) for name, where in names if name not in ids]
    if strange:
        name, where = strange[0]
        known = ", ".join(found.labels.names[:10])
        message = f"label {name!r} is not one of training: {known}; mend it, or name all in label_names"
        raise InputError(f"{where}: {message} ({len(strange)} such) [E-FINETUNE-LABEL]")
    for i, item in enumerate(found.items):
        values: object = ids[item.label] if isinstance(item.label, str) else [ids[name] for name in item.label]
        if kind == MULTI and isinstance(values, list):
            values = [float(each in values) for each in range(len(ids))]
        found.items[i] = Example(item.where, item.text, item.pair, item.words, values, item.answers, item.key)
