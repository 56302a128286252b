"""One step of the optimiser, in the precision asked for.

Shapes: S sums of a batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from .arguments import TrainingArguments
from .objective import SUMS
from .optim_schedule import ScheduledOptim
from .parallel import exchanging, whole

_MLM, _NSP = SUMS.index("mlm_loss"), SUMS.index("nsp_loss")


class Update:
    """Adds up gradients of batches and steps.

    With `fp16`, losses are scaled up so that small gradients do not vanish, and a step whose gradients overflow is left out, as
    `torch.amp.GradScaler` does it.
    """

    def __init__(self, device: torch.device, args: TrainingArguments) -> None:
        """Choose the type of the products, float32 where neither is asked for, and how exact those of float32 are."""
        self._dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None
        self._device_type, self._precision = device.type, args.float32_matmul_precision
        self.scaler = torch.amp.GradScaler(device.type, enabled=args.fp16)

    @contextmanager
    def precision(self) -> Iterator[None]:
        """The context of a pass: torch's setting for products of float32, which is the process's, is as it was after it."""
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(self._precision or before)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)

    def autocast(self) -> torch.autocast:
        """The context in which a model is run."""
        return torch.autocast(self._device_type, self._dtype, enabled=self._dtype is not None)

    def backward(self, sums: Tensor, n_targets: int, n_answers: int, n_ranks: int = 1) -> None:
        """Add one batch's gradients.

        Args:
            sums: `[1, S]`, as `PretrainingObjective` gives them.
            n_targets: Targets of the whole step, of all its batches and processes.
            n_answers: Next-sentence answers of the whole step.
            n_ranks: Processes over which gradients are averaged afterwards, where they are to be added.
        """
        loss = self.share_of(sums, n_targets, n_answers)
        self.scaler.scale(loss * n_ranks if n_ranks > 1 else loss).backward()

    def share_of(self, sums: Tensor, n_targets: int, n_answers: int) -> Tensor:
        """What a batch adds to the loss of its step, `[]`."""
        totals_S = sums.sum(0)
        return totals_S[_MLM] / max(1, n_targets) + totals_S[_NSP] / max(1, n_answers)

    def exchanging(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """The context of one of a step's batches, run by `module`: gradients are exchanged behind the last one only."""
        return exchanging(module, is_last=is_last)

    @property
    def is_scaled(self) -> bool:
        """Whether losses are scaled, and steps with gradients that are not finite expected now and then."""
        return self.scaler.is_enabled()

    def clip(self, optim_schedule: ScheduledOptim, parameters: Iterable[nn.Parameter], max_grad_norm: float | None) -> Tensor:
        """Scale the gradients down to a norm, all together, where one is given; the norm they had, `[]`."""
        self.scaler.unscale_(optim_schedule.optimizer)
        norm = nn.utils.clip_grad_norm_(parameters, math.inf if max_grad_norm is None else max_grad_norm)
        return whole(norm)

    def step(self, optim_schedule: ScheduledOptim, is_good: Tensor | None = None) -> None:
        """Move the parameters, and set the rate of the next step.

        Args:
            optim_schedule: Steps the optimiser.
            is_good: `[]`, of a fused optimiser: nothing moves where it is false, which only the device needs to know.
        """
        if is_good is not None:
            # What torch's GradScaler tells its fused optimisers.
            vars(optim_schedule.optimizer)["found_inf"] = (~is_good).float()
        optim_schedule.step_and_update_lr(self.scaler)

    def weights(self, model: nn.Module) -> dict[str, Tensor]:
        """A model's weights, or the parts of them that this process has."""
        return model.state_dict()

    def moments(self, optimizer: Optimizer) -> dict[str, Any]:
        """An optimiser's state, or the parts of it that this process has."""
        return optimizer.state_dict()

    def state_dict(self) -> dict[str, Any]:
        """The scale, and how long it has held; empty without `fp16`."""
        return self.scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over the scale of a run with `fp16`; of another there is none."""
        if state and self.scaler.is_enabled():
            self.scaler.load_state_dict(state)
