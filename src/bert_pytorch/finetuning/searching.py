"""Hyperparameter search with Optuna: a study in a file that a killed process leaves whole, and that another goes on with.

A trial is a fine-tuning with some settings drawn. Draws of trial N follow from the seed, N, and the trials before it, so that a
study that was interrupted has the trials of an unbroken one. A trial that was cut off is run again under its own number.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError, TrainingError, UsageError
from ..extras import import_extra
from ..files import check_writable
from .run import finetune
from .settings import Settings, settings_of

STUDY, NAME = "study.db", "search"
_KINDS = {"float": ("low", "high", "log", "step"), "int": ("low", "high", "log", "step"), "categorical": ("choices",)}
_PRUNERS = ("none", "median")


class Trial(Protocol):
    """A trial of Optuna."""

    number: int

    def suggest_float(self, name: str, low: float, high: float, *, step: float | None, log: bool) -> float:
        """Draw a number."""
        ...

    def suggest_int(self, name: str, low: int, high: int, *, step: int, log: bool) -> int:
        """Draw a whole number."""
        ...

    def suggest_categorical(self, name: str, choices: list[Any]) -> object:
        """Draw one of some values."""
        ...

    def report(self, value: float, step: int) -> None:
        """Tell how far it has come."""
        ...

    def should_prune(self) -> bool:
        """Whether it is hopeless."""
        ...


@dataclass(frozen=True)
class Plan:
    """What is searched.

    Attributes:
        space: Of each setting its kind and its limits.
        n_trials: Trials in all.
        n_jobs: Trials at a time.
        pruner: What ends hopeless trials.
        n_startup_trials: Trials before the pruner and the sampler follow earlier ones.
        seed: Of the draws.
    """

    space: Mapping[str, Mapping[str, Any]]
    n_trials: int = 20
    n_jobs: int = 1
    pruner: str = "median"
    n_startup_trials: int = 5
    seed: int = 42


def read_plan(settings: Settings) -> Plan:
    """The plan in the section `search`.

    Raises:
        UsageError: A name in it is unknown, or the space is missing.
        InputError: A value or a limit is wrong.
    """
    given: dict[str, Any] = dict(settings.search)
    space = given.pop("hp_space", None)
    if not isinstance(space, dict) or not space:
        raise UsageError("search has no hp_space; write under search: hp_space: and its limits [E-SEARCH-SPACE]")
    known = [name for name in asdict(Plan({})) if name != "space"]
    for name, value in given.items():
        if name not in known:
            raise UsageError(f"search: unknown setting {name}, they are hp_space, {', '.join(known)} [E-SEARCH-SPACE]")
        if name != "pruner" and (not isinstance(value, int) or value < (0 if name == "seed" else 1)):
            raise InputError(f"search: {name} is {value!r}, expected a whole number of at least 1 [E-SEARCH-SPACE]")
    if given.get("pruner", "median") not in _PRUNERS:
        raise InputError(f"search: pruner is {given['pruner']!r}, expected one of: {', '.join(_PRUNERS)} [E-SEARCH-SPACE]")
    return Plan({str(name): _limits(str(name), limits) for name, limits in space.items()}, **given)


def _limits(name: str, limits: object) -> dict[str, Any]:
    kind = limits.get("type") if isinstance(limits, dict) else None
    if not isinstance(limits, dict) or kind not in _KINDS:
        raise InputError(f"hp_space: {name} has type {kind!r}, expected one of: {', '.join(_KINDS)} [E-SEARCH-SPACE]")
    values: dict[str, Any] = {
        key: float(v) if isinstance(v, str) and key in ("low", "high", "step") else v for key, v in limits.items()
    }
    strange = set(values) - {"type", *_KINDS[str(kind)]}
    if strange:
        expected = ", ".join(_KINDS[str(kind)])
        raise InputError(f"hp_space: {name} has {sorted(strange)[0]}, expected {expected} [E-SEARCH-SPACE]")
    if kind == "categorical":
        if not isinstance(values.get("choices"), list) or not values["choices"]:
            raise InputError(f"hp_space: {name} has no choices; write choices: [8, 16] [E-SEARCH-SPACE]")
        return values
    low, high = values.get("low"), values.get("high")
    if low is None or high is None or not low < high or (values.get("log") and low <= 0):
        message = f"{name} runs from {low} to {high}, expected low below high, above 0 for log"
        raise InputError(f"hp_space: {message} [E-SEARCH-SPACE]")
    return values


def draw(trial: Trial, plan: Plan) -> dict[str, object]:
    """The settings of a trial; those of one that was cut off are the ones it had."""
    values: dict[str, object] = {}
    for name, limits in plan.space.items():
        is_log = bool(limits.get("log", False))
        if limits["type"] == "float":
            values[name] = trial.suggest_float(name, limits["low"], limits["high"], step=limits.get("step"), log=is_log)
        elif limits["type"] == "int":
            low, high = int(limits["low"]), int(limits["high"])
            values[name] = trial.suggest_int(name, low, high, step=int(limits.get("step", 1)), log=is_log)
        else:
            values[name] = trial.suggest_categorical(name, limits["choices"])
    return values


class Search:
    """A study in the folder of a run.

    Attributes:
        settings, plan: What is searched.
        study: Of Optuna.
        resumed: Trials that were cut off, and are run again.
    """

    def __init__(self, settings: Settings, plan: Plan) -> None:
        """Open the study, or go on with the one that is there.

        Raises:
            InputError: The one that is there searches another space.
            UnavailableError: optuna is not installed.
        """
        self.optuna = import_extra("optuna", "optuna")
        self.optuna.logging.set_verbosity(self.optuna.logging.WARNING)
        self.settings, self.plan = settings, plan
        check_writable(Path(settings.output_dir) / STUDY)
        self.is_greater = settings.task_and_kind[0].greater_is_better
        pruner = (
            self.optuna.pruners.MedianPruner(n_startup_trials=plan.n_startup_trials)
            if plan.pruner == "median"
            else self.optuna.pruners.NopPruner()
        )
        self.study: Any = self.optuna.create_study(
            storage=f"sqlite:///{os.path.abspath(settings.output_dir)}/{STUDY}",
            study_name=NAME,
            load_if_exists=True,
            direction="maximize" if self.is_greater else "minimize",
            pruner=pruner,
        )
        space = {name: dict(limits) for name, limits in plan.space.items()}
        there = self.study.user_attrs.get("space")
        if there is not None and there != space:
            message = "holds a study of another hp_space; name another output_dir, or set the space back"
            raise InputError(f"{settings.output_dir}: {message} [E-SEARCH-SPACE]")
        self.study.set_user_attr("space", space)
        self.resumed = [trial.number for trial in self.study.trials if trial.state.name == "RUNNING"]

    def next_numbers(self) -> Iterator[int]:
        """The trials to run: those that were cut off, then new ones up to `n_trials` in all."""
        yield from self.resumed
        while len(self.study.trials) < self.plan.n_trials:
            yield self.ask()

    def ask(self) -> int:
        """Begin a new trial: its settings are drawn and stored."""
        number = len(self.study.trials)
        sampler = self.optuna.samplers.TPESampler
        self.study.sampler = sampler(seed=self.plan.seed * 100_003 + number, n_startup_trials=self.plan.n_startup_trials)
        trial = self.study.ask()
        draw(trial, self.plan)
        return int(trial.number)

    def run(self, number: int) -> None:
        """Run a trial that was begun, and store how it ended."""
        frozen = self.study.trials[number]
        # Optuna has no public way to take up a trial that was begun; its constructor takes the stored number.
        trial = self.optuna.trial.Trial(self.study, frozen._trial_id)
        values = draw(trial, self.plan)
        folder = self.folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        watcher = Watcher(trial, f"eval_{self.settings.metric}")
        try:
            report = finetune(self.variant(values, folder, keep=False), watcher)
        except TrainingError as error:
            # A rate at which the loss is lost is a bad trial, no end of the search.
            self.study.set_user_attr(f"error_{number}", str(error))
            self.study.tell(number, state=self.optuna.trial.TrialState.FAIL)
            return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        score = report["score"]
        if watcher.is_pruned:
            self.study.tell(number, state=self.optuna.trial.TrialState.PRUNED)
        else:
            self.study.tell(number, float(str(score)))

    def variant(self, values: Mapping[str, object], folder: Path, *, keep: bool) -> Settings:
        """The settings of a trial, or of the best one, whose model is kept."""
        base = {name: value for name, value in asdict(self.settings).items() if value is not None}
        training = {**base.pop("training"), **({} if keep else {"save_strategy": "no", "load_best_model_at_end": False})}
        if not keep:
            training.pop("save_total_limit", None)
        if "warmup_ratio" in values:
            training.pop("warmup_steps", None)
        base |= {"output_dir": str(folder), "search": {}, "resume_from_checkpoint": None}
        return settings_of({**base, **training, **values})

    def folder(self, number: int) -> Path:
        """Where a trial works; the folder is deleted after it."""
        return Path(self.settings.output_dir) / f"trial-{number}"

    def report(self) -> dict[str, object]:
        """Trials by how they ended, and the best.

        Raises:
            TrainingError: No trial has a score.
        """
        states = Counter(trial.state.name for trial in self.study.trials)
        if not states["COMPLETE"]:
            message = f"none of {len(self.study.trials)} trials has a score; lower the limits of learning_rate"
            raise TrainingError(f"{self.settings.output_dir}: {message} [E-SEARCH-NONE]")
        best = self.study.best_trial
        return {
            **{"trials": len(self.study.trials), "complete": states["COMPLETE"], "pruned": states["PRUNED"]},
            **{"failed": states["FAIL"], "resumed_trials": self.resumed, "best_trial": best.number},
            **{"best_score": best.value, "best_settings": dict(best.params)},
        }

    def importance(self) -> dict[str, float]:
        """How much each setting matters, as shares; empty where there are too few trials to tell."""
        try:
            found = self.optuna.importance.get_param_importances(self.study)
        except (RuntimeError, ValueError, ImportError):
            return {}
        return {name: float(value) for name, value in found.items()}


class Watcher:
    """Tells a trial of its evaluations.

    Attributes:
        is_pruned: Whether it was ended as hopeless.
    """

    def __init__(self, trial: Trial, name: str) -> None:
        """Tell this trial the figure of this name."""
        self.trial, self.name, self.is_pruned, self._parent = trial, name, False, os.getppid()

    def evaluated(self, figures: Mapping[str, float], step: int) -> bool:
        """As `Observer.evaluated`."""
        if os.getppid() != self._parent:
            # The search that began this process was killed; another may run the trial again.
            raise InputError("the search that began this trial has ended; run search.py again [E-INTERRUPTED]")
        self.trial.report(figures[self.name], step)
        self.is_pruned = self.trial.should_prune()
        return self.is_pruned
