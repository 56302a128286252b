"""Steps of the optimiser, and the learning rate over the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from .choices import Value
from .optimizers import load_optimizer, parameter_groups
from .plateau import Plateau, PlateauState
from .schedules import PLATEAU, make_plan

__all__ = ["ScheduleState", "ScheduledOptim", "load_optimizer", "parameter_groups"]


class _Position(TypedDict):
    n_current_steps: int


class ScheduleState(_Position, total=False):
    """The position in a schedule, and the plan it belongs to; old files have three of these keys."""

    n_skipped_steps: int
    n_warmup_steps: int
    n_total_steps: int | None
    schedule: str
    schedule_settings: dict[str, Value]
    plateau: PlateauState


class ScheduledOptim:
    """Steps an optimiser and moves its learning rate: linear warm-up to the peak, then by a schedule, linear to 0 by default.

    The peak is each parameter group's own rate when this object is made. Step k, counted from 0, runs at `peak x (k + 1) / W`
    within the warm-up of W steps, and after it, in the linear schedule, at `peak x (T - k) / (T - W)` when the run's length of
    T steps is known, else at the peak. For the others see `Plan.share`. A step that overflowed in float16 has no number k: the
    rate stays. The rate of the next step is always the one that stands in the optimiser.

    Attributes:
        optimizer: The optimiser.
        n_current_steps: Steps done, those left out among them.
        n_skipped_steps: Steps that a gradients' scaler left out.
        n_warmup_steps, n_total_steps: W and T.
        schedule: The schedule's name.
        schedule_settings: All its settings.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        d_model: int,
        n_warmup_steps: int,
        *,
        n_total_steps: int | None = None,
        schedule: str = "linear",
        schedule_settings: Mapping[str, Value] | None = None,
    ) -> None:
        """Set the rate of the first step.

        Args:
            optimizer: The optimiser.
            d_model: Not used; kept for callers of bert-pytorch, whose rate was a function of it alone.
            n_warmup_steps: Steps W of warm-up; 0: none.
            n_total_steps: Steps T of the whole run, from which the decay follows; None: not known, no linear decay.
            schedule: A name of Transformers' `lr_scheduler_type`, one of `schedules.SCHEDULES`.
            schedule_settings: Settings of that schedule under the names of Transformers' `lr_scheduler_kwargs`; for
                `reduce_lr_on_plateau` those of torch's `ReduceLROnPlateau`.

        Raises:
            InputError: W is negative, or not smaller than T; a name is unknown, a value is out of its range, or the schedule
                needs T.
        """
        plan = make_plan(schedule, schedule_settings, n_warmup_steps, n_total_steps)
        self.optimizer = optimizer
        self.n_warmup_steps = n_warmup_steps
        self.n_total_steps = n_total_steps
        self.n_current_steps = self.n_skipped_steps = 0
        self.schedule, self.schedule_settings = schedule, dict(plan.settings)
        self._plan = plan
        self._set_peaks([float(group["lr"]) for group in optimizer.param_groups])

    @property
    def init_lr(self) -> float:
        """The peak rate, of several the highest; setting it changes all in proportion, and a plateau begins anew."""
        return max(self._peaks)

    @init_lr.setter
    def init_lr(self, peak: float) -> None:
        highest = max(self._peaks)
        self._set_peaks([peak if each == highest else peak * each / highest for each in self._peaks])

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad()

    def step_and_update_lr(self, scaler: GradScaler | None = None) -> None:
        """Update the parameters at the current rate, through the gradients' scaler if any; set the next step's rate.

        A step that the scaler leaves out because gradients overflowed is counted, but does not move the rate.
        """
        if scaler is None or not scaler.is_enabled():
            self.optimizer.step()
        else:
            # A fused optimiser leaves the step out by itself, so that only the scale tells: it falls after an overflow, and
            # in no other case. At 0 it cannot fall any further.
            before = scaler.get_scale()
            scaler.step(self.optimizer)
            scaler.update()
            after = scaler.get_scale()
            self.n_skipped_steps += after < before or after == 0
        self.n_current_steps += 1
        self._update_learning_rate()

    def skip(self) -> None:
        """Count a step in which the parameters are not updated; the plan goes on."""
        self.n_current_steps += 1
        self._update_learning_rate()

    def report_metric(self, value: float) -> bool:
        """Let `reduce_lr_on_plateau` lower the rates where the metric is no better; with other schedules nothing happens.

        Args:
            value: The metric of an evaluation, of which `mode` says whether less (`min`) or more (`max`) is better.

        Returns:
            Whether a rate was lowered.
        """
        if self._plateau is None:
            return False
        is_lower = self._plateau.report(float(value))
        self._update_learning_rate()
        return is_lower

    def state_dict(self) -> ScheduleState:
        """The position in the schedule, and the plan it belongs to: plain numbers and texts, which JSON keeps exactly."""
        state: ScheduleState = {
            "n_current_steps": self.n_current_steps,
            "n_skipped_steps": self.n_skipped_steps,
            "n_warmup_steps": self.n_warmup_steps,
            "n_total_steps": self.n_total_steps,
            "schedule": self.schedule,
            "schedule_settings": dict(self.schedule_settings),
        }
        if self._plateau is not None:
            state["plateau"] = self._plateau.state_dict()
        return state

    def load_state_dict(self, state: ScheduleState) -> None:
        """Take over the position, and the rates that a plateau has lowered; the plan stays that of this object.

        Older files know of no step left out.
        """
        self.n_current_steps = int(state["n_current_steps"] or 0)
        self.n_skipped_steps = int(state.get("n_skipped_steps", 0))
        if self._plateau is not None and "plateau" in state:
            self._plateau.load_state_dict(state["plateau"])
        self._update_learning_rate()

    def _set_peaks(self, peaks: list[float]) -> None:
        self._plan.check_peaks(peaks)
        self._peaks = peaks
        self._plateau = Plateau(self.schedule_settings, peaks) if self.schedule == PLATEAU else None
        self._update_learning_rate()

    def _update_learning_rate(self) -> None:
        position = self.n_current_steps - self.n_skipped_steps
        peaks = self._peaks if self._plateau is None else self._plateau.rates
        for group, peak in zip(self.optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * self._plan.share(position, peak)
