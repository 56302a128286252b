"""A whole fine-tuning: data, engine, report."""

from __future__ import annotations

import contextlib
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any

from ..files import check_writable
from .data import Data, load_data
from .results import FILE, Observer, Result, write_finetuned
from .settings import Settings


def finetune(settings: Settings, observer: Observer | None = None) -> dict[str, object]:
    """Fine-tune as the settings say, and write the model and what it is into `output_dir`.

    Args:
        settings: The run.
        observer: Told of each evaluation; may end the run.

    Returns:
        The report: `ok, task, engine, metric, score`, figures with the prefixes `eval_` and `test_`, counts and seconds.

    Raises:
        UserError: Something cannot be used; nothing was trained on it.
    """
    began = time.monotonic()
    check_writable(f"{settings.output_dir}/{FILE}")
    data = load_data(settings)
    # What other packages print is no line of the report.
    with contextlib.redirect_stdout(sys.stderr):
        result, head = _engine(settings, data, observer)
    task, kind = settings.task_and_kind
    name = settings.metric
    score = result.figures.get(f"eval_{name}")
    report: dict[str, object] = {
        "ok": True,
        "task": task.name,
        **({} if kind is None else {"problem_type": kind}),
        "engine": settings.engine,
        "metric": name,
        "score": score,
        **result.figures,
        **data.facts,
        **result.facts,
        "labels": None if data.labels is None else len(data.labels),
        "stopped_by": "stop_after_steps" if result.is_stopped else "plan",
        "output_dir": settings.output_dir,
        "elapsed_seconds": time.monotonic() - began,
    }
    is_main = bool(report.pop("is_main", True))
    for notice in result.notices:
        warnings.warn(notice, stacklevel=2)
    _warn_of_cuts(report)
    if not result.is_stopped and is_main:
        write_finetuned(settings, data.labels, head, report)
    return {**report, "notices": result.notices}


def _engine(settings: Settings, data: Data, observer: Observer | None) -> tuple[Result, Mapping[str, Any]]:
    if settings.engine == "native":
        from . import native

        return native.train(settings, data, observer)
    from . import trainer_engine

    return trainer_engine.train(settings, data, observer), {}


def _warn_of_cuts(report: Mapping[str, object]) -> None:
    cuts = {name.removesuffix("_cut_rows"): n for name, n in report.items() if name.endswith("_cut_rows") and n}
    if cuts:
        counts = ", ".join(f"{n} of {name}" for name, n in cuts.items())
        warnings.warn(f"longer than max_length, their ends are left out: {counts}", stacklevel=3)
