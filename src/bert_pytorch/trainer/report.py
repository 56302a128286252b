"""The report of a run: `report.json` with all figures for programs, and `report.html` for people."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path

import torch

from ..errors import InputError, UnreadableError
from ..files import atomic_write
from .report_curves import Entry
from .report_page import run_page

JSON_NAME, PAGE_NAME = "report.json", "report.html"
PARTS = {
    **dict.fromkeys(("settings", "environment", "data", "summary"), dict),
    **dict.fromkeys(("log_history", "samples", "warnings"), list),
}
"""Parts of a report and their types, beside `ok`, `stopped_by` and `message`."""


def write_report(folder: str | os.PathLike[str], report: Entry) -> str:
    """Write `report.json` and `report.html`, each whole or not at all.

    Numbers that are not finite become null and a dash. The page is one file that needs nothing else; without matplotlib it has
    no plots and says so. The same report gives the same bytes.

    Args:
        folder: Where to; made when missing.
        report: `ok`, `stopped_by` (`plan`, `max_minutes`, `early_stopping`, `signal`, `error`), `message`; the mappings
            `settings`, `environment`, `data` and `summary`; the lists `log_history` (flat entries with `step`, `epoch`,
            figures, and `eval_` figures of held-out text), `samples` and `warnings`. Any may be missing.

    Returns:
        The path of the page.

    Raises:
        SaveError: A file cannot be written; what stood there is whole.
    """
    # The page counts the values that are not finite, which JSON cannot hold.
    values = {name: kind() for name, kind in PARTS.items()}
    values |= {str(name): _plain(value, keep=True) for name, value in report.items()}
    path = Path(folder) / PAGE_NAME
    with atomic_write(Path(folder) / JSON_NAME) as file:
        file.write(json.dumps(_plain(values), allow_nan=False, indent=1).encode("ascii") + b"\n")
    with atomic_write(path) as file:
        file.write(run_page(values))
    return str(path)


def has_report(folder: str | os.PathLike[str]) -> bool:
    """Whether a run left its report in a folder."""
    return (Path(folder) / JSON_NAME).exists() and (Path(folder) / PAGE_NAME).exists()


def read_report(path: str | os.PathLike[str]) -> dict[str, object]:
    """Read what `write_report` wrote.

    Args:
        path: The folder of a run, or a `report.json`.

    Raises:
        UnreadableError: There is no such file, or it may not be read.
        InputError: It is not JSON, or not a report.
    """
    file = Path(path) / JSON_NAME if Path(path).is_dir() else Path(path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UnreadableError.of(file, error, f"give the folder of a run, or its {JSON_NAME} [E-REPORT-READ]") from error
    remedy = f"give the {JSON_NAME} of a run [E-REPORT-FORMAT]"
    try:
        report = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: damaged, not JSON: {error}; {remedy}") from error
    if not isinstance(report, dict):
        raise InputError(f"{file}: expected the mapping of a report, got a {type(report).__name__}; {remedy}")
    needed = [name for name in ("ok", "summary", "log_history") if name not in report]
    if needed:
        raise InputError(f"{file}: not a report: expected {', '.join(needed)} among its names; {remedy}")
    for name, kind in PARTS.items():
        if not isinstance(report.get(name, kind()), kind):
            got = type(report[name]).__name__
            raise InputError(f"{file}: not a report: expected {name} to be a {kind.__name__}, got a {got}; {remedy}")
    return {name: _plain(value) for name, value in report.items()}


def _plain(value: object, *, keep: bool = False) -> object:
    """What JSON can hold: numbers of other libraries as numbers, paths and all else as text; `keep` keeps nan and infinity."""
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        value = value.item()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if keep or math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(each, keep=keep) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, keep=keep) for each in value]
    return str(value)
