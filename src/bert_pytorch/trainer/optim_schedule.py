"""The optimiser's parameter groups, and the learning rate over the run."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from ..errors import InputError


class ScheduledOptim:
    """Steps an optimiser and moves its learning rate: linear warm-up to the peak, then linear decay to 0.

    The peak is each parameter group's own rate when this object is made. Step k, counted from 0, runs at `peak x (k + 1) / W`
    within the warm-up of W steps, and after it at `peak x (T - k) / (T - W)` when the run's length of T steps is known, else
    at the peak. The rate of the next step is always the one that stands in the optimiser.
    """

    def __init__(self, optimizer: Optimizer, d_model: int, n_warmup_steps: int, *, n_total_steps: int | None = None) -> None:
        """Set the rate of the first step.

        Args:
            optimizer: The optimiser.
            d_model: Not used; kept for callers of bert-pytorch, whose rate was a function of it alone.
            n_warmup_steps: Steps W of warm-up; 0: none.
            n_total_steps: Steps T of the whole run, from which the decay follows; None: not known, no decay.

        Raises:
            InputError: W is negative, or not smaller than T.
        """
        if n_warmup_steps < 0:
            raise InputError(f"warmup_steps is {n_warmup_steps}, expected at least 0 [E-SCHEDULE-WARMUP]")
        if n_total_steps is not None and n_warmup_steps >= n_total_steps:
            raise InputError(
                f"warmup_steps is {n_warmup_steps}, but the run has {n_total_steps} steps and would end before its peak rate; "
                f"use at most {n_total_steps - 1}, or train longer [E-SCHEDULE-WARMUP]"
            )
        self.optimizer = optimizer
        self.n_warmup_steps = n_warmup_steps
        self.n_total_steps = n_total_steps
        self.n_current_steps = 0
        self._peaks = [float(group["lr"]) for group in optimizer.param_groups]
        self._update_learning_rate()

    @property
    def init_lr(self) -> float:
        """The peak rate; setting it changes the rate from the next step on."""
        return max(self._peaks)

    @init_lr.setter
    def init_lr(self, peak: float) -> None:
        self._peaks = [peak] * len(self._peaks)
        self._update_learning_rate()

    def zero_grad(self) -> None:
        """Clear the gradients."""
        self.optimizer.zero_grad()

    def step_and_update_lr(self, scaler: GradScaler | None = None) -> None:
        """Update the parameters at the current rate, through the gradients' scaler if any; set the next step's rate."""
        if scaler is None:
            self.optimizer.step()
        else:
            scaler.step(self.optimizer)
            scaler.update()
        self.n_current_steps += 1
        self._update_learning_rate()

    def state_dict(self) -> dict[str, int | None]:
        """The position in the schedule, and the plan it belongs to."""
        return {
            "n_current_steps": self.n_current_steps,
            "n_warmup_steps": self.n_warmup_steps,
            "n_total_steps": self.n_total_steps,
        }

    def load_state_dict(self, state: dict[str, int | None]) -> None:
        """Take over the position; the plan stays the one this object was made with."""
        self.n_current_steps = int(state["n_current_steps"] or 0)
        self._update_learning_rate()

    def _get_lr_scale(self) -> float:
        """The next step's rate as a share of the peak."""
        if self.n_current_steps < self.n_warmup_steps:
            return (self.n_current_steps + 1) / self.n_warmup_steps
        if self.n_total_steps is None:
            return 1.0
        return max(0, self.n_total_steps - self.n_current_steps) / (self.n_total_steps - self.n_warmup_steps)

    def _update_learning_rate(self) -> None:
        scale = self._get_lr_scale()
        for group, peak in zip(self.optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * scale


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Take over the moments of a saved optimiser; the settings (betas, weight decay, ...) stay those of this one."""
    settings = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Part a model's parameters into those that decay and those that do not: norms, biases, position and segment tables.

    Source: the optimiser of the released BERT code, which exempts norms and biases.
    `Differs:` the small tables are exempt too; a row that few examples touch would only shrink.
    """
    decayed, exempt = [], []
    for name, parameter in model.named_parameters():
        is_table = name.endswith(("embedding.position.weight", "embedding.segment.weight"))
        (exempt if parameter.dim() < 2 or is_table else decayed).append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": exempt, "weight_decay": 0.0}]
