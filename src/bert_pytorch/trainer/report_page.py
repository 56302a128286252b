"""The page of one run: its verdict, its curves, what it was made of, and what the model says to sample texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median

from .report_curves import (
    Curve,
    Entry,
    best_held_out,
    closing_figures,
    curve,
    history,
    mapping,
    number,
    sequence,
)
from .report_html import DASH, facts, figure, gallery, page, plain, section, table, text
from .report_plots import Line, Plot

STOPS = {
    "plan": "Finished as planned",
    "max_minutes": "Stopped when its minutes were used up",
    "early_stopping": "Stopped early, the held-out figures no longer got better",
    "signal": "Stopped by a signal",
    "error": "Failed",
}
FIGURES = (
    ("Loss (nats)", "loss"),
    ("Masked-word loss (nats)", "mlm_loss"),
    ("Masked-word accuracy", "mlm_accuracy"),
    ("Next-sentence loss (nats)", "nsp_loss"),
    ("Next-sentence accuracy", "nsp_accuracy"),
    ("Learning rate", "learning_rate"),
    ("Tokens a second", "tokens_per_second"),
    ("Gradient norm", "grad_norm"),
    ("Memory (MiB)", "memory_bytes"),
)
"""Titles of the plots, and the figures they show; each with its held-out twin where there is one."""
CHANCE = {"nsp_loss": ("chance", math.log(2)), "nsp_accuracy": ("chance", 0.5)}
MOST_ENTRIES, MOST_SAMPLES, MOST_WARNINGS, MOST_WORDS = 40, 40, 100, 5
SPIKY = 30.0
"""Gradients whose largest norm is so many times the usual one are drawn on a logarithmic axis."""


def run_page(report: Entry) -> bytes:
    """The page of a run, as the bytes of its file.

    Args:
        report: What `report.json` holds; any part may be missing.
    """
    entries = history(report)
    plots, n_left_out = run_plots(report)
    nothing = "No figures were logged: there is nothing to draw."
    left_out = f'<p class="note">{n_left_out:,} values are not finite, or too large, and not drawn.</p>' if n_left_out else ""
    parts = [
        ("Summary", "summary", True),
        ("Data", "data", True),
        ("Settings", "settings", False),
        ("Environment", "environment", False),
    ]
    tables = [
        section(title, facts(mapping(report, name), measured=measured))
        for title, name, measured in parts
        if mapping(report, name)
    ]
    body = [
        _header(report),
        section("Curves", gallery(plots, nothing) + left_out),
        '<div class="tables">',
        *tables,
        "</div>",
        _warnings(sequence(report, "warnings")),
        _samples([each for each in sequence(report, "samples") if isinstance(each, Mapping)]),
        _logs(entries),
    ]
    return page(f"Training run: {verdict(report)}", [part for part in body if part])


def verdict(report: Entry) -> str:
    """In a few words how the run ended."""
    stopped_by = report.get("stopped_by")
    if isinstance(stopped_by, str) and stopped_by in STOPS:
        return STOPS[stopped_by]
    if stopped_by:
        return f"Stopped by {stopped_by}"
    return "Finished" if report.get("ok") else "Failed"


def run_plots(report: Entry) -> tuple[list[Plot], int]:
    """The plots that there are figures for, and how many values cannot be drawn."""
    entries, plots, n_left_out = history(report), [], 0
    for title, name in FIGURES:
        curves = {"training": curve(entries, name), "held-out": curve(entries, f"eval_{name}")}
        n_left_out += sum(each.n_left_out for each in curves.values())
        scale = 1 << 20 if name == "memory_bytes" else 1
        lines = [
            Line(label, [(x, y / scale) for x, y in each.points], colour)
            for colour, (label, each) in enumerate(curves.items(), 1)
            if each.points
        ]
        if lines:
            is_log = name == "grad_norm" and _is_spiky(curves["training"])
            plots.append(Plot(title, lines, _level(report, name), is_log=is_log))
    return plots, n_left_out


def _level(report: Entry, name: str) -> tuple[str, float] | None:
    if name != "mlm_loss":
        return CHANCE.get(name)
    # What a guess by the frequencies of words alone costs: a model that has learned anything lies below.
    points = curve(history(report), "eval_unigram_loss").points
    loss = points[-1][1] if points else number(mapping(report, "summary").get("eval_unigram_loss"))
    return None if loss is None else ("word frequencies alone", loss)


def _is_spiky(norms: Curve) -> bool:
    values = [value for _, value in norms.points]
    return bool(values) and min(values) > 0 and max(values) > SPIKY * median(values)


def _header(report: Entry) -> str:
    loss, step = best_held_out(report)
    figures = closing_figures(report)
    words = []
    if loss is not None:
        words.append(f"best held-out loss {figure(loss)}" + ("" if step is None else f" at step {figure(int(step))}"))
    if figures["steps"] is not None:
        words.append(f"{figure(int(figures['steps']))} steps")
    if figures["seconds"] is not None:
        words.append(f"{figure(figures['seconds'] / 60)} minutes")
    if figures["tokens_per_second"] is not None:
        words.append(f"{figure(figures['tokens_per_second'])} tokens/s")
    warnings = len(sequence(report, "warnings"))
    if warnings:
        words.append(f"{warnings:,} warning{'s' * (warnings > 1)}")
    kind = "verdict" if report.get("ok") else "verdict bad"
    line = f'<p class="{kind}"><strong>{text(verdict(report))}</strong>{text("".join(f"; {word}" for word in words))}.</p>'
    message = report.get("message")
    return f"<header>\n<h1>Training run</h1>\n{line}\n{f'<p>{text(message)}</p>' if message else ''}</header>"


def _warnings(warnings: Sequence[object]) -> str:
    if not warnings:
        return ""
    lines = "".join(f"<li>{text(plain(each))}</li>\n" for each in warnings[:MOST_WARNINGS])
    return section("Warnings", f"<ul>\n{lines}</ul>{_more(len(warnings), MOST_WARNINGS)}")


def _samples(samples: Sequence[Entry]) -> str:
    if not samples:
        return ""
    rows = [
        (
            text(plain(sample.get("text"))),
            text(plain(sample.get("expected"))),
            *(_guesses(sample.get(name), sample.get("expected")) for name in ("before", "after")),
        )
        for sample in samples[:MOST_SAMPLES]
    ]
    head = ("text", "expected", "before training", "after training")
    body = table("Sample predictions", head, rows, "wide words") + _more(len(samples), MOST_SAMPLES)
    return section("Sample predictions", body)


def _guesses(guesses: object, expected: object) -> str:
    """Words with their probabilities, the expected one in bold."""
    shown = []
    for guess in list(guesses)[:MOST_WORDS] if isinstance(guesses, list | tuple) else []:
        if not isinstance(guess, list | tuple) or len(guess) != 2:
            continue
        probability = number(guess[1])
        words = f"{text(guess[0])} {DASH if probability is None else f'{probability:.1%}'}"
        shown.append(f"<strong>{words}</strong>" if guess[0] == expected else words)
    return "<br>".join(shown) or DASH


def _logs(entries: Sequence[Entry]) -> str:
    """The figures by step as tables: what the plots show, for those who do not see them."""
    is_held_out = [any(name.startswith("eval_") for name in entry) for entry in entries]
    parts = [
        _log(title, [entry for entry, held_out in zip(entries, is_held_out, strict=True) if held_out is wanted])
        for title, wanted in (("Held-out figures", True), ("Training figures", False))
    ]
    return section("Figures by step", "\n".join(part for part in parts if part)) if entries else ""


def _log(title: str, entries: Sequence[Entry]) -> str:
    if not entries:
        return ""
    n_shown = min(len(entries), MOST_ENTRIES)
    chosen = [entries[i * (len(entries) - 1) // max(1, n_shown - 1)] for i in range(n_shown)]
    names = [name for name in dict.fromkeys(name for entry in chosen for name in entry) if name != "step"]
    rows = [
        (text(figure(entry.get("step"))), *(text(figure(entry[name], name)) if name in entry else "" for name in names))
        for entry in chosen
    ]
    count = f"{n_shown:,} of {len(entries):,} entries, all of them in report.json"
    head = [name.removeprefix("eval_").replace("_", " ") for name in ("step", *names)]
    summary = f"<summary>{title}: {count if n_shown < len(entries) else f'{n_shown:,} entries'}</summary>"
    return f"<details>{summary}\n{table(title, head, rows, 'wide figures')}</details>"


def _more(n_all: int, n_shown: int) -> str:
    return f'<p class="note">{n_all - n_shown:,} more in report.json.</p>' if n_all > n_shown else ""
