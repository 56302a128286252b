"""The page of a search: history, slices, importance and trials. One file, nothing fetched."""

from __future__ import annotations

from collections.abc import Mapping

from ..trainer.report_html import facts, figure, gallery, page, plain, section, table, text
from ..trainer.report_plots import Line, Plot
from .searching import Search


def search_page(search: Search, report: Mapping[str, object]) -> bytes:
    """History, importance and slices on one page, as the bytes of its file."""
    trials = [trial for trial in search.study.trials if trial.value is not None]
    choose = max if search.is_greater else min
    points = [(float(trial.number), float(trial.value)) for trial in trials]
    best = [(x, choose(value for _, value in points[: i + 1])) for i, (x, _) in enumerate(points)]
    plots = [
        Plot(f"{search.settings.metric} by trial", [Line("trial", points, 1), Line("best so far", best, 2)], x_label="trial")
    ]
    for name in search.plan.space:
        values = sorted((trial.params[name], float(trial.value)) for trial in trials if _is_number(trial.params.get(name)))
        if values:
            plots.append(Plot(f"{search.settings.metric} by {name}", [Line(name, values, 1)], x_label=name))
    shares = search.importance()
    rows = [
        [text(trial.number), text(trial.state.name.lower()), text(figure(trial.value)), text(plain(trial.params))]
        for trial in search.study.trials
    ]
    body = [
        f"<header>\n<h1>{text('Search in ' + search.settings.output_dir)}</h1>\n</header>",
        section("Result", facts(report)),
        section("History and slices", gallery(plots, "no trial has a score")),
        section("Importance", facts(shares, measured=True) if shares else "<p class=note>Too few trials to tell.</p>"),
        section("Trials", table("Trials", ("trial", "state", search.settings.metric, "settings"), rows)),
    ]
    return page("Search", body)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
