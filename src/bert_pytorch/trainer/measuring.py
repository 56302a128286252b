"""What a run logs of its training and of its evaluations, and which evaluation was the best."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from ..errors import InputError
from ..memory import peak_memory_bytes
from .callbacks import CallbackHandler, TrainerState
from .criterion import check_finite, progress_line
from .objective import SUMS
from .step import Outcome

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_BY_THE_CLOCK = ("tokens_per_second", "seconds", "earlier_tokens")
# A spike: so much above the median of the last logs, in median deviations from it and as a share of it.
_USUAL, _SPIKE_SPREADS, _SPIKE_SHARE = 10, 8.0, 0.1
_LOGGED = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")


class EvaluationStoppedError(Exception):
    """A signal came within an evaluation, which is left for the run that goes on."""


class Measuring:
    """Logs and evaluates.

    Attributes:
        train_report, eval_report: Of the last pass and the last evaluation.
        evaluation_is_due: Whether one was begun and not ended.
    """

    def __init__(self, trainer: BERTTrainer, state: TrainerState, handler: CallbackHandler) -> None:
        """Measure this trainer from now on."""
        self.trainer, self.state, self.handler = trainer, state, handler
        self.train_report: dict[str, float] = {}
        self.eval_report: dict[str, float] = {}
        self.evaluation_is_due = False
        self._logged_step = -1
        # Sums of this pass at the last log, and what was measured before this pass and not logged.
        self._logged_sums = self._pending_sums = [0.0] * len(SUMS)
        self._began = self._logged_at = time.perf_counter()

    def pass_begins(self) -> None:
        """Measure a pass from its beginning."""
        self._logged_sums = [0.0] * len(SUMS)

    def pass_ends(self) -> None:
        """Keep what was measured since the last log for the next one, which comes in another pass."""
        if self.trainer.pass_metrics is not None:
            sums = self.trainer.pass_metrics.sums
            parts = zip(self._pending_sums, sums, self._logged_sums, strict=True)
            self._pending_sums, self._logged_sums = [pending + now - logged for pending, now, logged in parts], sums

    def leave_out(self, seconds: float) -> None:
        """Do not count this time, in which training stood."""
        self._logged_at += seconds
        if self.trainer.pass_metrics is not None:
            self.trainer.pass_metrics.leave_out(seconds)

    def log(self, outcome: Outcome) -> None:
        """Log what training measured since the last log, and the last step."""
        trainer, state, metrics = self.trainer, self.state, self.trainer.pass_metrics
        if self._logged_step == state.global_step or metrics is None:
            return
        since = [logged - pending for logged, pending in zip(self._logged_sums, self._pending_sums, strict=True)]
        report, now = metrics.read(since), time.perf_counter()
        seconds, self._logged_at = now - self._logged_at, now
        report |= {"seconds": seconds, "steps": float(state.global_step - max(0, self._logged_step))}
        self._logged_sums, self._logged_step = metrics.sums, state.global_step
        self._pending_sums = [0.0] * len(SUMS)
        state.num_input_tokens_seen += int(report["real_tokens"])
        entry = {name: report[name] for name in _LOGGED}
        entry |= {"learning_rate": outcome.rate, "grad_norm": float(outcome.grad_norm)}
        self._warn_of_a_spike(report["loss"])
        self._add({**entry, "tokens_per_second": report["real_tokens"] / seconds, **self._of_the_machine()})
        n_left = None if trainer.max_steps is None else trainer.max_steps - state.global_step
        where = f"step {state.global_step}" + (f"/{trainer.max_steps}" if trainer.max_steps else "")
        if trainer.world.is_main:
            tqdm.write(f"{where} {progress_line(report, outcome.rate, n_left)}", file=sys.stderr)

    def evaluate(self) -> None:
        """Evaluate, unless a signal comes, and see whether that is the best so far.

        Raises:
            InputError: The figure that is to decide is not there.
        """
        try:
            report = self.trainer.test(self.trainer.position.epoch)
        except EvaluationStoppedError:
            self.evaluation_is_due = True
            return
        self.evaluation_is_due, self.eval_report = False, report
        figures = as_held_out(report)
        self._add({**figures, **self._of_the_machine()})
        self.handler.call("on_evaluate", metrics=figures)
        self._compare(figures)

    @property
    def is_evaluated(self) -> bool:
        """Whether the weights are those that were evaluated last."""
        return any(each["step"] == self.state.global_step and "eval_loss" in each for each in self.state.log_history)

    def state_dict(self) -> dict[str, Any]:
        """What goes on after a resume."""
        names = ("logged_sums", "pending_sums", "logged_step")
        return {
            **{name: getattr(self, f"_{name}") for name in names},
            "evaluation_is_due": self.evaluation_is_due,
            "train_report": self.train_report,
            "eval_report": self.eval_report,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on measuring."""
        self._logged_sums, self._pending_sums = state["logged_sums"], state["pending_sums"]
        self._logged_step = state["logged_step"]
        self.evaluation_is_due = state["evaluation_is_due"]
        self.train_report, self.eval_report = state["train_report"], state["eval_report"]

    def _warn_of_a_spike(self, loss: float) -> None:
        """Say so where a log's loss is far above what the last ones went up and down."""
        losses = [entry["loss"] for entry in self.state.log_history[-2 * _USUAL :] if "loss" in entry][-_USUAL:]
        if len(losses) < _USUAL:
            return
        usual = median(losses)
        spread = median(abs(each - usual) for each in losses)
        most = usual + max(_SPIKE_SPREADS * spread, _SPIKE_SHARE * usual)
        # One that lasts is said once.
        if losses[-1] <= most < loss:
            what = f"step {self.state.global_step}: the loss is {loss:.4f}, that of the last {_USUAL} logs {usual:.4f}"
            remedy = "if it does not come down, go on from an earlier checkpoint with a lower rate or a longer warm-up"
            warnings.warn(f"{what}: a spike; {remedy}", stacklevel=2)

    def _of_the_machine(self) -> dict[str, float]:
        """Time since this process began the run, and the most memory it has held."""
        memory = peak_memory_bytes(self.trainer.device)
        return {"elapsed_seconds": time.perf_counter() - self._began, **({} if memory is None else {"memory_bytes": memory})}

    def _add(self, entry: Mapping[str, float]) -> None:
        finite = {name: value for name, value in entry.items() if math.isfinite(value)}
        logs = {"step": self.state.global_step, "epoch": self.state.epoch, **finite}
        self.state.log_history.append(logs)
        self.handler.call("on_log", logs=logs)

    def _compare(self, figures: Mapping[str, float]) -> None:
        state, args = self.state, self.trainer.args
        name = args.best_metric_name
        if name not in figures:
            there = ", ".join(sorted(figures))
            raise InputError(f"metric_for_best_model: there is no {name}; there are {there} [E-METRIC-NAME]")
        value, best = figures[name], state.best_metric
        if math.isfinite(value) and (best is None or (value > best if args.is_greater_better else value < best)):
            state.best_metric, state.best_global_step, state.best_model_checkpoint = value, state.global_step, None
            # The best is nowhere else once training goes on.
            self.handler.control.should_save |= args.load_best_model_at_end
        self.trainer.optim_schedule.report_metric(value)


def print_progress(trainer: BERTTrainer, epoch: int, n_batches: int | None, rate: float) -> None:
    """One line on stderr of the pass so far, for `train` called by itself.

    Raises:
        TrainingError: The loss is no longer a finite number.
    """
    metrics = trainer.pass_metrics
    assert metrics is not None
    report = metrics.read()
    check_finite(report["loss"], epoch, metrics)
    n_left = None if trainer.max_steps is None else trainer.max_steps - trainer.optim_schedule.n_current_steps
    where = f"EP_train:{epoch} batch {trainer.position.n_batches}" + (f"/{n_batches}" if n_batches else "")
    if trainer.world.is_main:
        tqdm.write(f"{where} {progress_line(report, rate, n_left)}", file=sys.stderr)


def as_held_out(report: Mapping[str, float]) -> dict[str, float]:
    """Figures of an evaluation under their names, without what only the clock decides."""
    return {f"eval_{name}": value for name, value in report.items() if name not in _BY_THE_CLOCK}
