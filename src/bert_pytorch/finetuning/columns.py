"""Which column of a table is what: as named, else by the usual names, never by a guess at the content."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from ..errors import InputError
from .reading import Table
from .settings import Settings
from .tasks import ANSWERS, CAUSAL, CLASSIFICATION, MASKED, SEQ2SEQ, TOKENS, Task

_TEXT = ("text", "sentence", "sentence1", "premise", "question1", "review", "content", "comment", "message", "title", "line")
_PAIR = ("text_pair", "sentence2", "hypothesis", "question2", "text2", "second")
_LABEL = ("label", "labels", "class", "category", "target", "score", "stars", "rating", "sentiment", "intent")
_SOURCE = ("source", "input", "document", "article", "text", "dialogue", "question")
_TARGET = ("target", "output", "summary", "highlights", "label", "answer", "translation")
_USUAL: Mapping[str, Mapping[str, Sequence[str]]] = {
    CLASSIFICATION: {"text": _TEXT, "pair": _PAIR, "label": _LABEL},
    TOKENS: {"text": ("tokens", "words", "text"), "label": ("ner_tags", "tags", "labels", "pos_tags", "chunk_tags")},
    ANSWERS: {"text": ("question",), "pair": ("context", "passage"), "label": ("answers", "answer")},
    MASKED: {"text": _TEXT},
    CAUSAL: {"text": _TEXT},
    SEQ2SEQ: {"text": _SOURCE, "label": _TARGET},
}
_SETTING = {"text": "text_column", "pair": "pair_column", "label": "label_column"}


def find_columns(table: Table, settings: Settings, *, with_labels: bool = True) -> dict[str, str | None]:
    """The columns of the parts `text`, `pair` and `label`; None where a part is neither there nor needed.

    Args:
        table: The data.
        settings: Names given by the user win.
        with_labels: Whether a label is needed.

    Raises:
        InputError: A column that is named or needed is not there.
    """
    task: Task = settings.task_and_kind[0]
    named = {"text": settings.text_column, "pair": settings.pair_column, "label": settings.label_column}
    usual = _USUAL[task.name]
    found: dict[str, str | None] = dict.fromkeys(named)
    for part, name in named.items():
        if name is not None and part not in usual:
            message = f"{_SETTING[part]} has no effect on {task.name}; leave it out"
            raise InputError(f"{table.source}: {message} [E-SETTING-CONFLICT]")
        if name is not None and name not in table.columns:
            if part == "label" and not with_labels:
                continue
            raise InputError(f"{table.source}: no column {name!r}; {_there(table, name)} [E-FINETUNE-COLUMN]")
        found[part] = name
    for part, names in usual.items():
        if found[part] is None and (part != "label" or with_labels or task.name == ANSWERS):
            taken = [each for each in found.values() if each]
            found[part] = _first(table, [name for name in names if name not in taken])
        is_needed = part == "text" or (part == "label" and with_labels) or (part == "pair" and task.name == ANSWERS)
        if found[part] is None and is_needed:
            wanted = f"no column for the {part}, looked for {', '.join(names)}"
            hint = f"there are {', '.join(table.columns)}; set {_SETTING[part]}"
            raise InputError(f"{table.source}: {wanted}; {hint} [E-FINETUNE-COLUMN]")
    if str(settings.task).replace("_", "-") == "sentence-pair" and found["pair"] is None:
        hint = f"there are {', '.join(table.columns)}; set pair_column"
        raise InputError(f"{table.source}: no column for the second text; {hint} [E-FINETUNE-COLUMN]")
    return found


def _first(table: Table, names: Sequence[str]) -> str | None:
    by_small = {column.lower(): column for column in table.columns}
    return next((by_small[name] for name in names if name in by_small), None)


def _there(table: Table, name: str) -> str:
    near = difflib.get_close_matches(name, table.columns, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(table.columns)}"
