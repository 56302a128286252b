#!/usr/bin/env python3
"""Search settings of a fine-tuning with Optuna, in a study that survives being killed; then train the best one.

    search.py --config task.yaml output_dir=search

The YAML is that of finetune.py with a section `search`: hp_space (float with log, int, categorical), n_trials, n_jobs, pruner
(median, none), n_startup_trials, seed. The study is output_dir/study.db: called again, the script goes on; a trial that was
cut off is run again under its number with the settings it had. Writes search.html (history, slices, importance) and best/, the
model of the best trial.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.errors import TrainingError
from bert_pytorch.files import atomic_write
from bert_pytorch.finetuning.front import SettingsParser, add_settings, settings_from

if TYPE_CHECKING:
    from bert_pytorch.finetuning.searching import Search


def build_parser() -> Parser:
    """The flags."""
    parser = SettingsParser(description=__doc__, usage="%(prog)s --config FILE [NAME=VALUE ...] [--json]")
    add_settings(parser)
    parser.add_argument("--trial", type=at_least(0), metavar="N", help="run this trial of the study alone, as n_jobs does")
    return parser


def run_all(args: argparse.Namespace, search: Search) -> None:
    """Run the trials that are left, `n_jobs` at a time."""
    if search.plan.n_jobs == 1:
        for number in search.next_numbers():
            search.run(number)
            show(args, search, number)
        return
    words = [*args.settings, *(["--config", args.config] if args.config else [])]
    words += ["--engine", args.engine] if args.engine else []
    running: dict[int, subprocess.Popen[bytes]] = {}
    numbers = iter(list(search.resumed))
    try:
        while True:
            while len(running) < search.plan.n_jobs:
                number = next(numbers, None)
                if number is None and len(search.study.trials) < search.plan.n_trials:
                    number = search.ask()
                if number is None:
                    break
                command = [sys.executable, __file__, *words, "--trial", str(number), "--json"]
                running[number] = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            if not running:
                return
            number = min(running)
            status = running.pop(number).wait()
            if status:
                raise TrainingError(f"trial {number} ended with status {status}; its message stands above [E-SEARCH-TRIAL]")
            show(args, search, number)
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def show(args: argparse.Namespace, search: Search, number: int) -> None:
    """Tell of a trial."""
    trial = search.study.trials[number]
    say(args, f"trial {number}: {trial.state.name.lower()} {trial.value} {trial.params}")


def work(args: argparse.Namespace) -> dict[str, object]:
    """Search, write the page, and train the best."""
    settings = settings_from(args)
    from bert_pytorch.finetuning.run import finetune
    from bert_pytorch.finetuning.search_page import search_page
    from bert_pytorch.finetuning.searching import Search, read_plan

    search = Search(settings, read_plan(settings))
    if args.trial is not None:
        search.run(args.trial)
        return {"ok": True, "trial": args.trial}
    run_all(args, search)
    report = search.report()
    with atomic_write(Path(settings.output_dir) / "search.html") as file:
        file.write(search_page(search, report))
    best = Path(settings.output_dir) / "best"
    if not (best / "finetune.json").is_file():
        shutil.rmtree(best, ignore_errors=True)  # What a run that was cut off has left.
        trained = finetune(search.variant(search.study.best_trial.params, best, keep=True))
        report["best_retrained_score"] = trained["score"]
    say(args, f"best: trial {report['best_trial']}, {settings.metric} {report['best_score']}, model in {best}")
    return {"ok": True, "metric": settings.metric, **report, "output_dir": settings.output_dir}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and search."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
