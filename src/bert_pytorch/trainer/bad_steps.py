"""Steps whose loss or gradient is no finite number: which step, which examples, which lines of the corpus, and when to stop."""

from __future__ import annotations

import math
import os
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..dataset.loader import BatchLoader
from ..errors import TrainingError
from ..files import atomic_write
from .batch import split
from .randomness import random_state, set_random_state
from .state import take_weights
from .step import Outcome
from .tensor_file import write_tensors

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_MOST_IN_A_ROW = 10
_MOST_NAMED = 8
_MOST_LOOKED_AT = 1024


class _Tried(NamedTuple):
    """A step, and where it stood."""

    outcome: Outcome
    batches: Sequence[Mapping[str, Tensor]]
    epoch: int
    n_batches: int
    step: int


class BadSteps:
    """Watches the steps of a trainer.

    Attributes:
        n_in_a_row: Bad steps since the last good one.
        last_checkpoint: The folder that `nan_policy` rollback goes back to; None: there is none yet.
    """

    def __init__(self, trainer: BERTTrainer) -> None:
        """Watch this trainer."""
        self.trainer = trainer
        self.n_in_a_row = self._n_good = 0
        self._said = ""
        self.last_checkpoint: Path | None = None
        self._went_back = False
        self._waiting: deque[_Tried] = deque()

    def note(self, outcome: Outcome, batches: Sequence[Mapping[str, Tensor]], epoch: int) -> None:
        """Take note of a step that was just tried.

        Args:
            outcome: What it did.
            batches: What it was computed from.
            epoch: The pass.

        Raises:
            TrainingError: So many in a row were bad that the run is not worth going on.
        """
        trainer = self.trainer
        tried = _Tried(outcome, batches, epoch, trainer.position.n_batches, trainer.optim_schedule.n_current_steps)
        self._waiting.append(tried)
        # The step before this one is done by now, or nearly so.
        self._look_at_all_but(int(trainer.step.is_deferred))

    def settle(self) -> None:
        """Look at every step tried so far; raises as `note`."""
        self._look_at_all_but(0)

    def _look_at_all_but(self, n_left: int) -> None:
        while len(self._waiting) > n_left:
            self._look_at(self._waiting.popleft())

    def _look_at(self, tried: _Tried) -> None:
        outcome = tried.outcome
        if outcome.is_good:
            self.n_in_a_row, self._n_good, self._went_back = 0, self._n_good + 1, False
            return
        self.n_in_a_row += 1
        is_loss = not math.isfinite(float(outcome.loss))
        what = f"the loss is {float(outcome.loss):g}" if is_loss else f"the gradient's norm is {float(outcome.grad_norm):g}"
        what = f"step {tried.step}: {what}, the update is skipped: {self._where(tried)}{self._keep(tried)}"
        self._said = what
        args = self.trainer.args
        # DeepSpeed has added the gradients up by now, and cannot leave them out.
        ends = args.nan_policy == "raise" or args.deepspeed is not None
        if self.n_in_a_row >= (1 if ends else args.max_bad_steps or _MOST_IN_A_ROW):
            self._end()
        else:
            warnings.warn(what, stacklevel=4)

    def pass_ends(self) -> None:
        """See whether a short pass came to anything.

        Raises:
            TrainingError: It ended in bad steps, or had no good one.
        """
        self.settle()
        n_good, self._n_good = self._n_good, 0
        if self.n_in_a_row > 1 or (self.n_in_a_row and not n_good):
            self._end()

    def state_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {"n_in_a_row": self.n_in_a_row, "n_good": self._n_good, "went_back": self._went_back}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on watching."""
        self.n_in_a_row, self._n_good = state["n_in_a_row"], state["n_good"]
        self._went_back = state["went_back"]

    def _end(self) -> None:
        """End the run, or take the weights of its last checkpoint where that is asked for and there was a good step since."""
        path, n = self.last_checkpoint, self.n_in_a_row
        if self.trainer.args.nan_policy == "rollback" and path is not None and not self._went_back:
            self.n_in_a_row, self._went_back = 0, True
            take_weights(self.trainer, path)
            warnings.warn(f"{self._said}; {n} in a row: went back to the weights of {path}; the data go on", stacklevel=5)
            return
        remedy = "lower the learning rate or lengthen the warm-up, or mend the lines, and go on from an earlier checkpoint"
        raise TrainingError(f"{self._said}; {n} in a row: {remedy} [E-LOSS-NONFINITE]")

    def _where(self, tried: _Tried) -> str:
        """The place of the batches in the pass, and the examples at fault."""
        numbers = range(tried.n_batches - len(tried.batches), tried.n_batches)
        names = f"pass {tried.epoch}, batch {numbers[0]}" + (f" to {numbers[-1]}" if len(numbers) > 1 else "")
        loader = self.trainer.train_data
        if not isinstance(loader, BatchLoader):
            return names
        at_fault: list[int] = []
        all_places: list[int] = []
        for number, batch in zip(numbers, tried.batches, strict=True):
            indices = loader.examples_of(tried.epoch, number, own=True)
            by_row = _examples_by_row(batch)
            at_fault += [indices[i] for row in self._bad_rows(batch) for i in by_row[row]]
            all_places += indices
        gather = self.trainer.world.gather
        places = [place for own in gather(at_fault) for place in own] or [place for own in gather(all_places) for place in own]
        shown = loader.dataset.describe(sorted(places)[:_MOST_NAMED])
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        return f"{names}, {shown}{more}"

    def _bad_rows(self, batch: Mapping[str, Tensor]) -> list[int]:
        """The rows whose loss alone is no finite number; none, where they cannot be told apart."""
        n_rows = len(batch["bert_input"])
        # Parts of weights are gathered by all processes at once, of which each would look at other rows.
        if n_rows > _MOST_LOOKED_AT or (self.trainer.args.sharding is not None and self.trainer.world.size > 1):
            return []
        before = random_state()
        with torch.no_grad():
            losses = [self.trainer.step.loss_of(part) for part in split(batch, n_rows)]
        set_random_state(before)
        return [row for row, loss in enumerate(losses) if not math.isfinite(loss)]

    def _keep(self, tried: _Tried) -> str:
        """Write the batches down, so that the step can be looked at again; says where."""
        folder = self.trainer.args.output_dir
        if folder is None:
            return ""
        path = Path(folder) / f"bad-step-{tried.step}.safetensors"
        values = {f"{i}.{name}": value for i, batch in enumerate(tried.batches) for name, value in batch.items()}
        with atomic_write(path) as file:
            write_tensors(file, values)
        return f"; the batch is in {os.fspath(path)}"


def _examples_by_row(batch: Mapping[str, Tensor]) -> list[list[int]]:
    """Numbers of a batch's examples, row by row."""
    if "example" not in batch:
        return [[row] for row in range(len(batch["bert_input"]))]
    ends = batch["example"].amax(1).cumsum(0).tolist()
    return [list(range(begin, end)) for begin, end in zip([0, *ends], ends, strict=False)]
