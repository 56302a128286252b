"""Every schedule of the learning rate as a function of the step, under the names of Transformers.

Symbols: W steps of warm-up, T steps of the run, k the step, from 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError
from .choices import Setting, Value, check_name, number_of, read_settings

PLATEAU = "reduce_lr_on_plateau"
_SHAPES = ("linear", "cosine", "1-sqrt")
_CYCLES = Setting(0.5, low=0)

# Names and defaults of the settings are those of Transformers' `lr_scheduler_kwargs`.
SCHEDULES: dict[str, dict[str, Setting]] = {
    "linear": {},
    "cosine": {"num_cycles": _CYCLES},
    "cosine_with_restarts": {"num_cycles": Setting(1.0, low=0)},
    "polynomial": {"lr_end": Setting(1e-7, low=0), "power": Setting(1.0, low=0)},
    "constant": {},
    "constant_with_warmup": {},
    "inverse_sqrt": {"timescale": Setting(None, "count", low=1)},
    "warmup_stable_decay": {
        "num_decay_steps": Setting(None, "count", low=1),
        "num_stable_steps": Setting(None, "count", low=0),
        "warmup_type": Setting("linear", "word", words=_SHAPES),
        "decay_type": Setting("cosine", "word", words=_SHAPES),
        "min_lr_ratio": Setting(0.0, low=0, below=1),
        "num_cycles": _CYCLES,
    },
    "cosine_with_min_lr": {
        "num_cycles": _CYCLES,
        "min_lr": Setting(None, low=0),
        "min_lr_rate": Setting(None, low=0, below=1),
    },
    PLATEAU: {
        "mode": Setting("min", "word", words=("min", "max")),
        "factor": Setting(0.1, low=0, below=1),
        "patience": Setting(10, "count", low=0),
        "threshold": Setting(1e-4, low=0),
        "threshold_mode": Setting("rel", "word", words=("rel", "abs")),
        "cooldown": Setting(0, "count", low=0),
        "min_lr": Setting(0.0, low=0),
        "eps": Setting(1e-8, low=0),
    },
}
_NEED_LENGTH = ("cosine", "cosine_with_restarts", "polynomial", "cosine_with_min_lr")


@dataclass(frozen=True)
class Plan:
    """A schedule's name, its settings, and the steps it is laid over.

    Attributes:
        settings: All of the schedule's, with the values that follow from the run's length where none were given.
        n_total_steps: None: not known.
    """

    schedule: str
    settings: Mapping[str, Value]
    n_warmup_steps: int
    n_total_steps: int | None

    def share(self, step: int, peak: float) -> float:
        """The rate of step k as a share of the peak.

        Source: Transformers' `get_scheduler`; equal to it from step W to T.
        `Differs:` its first step has rate 0 and moves nothing; here step k of the warm-up has what it gives step k + 1, so the
        peak comes one step earlier and lasts two. Beyond T the rate stays, where its cosines would rise again.
        """
        if step >= self.n_warmup_steps:
            return _DECAYS[self.schedule](self, step, peak)
        progress = (step + 1) / self.n_warmup_steps
        if self.schedule != "warmup_stable_decay":
            return progress
        # Each shape of the warm-up is that of the decay, backwards.
        return self.above_least(_fall(self.settings["warmup_type"], 1.0 - progress, 0.5))

    def progress(self, step: int) -> float:
        """How much of the way from W to T is done, in [0, 1]; T is known."""
        n_steps = self.n_total_steps or 1
        return min(1.0, (step - self.n_warmup_steps) / (n_steps - self.n_warmup_steps))

    def number(self, name: str) -> float:
        """A setting that is a number."""
        return number_of(self.settings, name)

    def above_least(self, share: float) -> float:
        """A share of what is above `min_lr_ratio` as one of the peak."""
        least = self.number("min_lr_ratio")
        return max(0.0, share * (1.0 - least) + least)

    def check_peaks(self, peaks: Sequence[float]) -> None:
        """Refuse a peak that is not above the rate at which the schedule is to end.

        Raises:
            InputError: It is not; the message has both.
        """
        name = {"polynomial": "lr_end", "cosine_with_min_lr": "min_lr"}.get(self.schedule)
        if name is None or self.settings[name] is None:
            return
        if self.number(name) >= min(peaks):
            got = f"{name} is {self.number(name):g}, but the peak rate is {min(peaks):g}"
            raise InputError(f"schedule {self.schedule}: {got}, expected a lower {name} [E-SCHEDULE-SETTING]")


def make_plan(schedule: str, settings: Mapping[str, Value] | None, n_warmup_steps: int, n_total_steps: int | None) -> Plan:
    """Check a schedule's name, settings and lengths.

    Args:
        schedule: One of `SCHEDULES`.
        settings: Those of that schedule that are not to be the defaults.
        n_warmup_steps: Steps W; 0: none.
        n_total_steps: Steps T; None: not known.

    Raises:
        InputError: A name is unknown, a value is out of its range, W is not in [0, T), or the schedule needs T.
    """
    check_name("schedule", schedule, SCHEDULES, "[E-SCHEDULE-NAME]")
    where = f"schedule {schedule}"
    values = read_settings(where, settings, SCHEDULES[schedule], "[E-SCHEDULE-NAME]", "[E-SCHEDULE-SETTING]")
    _check_warmup(schedule, n_warmup_steps, n_total_steps)
    if schedule in _NEED_LENGTH and n_total_steps is None:
        raise InputError(f"{where} needs the length of the run; give n_total_steps (max_steps) [E-SCHEDULE-SETTING]")
    if schedule == "cosine_with_min_lr" and (values["min_lr"] is None) == (values["min_lr_rate"] is None):
        raise InputError(f"{where}: expected either min_lr or min_lr_rate, got both or none [E-SCHEDULE-SETTING]")
    if schedule == "inverse_sqrt" and values["timescale"] is None:
        values["timescale"] = n_warmup_steps or 10_000
    if schedule == "warmup_stable_decay":
        values.update(_stable_and_decay(values, n_warmup_steps, n_total_steps))
    return Plan(schedule, values, n_warmup_steps, n_total_steps)


def _check_warmup(schedule: str, n_warmup_steps: int, n_total_steps: int | None) -> None:
    if n_warmup_steps < 0:
        raise InputError(f"warmup_steps is {n_warmup_steps}, expected at least 0 [E-SCHEDULE-WARMUP]")
    if n_total_steps is not None and n_warmup_steps >= n_total_steps:
        raise InputError(
            f"warmup_steps is {n_warmup_steps}, but the run has {n_total_steps} steps and would end before its peak rate; "
            f"use at most {n_total_steps - 1}, or train longer [E-SCHEDULE-WARMUP]"
        )
    if schedule == "constant" and n_warmup_steps:
        got = f"warmup_steps is {n_warmup_steps}, but schedule constant has no warm-up"
        raise InputError(f"{got}; use constant_with_warmup, or warmup_steps 0 [E-SCHEDULE-WARMUP]")


def _stable_and_decay(values: Mapping[str, Value], n_warmup_steps: int, n_total_steps: int | None) -> dict[str, Value]:
    """Both lengths of `warmup_stable_decay`; a decay that is not given has a tenth of the run, or what the others leave."""
    where = "schedule warmup_stable_decay"
    stable, decay = (
        None if values[name] is None else int(number_of(values, name)) for name in ("num_stable_steps", "num_decay_steps")
    )
    if n_total_steps is None:
        if stable is None or decay is None:
            needs = "needs the length of the run; give n_total_steps (max_steps)"
            raise InputError(f"{where} {needs}, or num_stable_steps and num_decay_steps [E-SCHEDULE-SETTING]")
        return {"num_stable_steps": stable, "num_decay_steps": decay}
    n_left = n_total_steps - n_warmup_steps
    if decay is None:
        decay = min(max(1, n_total_steps // 10), n_left) if stable is None else max(0, n_left - stable)
    if stable is None:
        stable = max(0, n_left - decay)
    if stable + decay > n_left:
        got = f"{n_warmup_steps} + {stable} + {decay} steps of warm-up, peak and decay do not fit into {n_total_steps}"
        raise InputError(f"{where}: {got}; give fewer, or train longer [E-SCHEDULE-SETTING]")
    return {"num_stable_steps": stable, "num_decay_steps": decay}


def _linear(plan: Plan, step: int, peak: float) -> float:
    # Callers of bert-pytorch give no length: the rate then stays at the peak.
    if plan.n_total_steps is None:
        return 1.0
    return max(0, plan.n_total_steps - step) / (plan.n_total_steps - plan.n_warmup_steps)


def _cosine(plan: Plan, step: int, peak: float) -> float:
    return max(0.0, _wave(plan.progress(step), plan.number("num_cycles")))


def _cosine_with_restarts(plan: Plan, step: int, peak: float) -> float:
    progress = plan.progress(step)
    return 0.0 if progress >= 1.0 else max(0.0, _wave(plan.number("num_cycles") * progress % 1.0, 0.5))


def _polynomial(plan: Plan, step: int, peak: float) -> float:
    # `Differs:` lr_end is that of each group, where Transformers takes the optimiser's default rate for every group's peak.
    end = plan.number("lr_end")
    return ((peak - end) * (1.0 - plan.progress(step)) ** plan.number("power") + end) / peak


def _constant(plan: Plan, step: int, peak: float) -> float:
    return 1.0


def _inverse_sqrt(plan: Plan, step: int, peak: float) -> float:
    timescale = plan.number("timescale")
    return 1.0 / math.sqrt((step + timescale - plan.n_warmup_steps) / timescale)


def _warmup_stable_decay(plan: Plan, step: int, peak: float) -> float:
    n_falling = step - plan.n_warmup_steps - plan.number("num_stable_steps")
    n_decay = plan.number("num_decay_steps")
    if n_falling < 0:
        return 1.0
    if n_falling >= n_decay:
        return plan.number("min_lr_ratio")
    return plan.above_least(_fall(plan.settings["decay_type"], n_falling / n_decay, plan.number("num_cycles")))


def _cosine_with_min_lr(plan: Plan, step: int, peak: float) -> float:
    least = plan.number("min_lr_rate") if plan.settings["min_lr"] is None else plan.number("min_lr") / peak
    return max(0.0, _wave(plan.progress(step), plan.number("num_cycles")) * (1.0 - least) + least)


def _fall(shape: Value, progress: float, n_cycles: float) -> float:
    """From 1 to 0 in one of the shapes."""
    if shape == "cosine":
        return _wave(progress, n_cycles)
    return 1.0 - (progress if shape == "linear" else math.sqrt(progress))


def _wave(progress: float, n_cycles: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * n_cycles * 2.0 * progress))


_DECAYS: dict[str, Callable[[Plan, int, float], float]] = {
    "linear": _linear,
    "cosine": _cosine,
    "cosine_with_restarts": _cosine_with_restarts,
    "polynomial": _polynomial,
    "constant": _constant,
    "constant_with_warmup": _constant,
    "inverse_sqrt": _inverse_sqrt,
    "warmup_stable_decay": _warmup_stable_decay,
    "cosine_with_min_lr": _cosine_with_min_lr,
    PLATEAU: _constant,
}
