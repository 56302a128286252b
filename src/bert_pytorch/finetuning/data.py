"""The data of a run: training, held-out and test examples, checked together."""

from __future__ import annotations

import random
import warnings
from collections import Counter
from dataclasses import dataclass

from ..errors import InputError, UsageError
from .examples import Example, Examples, make_examples
from .labels import LabelMap
from .reading import Table, read_folder, read_table
from .settings import Settings
from .tasks import ANSWERS, CLASSIFICATION, SINGLE

_VALIDATION_NAMES = ("validation", "valid", "dev", "eval")


@dataclass
class Data:
    """The examples of a run.

    Attributes:
        train, validation, test: They; test may not be there.
        labels: The labels of training, where the task has any.
        facts: Counts for the report.
    """

    train: list[Example]
    validation: list[Example]
    test: list[Example] | None
    labels: LabelMap | None
    facts: dict[str, object]


def load_data(settings: Settings) -> Data:
    """Read and check the data that the settings name.

    Raises:
        InputError: A file or a row cannot be used, or there is too little to learn from.
        UsageError: No training data are named.
    """
    tables = _tables(settings)
    source = tables["train"].source
    train = make_examples(tables["train"], settings, is_training=True)
    rest = {name: make_examples(tables[name], settings, train.labels) for name in ("validation", "test") if name in tables}
    draw = random.Random(settings.seed)
    if "validation" not in rest:
        _check_count(len(train.items), source, settings)
        train.items, held_out = _split(train.items, settings, draw)
        rest["validation"] = Examples(held_out, train.labels)
    train.items = _some(train.items, settings.max_train_rows, draw)
    _check_count(len(train.items), source, settings)
    validation = _some(rest["validation"].items, settings.max_validation_rows, draw)
    test = rest["test"].items if "test" in rest else None
    facts: dict[str, object] = {"train_rows": len(train.items), "validation_rows": len(validation)}
    facts |= {} if test is None else {"test_rows": len(test)}
    skipped = sum((Counter(each.skipped) for each in (train, *rest.values())), Counter())
    facts["skipped_rows"] = sum(skipped.values())
    if skipped:
        warnings.warn(f"left out bad rows: {', '.join(f'{n} {code}' for code, n in sorted(skipped.items()))}", stacklevel=2)
    facts["seen_share"] = _seen_share(train.items, validation)
    task, kind = settings.task_and_kind
    if task.name == CLASSIFICATION and kind == SINGLE:
        _check_classes(train.items, source)
        facts["majority_share"] = max(Counter(each.label for each in validation).values()) / len(validation)
    return Data(train.items, validation, test, train.labels, facts)


def _tables(settings: Settings) -> dict[str, Table]:
    if settings.data_dir is not None:
        splits = read_folder(settings.data_dir)
        if "train" not in splits:
            raise InputError(f"{settings.data_dir}: no split train, there are {', '.join(splits)} [E-FINETUNE-FORMAT]")
        found = next((name for name in _VALIDATION_NAMES if name in splits), None)
        tables = {"train": splits["train"], "test": splits.get("test"), "validation": splits[found] if found else None}
        return {name: table for name, table in tables.items() if table is not None}
    if settings.train_file is None:
        raise UsageError("no training data; set train_file, or data_dir [E-FINETUNE-SETTING]")
    files = {"train": settings.train_file, "validation": settings.validation_file, "test": settings.test_file}
    return {
        name: read_table(path, settings.file_format, settings.text_column) for name, path in files.items() if path is not None
    }


def _check_count(n_rows: int, source: str, settings: Settings) -> None:
    if n_rows < settings.min_train_rows:
        message = f"{n_rows} training rows are too few to learn from, expected at least {settings.min_train_rows}"
        raise InputError(f"{source}: {message}; give more, or set min_train_rows [E-FINETUNE-FEW-ROWS]")


def _check_classes(items: list[Example], source: str) -> None:
    if len({item.label for item in items}) < 2:
        message = "one label is left after rows were drawn; there is nothing to tell apart"
        raise InputError(f"{source}: {message}; raise max_train_rows [E-FINETUNE-ONE-CLASS]")


def _split(items: list[Example], settings: Settings, draw: random.Random) -> tuple[list[Example], list[Example]]:
    """Part examples into training and held-out ones; all questions on one context, and equal texts, stay together."""
    is_question = settings.task_and_kind[0].name == ANSWERS
    groups: dict[object, list[Example]] = {}
    for item in items:
        key = item.pair if is_question else (item.text, item.pair, tuple(item.words))
        groups.setdefault(key, []).append(item)
    keys = list(groups)
    draw.shuffle(keys)
    wanted = max(1, round(len(items) * settings.validation_share))
    held_out: list[Example] = []
    chosen = set()
    for key in keys:
        if len(held_out) >= wanted:
            break
        held_out += groups[key]
        chosen.add(key)
    return [item for key in groups if key not in chosen for item in groups[key]], held_out


def _some(items: list[Example], most: int | None, draw: random.Random) -> list[Example]:
    return items if most is None or most >= len(items) else draw.sample(items, most)


def _seen_share(train: list[Example], held_out: list[Example]) -> float:
    """The share of held-out examples whose texts stand in training too: on those, a figure measures memory."""
    seen = {(item.text, item.pair, tuple(item.words)) for item in train}
    return sum((item.text, item.pair, tuple(item.words)) in seen for item in held_out) / len(held_out)
