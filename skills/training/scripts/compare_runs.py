#!/usr/bin/env python3
"""Set runs beside each other: closing figures, settings that differ, and their curves on one page.

A run is its folder with report.json, or a report.json. Losses are in nats, and compare where the held-out text is the same:
data facts that differ are listed too.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say
from bert_pytorch.errors import UsageError
from bert_pytorch.files import atomic_write, check_writable

if TYPE_CHECKING:
    from bert_pytorch.trainer.report_plots import Plot

JSON_NAME = "report.json"
PARTS = ("settings", "data", "environment")
CURVES = (
    ("Held-out loss (nats)", "eval_loss"),
    ("Held-out masked-word loss (nats)", "eval_mlm_loss"),
    ("Held-out next-sentence accuracy", "eval_nsp_accuracy"),
    ("Training loss (nats)", "loss"),
    ("Learning rate", "learning_rate"),
    ("Tokens a second", "tokens_per_second"),
)
TIMED = ("eval_loss", "loss")
"""Curves that are drawn by minutes too."""
COLUMNS = ("best held-out loss", "at step", "steps", "tokens/s", "minutes", "ended")
WIDEST = 40
"""Letters of a value in the terminal's table."""


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s RUN_A RUN_B [MORE ...] [--output FILE.html] [--json]")
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="folder of a run, or its report.json; two or more")
    add("--output", metavar="FILE", help="also write the curves and tables as one page (HTML) there")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def names_of(paths: Sequence[str]) -> list[str]:
    """A short name for each run: its folder's, or the path as given where two would be equal."""
    folders = [Path(path).absolute() for path in paths]
    short = [(folder.parent if folder.name == JSON_NAME else folder).name for folder in folders]
    names = [name if name and short.count(name) == 1 else path for name, path in zip(short, paths, strict=True)]
    return [name if names.count(name) == 1 else f"{i}: {name}" for i, name in enumerate(names, 1)]


def figures_of(name: str, path: str, report: dict[str, object]) -> dict[str, object]:
    """The closing figures of a run; None where its report does not tell."""
    from bert_pytorch.trainer.report_curves import best_held_out, closing_figures

    loss, step = best_held_out(report)
    closing = closing_figures(report)
    seconds, n_steps = closing["seconds"], closing["steps"]
    return {
        "name": name,
        "path": path,
        "ok": report["ok"],
        "stopped_by": report.get("stopped_by"),
        "best_eval_loss": loss,
        "best_step": None if step is None else int(step),
        "steps": None if n_steps is None else int(n_steps),
        "tokens_per_second": closing["tokens_per_second"],
        "minutes": None if seconds is None else seconds / 60,
    }


def differences_of(reports: Sequence[dict[str, object]]) -> dict[str, dict[str, list[object]]]:
    """For each part of the reports the values, one a run, that are not the same in all; None where a run has no such value."""
    from bert_pytorch.trainer.report_curves import mapping

    found = {}
    for part in PARTS:
        values = [mapping(report, part) for report in reports]
        names = dict.fromkeys(name for each in values for name in each)
        rows = {name: [each.get(name) for each in values] for name in names}
        found[part] = {name: row for name, row in rows.items() if any(value != row[0] for value in row)}
    return found


def plots_of(names: Sequence[str], reports: Sequence[dict[str, object]]) -> list[Plot]:
    """The curves of all runs over each other, by step, and by minutes where the logs hold times."""
    from bert_pytorch.trainer.report_curves import curve, history
    from bert_pytorch.trainer.report_plots import Line, Plot

    logs, plots = [history(report) for report in reports], []
    for title, name in CURVES:
        for by_time in (False, True) if name in TIMED else (False,):
            curves = [curve(log, name, by_time=by_time).points for log in logs]
            lines = [Line(names[i], points, i + 1) for i, points in enumerate(curves) if points]
            if lines:
                plots.append(Plot(title, lines, x_label="minutes" if by_time else "step"))
    return plots


def cells_of(row: dict[str, object]) -> list[str]:
    """The closing figures of a run as they are shown, in the order of `COLUMNS`."""
    from bert_pytorch.trainer.report_html import figure

    names = ("best_eval_loss", "best_step", "steps", "tokens_per_second", "minutes")
    return [*(figure(row[name]) for name in names), str(row["stopped_by"] or ("finished" if row["ok"] else "failed"))]


def page_of(
    rows: Sequence[dict[str, object]],
    reports: Sequence[dict[str, object]],
    differences: dict[str, dict[str, list[object]]],
) -> bytes:
    """The page: figures, curves and what differs."""
    from bert_pytorch.trainer.report_html import gallery, page, plain, section, table, text, words

    names = [str(row["name"]) for row in rows]
    title = f"{len(rows)} runs compared"
    figures = table(
        "Closing figures", ("run", *COLUMNS), [[text(cell) for cell in (row["name"], *cells_of(row))] for row in rows]
    )
    nothing = "No figures were logged: there is nothing to draw."
    body = [
        f"<header>\n<h1>{title}</h1>\n</header>",
        section("Closing figures", figures),
        section("Curves", gallery(plots_of(names, reports), nothing)),
    ]
    for part, values in differences.items():
        if values:
            lines = [[words(name), *(text(plain(value)) for value in row)] for name, row in values.items()]
            label = f"{part.capitalize()} that differ"
            body.append(section(label, table(label, ("name", *names), lines, "wide words")))
    return page(title, body)


def ascii_table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns for a terminal, in ASCII, long values cut with dots."""
    rows = [[cell.replace("\u2013", "-").encode("ascii", "backslashreplace").decode() for cell in line] for line in lines]
    rows = [[cell if len(cell) <= WIDEST else f"{cell[: WIDEST - 3]}..." for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def show(args: argparse.Namespace, rows: Sequence[dict[str, object]], differences: dict[str, dict[str, list[object]]]) -> None:
    """Print the figures and what differs for a human reader."""
    from bert_pytorch.trainer.report_html import plain

    lines = [["run", *COLUMNS], *([str(row["name"]), *cells_of(row)] for row in rows)]
    for line in ascii_table(lines):
        say(args, line)
    for part, values in differences.items():
        if values:
            say(args, f"{part} that differ:")
            for line in ascii_table([[f"  {name}", *map(plain, row)] for name, row in values.items()]):
                say(args, line)


def check_output(args: argparse.Namespace) -> None:
    """Refuse to write the page over a report that is compared, and know a bad path before the work."""
    for path in args.runs:
        report = Path(path) / JSON_NAME if Path(path).is_dir() else Path(path)
        if os.path.realpath(args.output) == os.path.realpath(report):
            raise UsageError(f"--output {args.output} is one of the reports; name another file [E-SETTING-CONFLICT]")
    check_writable(args.output)


def work(args: argparse.Namespace) -> dict[str, object]:
    """Read, compare, show, and write the page where one is asked for."""
    from bert_pytorch.trainer.report import read_report
    from bert_pytorch.trainer.report_plots import N_COLOURS

    if not 2 <= len(args.runs) <= N_COLOURS:
        raise UsageError(f"expected 2 to {N_COLOURS} runs, got {len(args.runs)}; name other runs [E-USAGE]")
    reports = [read_report(path) for path in args.runs]
    if args.output is not None:
        check_output(args)
    names = names_of(args.runs)
    rows = [figures_of(*each) for each in zip(names, args.runs, reports, strict=True)]
    differences = differences_of(reports)
    show(args, rows, differences)
    if args.output is not None:
        with atomic_write(args.output) as file:
            file.write(page_of(rows, reports, differences))
    return {"ok": True, "runs": rows, "differences": differences, "output": args.output}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and compare."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
