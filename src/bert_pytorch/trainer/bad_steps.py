"""Steps whose loss or gradient is no finite number: which step, which examples, which lines of the corpus, and when to stop."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..dataset.loader import BatchLoader
from ..errors import TrainingError
from ..files import atomic_write
from .randomness import random_state, set_random_state
from .step import Outcome, split
from .tensor_file import write_tensors

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_MOST_NAMED = 8
_MOST_LOOKED_AT = 1024


class BadSteps:
    """Watches the steps of a trainer.

    Attributes:
        n_in_a_row: Bad steps since the last good one.
        said: What was said of each.
    """

    def __init__(self, trainer: BERTTrainer) -> None:
        """Watch this trainer."""
        self.trainer = trainer
        self.n_in_a_row = self._n_good = 0
        self.said: list[str] = []

    def note(self, outcome: Outcome, batches: Sequence[Mapping[str, Tensor]], epoch: int) -> None:
        """Take note of a step that was just tried.

        Args:
            outcome: What it did.
            batches: What it was computed from.
            epoch: The pass.

        Raises:
            TrainingError: So many in a row were bad that the run is not worth going on.
        """
        if outcome.is_good:
            self.n_in_a_row, self._n_good = 0, self._n_good + 1
            return
        self.n_in_a_row += 1
        most, step = self.trainer.args.max_bad_steps, self.trainer.optim_schedule.n_current_steps
        is_loss = not math.isfinite(float(outcome.loss))
        what = f"the loss is {float(outcome.loss):g}" if is_loss else f"the gradient's norm is {float(outcome.grad_norm):g}"
        what = f"step {step}: {what}, the update is skipped: {self._where(batches, epoch)}{self._keep(batches, step)}"
        self.said.append(what)
        if self.n_in_a_row >= most:
            raise self._error()
        warnings.warn(what, stacklevel=2)

    def pass_ends(self) -> None:
        """See whether a short pass came to anything.

        Raises:
            TrainingError: It ended in bad steps, or had no good one.
        """
        n_good, self._n_good = self._n_good, 0
        if self.n_in_a_row > 1 or (self.n_in_a_row and not n_good):
            raise self._error()

    def _error(self) -> TrainingError:
        message = (
            f"{self.said[-1]}; {self.n_in_a_row} in a row: lower the learning rate or lengthen the warm-up, or mend the lines"
        )
        return TrainingError(f"{message}, and go on from an earlier checkpoint [E-LOSS-NONFINITE]")

    def _where(self, batches: Sequence[Mapping[str, Tensor]], epoch: int) -> str:
        """The place of the batches in the pass, and the examples at fault."""
        trainer = self.trainer
        last = trainer.position.n_batches
        numbers = range(last - len(batches), last)
        names = f"pass {epoch}, batch {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
        loader = trainer.train_data
        if not isinstance(loader, BatchLoader):
            return names
        places: list[int] = []
        for number, batch in zip(numbers, batches, strict=True):
            indices = loader.examples_of(epoch, number)
            rows = self._bad_rows(batch)
            by_row = _examples_by_row(batch)
            places += [indices[i] for row in rows for i in by_row[row]]
        shown = loader.dataset.describe(sorted(places)[:_MOST_NAMED])
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        return f"{names}, {shown}{more}"

    def _bad_rows(self, batch: Mapping[str, Tensor]) -> list[int]:
        """The rows whose loss alone is no finite number; all, where none is."""
        n_rows = len(batch["bert_input"])
        if n_rows > _MOST_LOOKED_AT:
            return list(range(n_rows))
        before = random_state()
        with torch.no_grad():
            losses = [self.trainer.step.loss_of(part) for part in split(batch, n_rows)]
        set_random_state(before)
        return [row for row, loss in enumerate(losses) if not math.isfinite(loss)] or list(range(n_rows))

    def _keep(self, batches: Sequence[Mapping[str, Tensor]], step: int) -> str:
        """Write the batches down, so that the step can be looked at again; says where."""
        folder = self.trainer.args.output_dir
        if folder is None:
            return ""
        path = Path(folder) / f"bad-step-{step}.safetensors"
        with atomic_write(path) as file:
            write_tensors(file, {f"{i}.{name}": value for i, batch in enumerate(batches) for name, value in batch.items()})
        return f"; the batch is in {os.fspath(path)}"


def _examples_by_row(batch: Mapping[str, Tensor]) -> list[list[int]]:
    """Numbers of a batch's examples, row by row."""
    if "example" not in batch:
        return [[row] for row in range(len(batch["bert_input"]))]
    ends = batch["example"].amax(1).cumsum(0).tolist()
    return [list(range(begin, end)) for begin, end in zip([0, *ends], ends, strict=False)]
