"""Curves and closing figures out of a run's report, whatever is missing in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

TOO_LARGE = 1e30
"""Values beyond it are not drawn: the arithmetic of the axes would overflow."""
MAX_POINTS = 600
"""Points that are drawn of a curve: about one a pixel on a wide screen."""

Entry = Mapping[str, object]
Point = tuple[float, float]


class Curve(NamedTuple):
    """The points of one figure in order of their steps, and how many values could not be drawn."""

    points: list[Point]
    n_left_out: int = 0


def number(value: object) -> float | None:
    """The value as a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def mapping(report: Entry, name: str) -> Entry:
    """A part of a report that maps names to values; empty where it is missing or something else."""
    part = report.get(name)
    return part if isinstance(part, Mapping) else {}


def sequence(report: Entry, name: str) -> list[object]:
    """A part of a report that is a list; empty where it is missing or something else."""
    part = report.get(name)
    return list(part) if isinstance(part, list | tuple) else []


def history(report: Entry) -> list[Entry]:
    """The entries of the log."""
    return [entry for entry in sequence(report, "log_history") if isinstance(entry, Mapping)]


def curve(entries: Iterable[Entry], name: str, *, by_time: bool = False) -> Curve:
    """One figure by step, or by minutes where the entries hold `elapsed_seconds`.

    A run that was resumed from an earlier step did some steps twice: the later ones count. Seconds that begin anew, as in a
    process that resumed, are added to those before.

    Args:
        entries: The log.
        name: The figure.
        by_time: Minutes in place of steps.
    """
    points: list[tuple[float, Point]] = []
    n_left_out, before, last = 0, 0.0, 0.0
    for entry in entries:
        seconds = number(entry.get("elapsed_seconds"))
        if seconds is not None:
            before += last if seconds < last else 0.0
            last = seconds
        step, value = number(entry.get("step")), entry.get(name)
        x = step if not by_time else None if seconds is None else (before + seconds) / 60
        if step is None or x is None or value is None:
            continue
        y = number(value)
        if y is None or max(abs(x), abs(y)) > TOO_LARGE:
            n_left_out += 1
            continue
        while points and points[-1][0] >= step:
            points.pop()
        points.append((step, (x, y)))
    return Curve([point for _, point in points], n_left_out)


def thin(points: Sequence[Point], most: int = MAX_POINTS) -> list[Point]:
    """At most about `most` points: the ends, and of each stretch between its lowest and its highest, so that peaks stay."""
    if len(points) <= most:
        return list(points)
    inner, n_stretches = range(1, len(points) - 1), (most - 2) // 2
    kept = {0, len(points) - 1}
    for i in range(n_stretches):
        stretch = inner[i * len(inner) // n_stretches : (i + 1) * len(inner) // n_stretches]
        kept |= {min(stretch, key=lambda j: points[j][1]), max(stretch, key=lambda j: points[j][1])}
    return [points[i] for i in sorted(kept)]


def best_held_out(report: Entry) -> tuple[float | None, float | None]:
    """The lowest held-out loss and its step; from the summary, without a step, where the log has none."""
    points = curve(history(report), "eval_loss").points
    if points:
        step, loss = min(points, key=lambda point: point[1])
        return loss, step
    return number(mapping(report, "summary").get("eval_loss")), None


def closing_figures(report: Entry) -> dict[str, float | None]:
    """Steps, seconds and tokens a second of a run; None where the report does not tell."""
    summary, entries = mapping(report, "summary"), history(report)
    steps = number(summary.get("steps"))
    if steps is None:
        steps = max((step for entry in entries if (step := number(entry.get("step"))) is not None), default=None)
    rate = next(
        (rate for name in ("real_tokens_per_second", "tokens_per_second") if (rate := number(summary.get(name))) is not None),
        None,
    )
    return {"steps": steps, "seconds": number(summary.get("elapsed_seconds")), "tokens_per_second": rate}
