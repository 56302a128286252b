"""The folder of a run, told by what it holds: report, log, checkpoints, encoded corpora, and the room on its disk."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import UserError
from .handbook import Handbook
from .history import of_data, of_held_out, of_losses
from .resuming import Commands, commands_of
from .rules import FIRST, FOLLOWS, LISTED, Finding
from .texts import diagnose_text

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_LARGEST_JSON = 200_000_000


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run, of `bert` or of fine-tuning."""
    names = ("report.json", "log.jsonl", "finetune.json", ".lock")
    return any((folder / name).is_file() for name in names) or any(_CHECKPOINT.fullmatch(p.name) for p in folder.iterdir())


class Run:
    """What the files of a run hold; none of them is changed."""

    def __init__(self, folder: Path) -> None:
        """Name the folder."""
        self.folder = folder

    @cached_property
    def report(self) -> dict[str, Any]:
        """`report.json`, or what stands for it in a fine-tuned folder; empty: there is none."""
        report = _json(self.folder / "report.json")
        return report or _mapping(_json(self.folder / "finetune.json").get("report"))

    @cached_property
    def checkpoints(self) -> list[Path]:
        """The checkpoints, oldest first, whole or not."""
        found = [(int(m[1]), p) for p in self.folder.iterdir() if p.is_dir() and (m := _CHECKPOINT.fullmatch(p.name))]
        return [path for _, path in sorted(found)]

    @cached_property
    def state(self) -> dict[str, Any]:
        """Settings and position of the newest checkpoint that has them."""
        for path in reversed(self.checkpoints):
            if state := _json(path / "trainer_state.json"):
                return {**state, "model_config": _json(path / "config.json")}
        return {}

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """The log, entry by entry; a last line that is cut off is left out."""
        lines = []
        try:
            with open(self.folder / "log.jsonl", encoding="utf-8", errors="replace") as file:
                lines = [entry for line in file if (entry := _mapping(_parsed(line)))]
        except OSError:
            pass
        logged = lines or self.report.get("log_history") or self.state.get("log_history") or []
        return [entry for entry in logged if isinstance(entry, dict)] if isinstance(logged, list) else []

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The entries of the log that have a held-out loss."""
        return [entry for entry in self.history if "eval_loss" in entry]

    @property
    def warnings(self) -> list[str]:
        """What the report says it was warned of."""
        return [str(text) for text in self.report.get("warnings") or []]

    @property
    def is_finetuning(self) -> bool:
        """Whether it is one of `finetune.py`, or of Transformers."""
        return (self.folder / "finetune.json").is_file() or "log_history" in self.state


def diagnose_run(folder: Path, book: Handbook) -> list[Finding]:
    """What the folder tells, most important first; that all is well, where it is."""
    run = Run(folder)
    commands = commands_of(run.folder, run.state, is_finetuning=run.is_finetuning, book=book)
    settings = {**_mapping(run.report.get("settings")), **_mapping(run.state.get("settings"))}
    evals = run.evaluations
    summary = {**(evals[-1] if evals else {}), **_mapping(run.report.get("summary"))}
    findings = [
        *_of_its_end(run, commands.resume, book),
        *_of_checkpoints(run, commands.resume),
        *_of_bad_steps(run, commands),
        *of_losses(run.history, commands),
        *_of_corpora(run, commands.again),
        *of_data(_mapping(run.report.get("data")), settings, commands.again),
        *of_held_out(summary, str(settings.get("objective", "mlm+nsp")), commands.again),
        *_of_the_disk(run, commands.resume),
        *_of_warnings(run, book),
    ]
    steps = [re.sub(r"\bCORPUS\b", lambda _: commands.corpus, book.with_scripts(finding.next)) for finding in findings]
    filled = [replace(finding, next=step) for finding, step in zip(findings, steps, strict=True)]
    return sorted(filled, key=lambda finding: finding.rank) or [_all_is_well(run, book)]


def _of_its_end(run: Run, resume: str, book: Handbook) -> Iterator[Finding]:
    """Why it ended, where it did so before its plan was done."""
    report, last = run.report, run.checkpoints[-1].name if run.checkpoints else None
    if _is_locked(run.folder):
        where, cause = f"{run.folder}/.lock", "a process is writing here: the run is under way"
        yield Finding("run-under-way", where, cause, f"tail -n 3 {run.folder}/log.jsonl", FIRST)
        return
    message = report.get("message")
    if isinstance(message, str):
        for finding in diagnose_text(message, book)[:1]:
            yield Finding(finding.rule, finding.where, finding.cause, f"{finding.next}; then: {resume}", FIRST)
    done, planned = _steps(run)
    reasons = {"signal": "it was told to stop", "max_minutes": "its time was up (--max_minutes)", "error": "an error ended it"}
    reason = reasons.get(str(report.get("stopped_by")))
    if not report and not run.is_finetuning:
        reason = "there is no report: it was killed, or is writing from another machine"
    kept = done if report else int(last.partition("-")[2]) if last else 0
    is_short = planned is not None and kept < planned and report.get("stopped_by") not in ("early_stopping", "plan")
    if reason and (is_short or planned is None):
        where = f"step {done} of {planned if planned is not None else 'unknown'}, last checkpoint {last or 'none'}"
        step = (
            resume
            if last
            else f"no checkpoint: begin again in a new folder, with --save_strategy steps --save_steps {_often(run)}"
        )
        yield Finding("run-unfinished", where, reason, step, FIRST)


def _of_checkpoints(run: Run, resume: str) -> Iterator[Finding]:
    aside = sorted(path.name for path in run.folder.glob("checkpoint-*.damaged*"))
    for path in run.checkpoints[-1:]:
        try:
            from ..trainer.checkpoint_folder import check_checkpoint, is_checkpoint_folder

            if is_checkpoint_folder(path):
                check_checkpoint(path)
        except ModuleNotFoundError:
            break
        except UserError as error:
            step = f"{resume}: it takes the one before and puts this one aside"
            yield Finding("run-checkpoint-damaged", str(error), "a copy, a disk or a kill spoilt it", step, FIRST)
    if aside:
        cause = "damaged checkpoints were found on resuming and put aside"
        yield Finding(
            "run-checkpoint-aside", ", ".join(aside), cause, f"rm -r {run.folder}/checkpoint-*.damaged*; check the disk", LISTED
        )


def _of_bad_steps(run: Run, commands: Commands) -> Iterator[Finding]:
    kept = sorted(run.folder.glob("bad-step-*.safetensors"), key=lambda path: path.stat().st_mtime)
    said = [text for text in run.warnings if "the update is skipped" in text]
    if kept or said:
        where = said[0] if said else ", ".join(path.name for path in kept[:3])
        cause = (
            f"{max(len(kept), len(said))} steps had a loss or gradient that is not finite; the lines are named in the warning"
        )
        yield Finding("run-bad-steps", where, cause, f"look at these lines; {commands.slower}")
    for text in run.warnings:
        if ": a spike;" in text:
            cause = "a spike of the loss: a rate near its limit, or unusual lines"
            step = f"if it stayed up: {commands.slower}"
            yield Finding("run-spike", text.partition("; ")[0], cause, step, LISTED)
            break


def _of_corpora(run: Run, again: str) -> Iterator[Finding]:
    try:
        from ..dataset.cache import check_source
    except ModuleNotFoundError:
        return
    for path in sorted(run.folder.glob("*.tokens")):
        try:
            check_source(os.fspath(path))
        except UserError as error:
            step = f"resume with the old text, or begin anew: {again}"
            yield Finding("run-corpus-changed", str(error), "the text is another one than the run began with", step)


def _of_the_disk(run: Run, resume: str) -> Iterator[Finding]:
    size = sum(file.stat().st_size for path in run.checkpoints[-1:] for file in path.rglob("*") if file.is_file())
    free = shutil.disk_usage(run.folder).free
    if free < 2 * size:
        where = f"{free >> 20} MiB are free, a checkpoint takes {size >> 20} MiB"
        step = f"du -sh {run.folder}/checkpoint-*; delete old ones; {resume} --save_total_limit 2"
        yield Finding("run-disk", where, "the next checkpoint will hardly fit", step)


def _of_warnings(run: Run, book: Handbook) -> Iterator[Finding]:
    known = ("the update is skipped", ": a spike;", "measures memory")
    for text in run.warnings[:3]:
        if not any(word in text for word in known):
            found = diagnose_text(text, book)
            step = found[0].next if found else "read it; where it is meant, nothing"
            yield Finding("run-warning", text, "the run said so", step, FOLLOWS)


def _all_is_well(run: Run, book: Handbook) -> Finding:
    done, planned = _steps(run)
    best = run.checkpoints[-1] if run.checkpoints else run.folder
    evals = run.evaluations
    loss = f", eval_loss {evals[-1]['eval_loss']:.4g}" if evals else ""
    step = (
        "{inspect_checkpoint} " + str(best) + "; {export} --model " + f"{best} --vocab_path VOCAB --to huggingface --output NEW"
    )
    where = f"step {done} of {planned if planned is not None else done}{loss}"
    return Finding("run-done", where, "nothing in the files of this run is out of order", book.with_scripts(step))


def _steps(run: Run) -> tuple[int, int | None]:
    """Steps done, and planned."""
    schedule, arguments = _mapping(run.state.get("schedule")), _mapping(run.state.get("arguments"))
    planned = schedule.get("n_total_steps") or run.state.get("max_steps") or arguments.get("max_steps")
    planned = planned or _mapping(run.report.get("settings")).get("max_steps")
    logged = [int(entry.get("step", 0)) for entry in run.history]
    done = _mapping(run.report.get("summary")).get("steps") or max([*logged, schedule.get("n_current_steps") or 0, 0])
    return int(done), planned


def _often(run: Run) -> int:
    return max(1, (_steps(run)[1] or 1000) // 10)


def _is_locked(folder: Path) -> bool:
    """Whether a process has the folder; asked for without keeping it."""
    try:
        import fcntl

        with open(folder / ".lock", "rb") as file:
            fcntl.lockf(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (ImportError, FileNotFoundError, PermissionError):
        return False
    except OSError:
        return True
    return False


def _json(path: Path) -> dict[str, Any]:
    try:
        return _mapping(_parsed(path.read_text(encoding="utf-8"))) if path.stat().st_size < _LARGEST_JSON else {}
    except (OSError, UnicodeDecodeError):
        return {}


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
