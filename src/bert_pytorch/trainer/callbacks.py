"""What looks on while a run goes, and may steer it: the events, state and flags of the Transformers Trainer.

A callback is any object with methods of these names; each is called as `(args, state, control, ...)` with those of the
keywords `trainer, model, optimizer, lr_scheduler, train_dataloader, eval_dataloader, logs, metrics` that it names:

`on_init_end` (the run is prepared), `on_train_begin, on_epoch_begin, on_step_begin, on_substep_end` (one of several batches of
a step), `on_pre_optimizer_step` (gradients are added up and clipped), `on_optimizer_step, on_step_end, on_log,
on_prediction_step` (a batch is evaluated), `on_evaluate, on_save, on_epoch_end, on_train_end`, and `on_run_end`, which comes
last however the run ended (`state.stopped_by`, and `state.message` where it failed).

It steers by the flags of `control`. Where it has `state_dict()` and `load_state_dict(state)`, of plain values, it is saved too.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from ..errors import InputError, TrainingError, UserError
from ..extras import import_extra
from ..files import atomic_write

if TYPE_CHECKING:
    from torch.utils.tensorboard.writer import SummaryWriter

    from .arguments import TrainingArguments
    from .pretrain import BERTTrainer

EVENTS = (
    *("on_init_end", "on_train_begin", "on_epoch_begin", "on_step_begin", "on_substep_end", "on_pre_optimizer_step"),
    *("on_optimizer_step", "on_step_end", "on_log", "on_prediction_step", "on_evaluate", "on_save", "on_epoch_end"),
    *("on_train_end", "on_run_end"),
)


@dataclass
class TrainerState:
    """Where a run is, and what it has measured; saved with it."""

    epoch: float = 0.0
    global_step: int = 0
    max_steps: int = 0
    num_train_epochs: int = 0
    num_input_tokens_seen: int = 0
    best_metric: float | None = None
    best_global_step: int | None = None
    best_model_checkpoint: str | None = None
    log_history: list[dict[str, float]] = field(default_factory=list)
    stopped_by: str = "plan"
    message: str | None = None
    warnings: list[str] = field(default_factory=list)
    is_world_process_zero: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values; not how this process ends, which nobody knows yet."""
        return {name: value for name, value in asdict(self).items() if name not in ("stopped_by", "message")}

    def load(self, values: Mapping[str, Any]) -> None:
        """Take over saved values; the plan stays that of this run."""
        for name in ("epoch", "global_step", "num_input_tokens_seen", "log_history", *_BEST):
            setattr(self, name, values[name])
        self.warnings[:0] = values.get("warnings", [])


_BEST = ("best_metric", "best_global_step", "best_model_checkpoint")


@dataclass
class TrainerControl:
    """What happens next; callbacks set the flags, and the run clears them when it has done so."""

    should_training_stop: bool = False
    should_epoch_stop: bool = False
    should_save: bool = False
    should_evaluate: bool = False
    should_log: bool = False


@runtime_checkable
class Stateful(Protocol):
    """A callback that goes on after a resume where it was."""

    def state_dict(self) -> Mapping[str, Any]:
        """What it remembers, in plain values."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Remember that."""
        ...


class CallbackHandler:
    """Tells callbacks what happens, in order."""

    def __init__(self, callbacks: Iterable[object], trainer: BERTTrainer, state: TrainerState) -> None:
        """Keep the callbacks of a run.

        Raises:
            InputError: One has no method that is ever called.
        """
        self.callbacks, self.trainer, self.state, self.control = list(callbacks), trainer, state, TrainerControl()
        for callback in self.callbacks:
            if isinstance(callback, type) or not any(callable(getattr(callback, event, None)) for event in EVENTS):
                kind = f"the class {callback.__name__}" if isinstance(callback, type) else type(callback).__name__
                message = f"callbacks: {kind} has no event; give an object with a method such as on_log"
                raise InputError(f"{message} [E-CALLBACK-EVENTS]")
        found = {event: [getattr(callback, event, None) for callback in self.callbacks] for event in EVENTS}
        self._methods = {event: [method for method in methods if callable(method)] for event, methods in found.items()}

    def call(self, event: str, *, logs: Mapping[str, float] | None = None, metrics: Mapping[str, Any] | None = None) -> None:
        """Call an event of every callback that has it.

        Raises:
            TrainingError: One raised an error; the message names it.
        """
        trainer, methods = self.trainer, self._methods[event]
        if not methods:
            return
        things: dict[str, object] = {
            "trainer": trainer,
            "model": trainer.language_model,
            "optimizer": trainer.optim,
            "lr_scheduler": trainer.optim_schedule,
            "train_dataloader": trainer.train_data,
            "eval_dataloader": trainer.test_data,
        }
        if logs is not None:
            things["logs"] = logs
        if metrics is not None:
            things["metrics"] = metrics
        for method in methods:
            with _Named(method):
                changed = method(trainer.args, self.state, self.control, **_asked_for(method, things))
            if isinstance(changed, TrainerControl):
                self.control = changed

    def state_dict(self) -> dict[str, Any]:
        """The states of those callbacks that have one, by number and class."""
        return {
            f"{i} {type(each).__name__}": each.state_dict()
            for i, each in enumerate(self.callbacks)
            if isinstance(each, Stateful)
        }

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        """Take over the states of callbacks that are there again."""
        for i, each in enumerate(self.callbacks):
            state = states.get(f"{i} {type(each).__name__}")
            if state is not None and isinstance(each, Stateful):
                each.load_state_dict(state)


class EarlyStoppingCallback:
    """Stops a run when evaluations have not become better for a while."""

    def __init__(self, early_stopping_patience: int = 1, early_stopping_threshold: float = 0.0) -> None:
        """Choose how long to wait.

        Args:
            early_stopping_patience: Evaluations without a better figure, in a row, that stop the run.
            early_stopping_threshold: By how much a figure must be better to count.
        """
        self.patience, self.threshold = early_stopping_patience, early_stopping_threshold
        self.best: float | None = None
        self.n_waited = 0

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, metrics: Mapping[str, float]
    ) -> None:
        """Compare."""
        value = metrics[args.best_metric_name]
        gain = 0.0 if self.best is None else (value - self.best if args.is_greater_better else self.best - value)
        if self.best is None or gain > self.threshold:
            self.best, self.n_waited = value, 0
        else:
            self.n_waited += 1
            control.should_training_stop |= self.has_stopped

    @property
    def has_stopped(self) -> bool:
        """Whether it has waited long enough."""
        return self.n_waited >= self.patience

    def state_dict(self) -> dict[str, float | int | None]:
        """The best figure, and for how many evaluations it has been that."""
        return {"best": self.best, "n_waited": self.n_waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on waiting."""
        self.best, self.n_waited = state["best"], state["n_waited"]


def who_stopped(handler: CallbackHandler) -> str:
    """Whose wish it was that a run ends before its plan: `early_stopping`, or another `callback`."""
    waits = (each for each in handler.callbacks if isinstance(each, EarlyStoppingCallback))
    return "early_stopping" if any(each.has_stopped for each in waits) else "callback"


class JsonlCallback:
    """Writes each log as a line of `log.jsonl` in the run's folder; a resumed run goes on behind what its checkpoint had."""

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> None:
        """Write what is known so far."""
        if args.output_dir is not None and state.is_world_process_zero:
            with atomic_write(self._path(args)) as file:
                file.write("".join(json.dumps(entry) + "\n" for entry in state.log_history).encode("ascii"))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Mapping[str, float]) -> None:
        """Add a line."""
        if args.output_dir is not None and state.is_world_process_zero:
            with open(self._path(args), "a", encoding="ascii") as file:
                file.write(json.dumps(dict(logs)) + "\n")

    def _path(self, args: TrainingArguments) -> Path:
        return Path(args.output_dir or ".") / "log.jsonl"


class TensorBoardCallback:
    """Writes each log for TensorBoard, into `logging_dir`."""

    def __init__(self) -> None:
        """Begin when training does."""
        self._writer: SummaryWriter | None = None

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> None:
        """Open the log.

        Raises:
            UnavailableError: `tensorboard` is not installed.
        """
        if not state.is_world_process_zero:
            return
        import_extra("tensorboard", "tensorboard")
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(args.logging_dir, purge_step=state.global_step + 1 if state.global_step else None)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Mapping[str, float]) -> None:
        """Add the figures."""
        for name, value in logs.items():
            if self._writer is not None and name not in ("step", "epoch"):
                side, plain = ("eval", name.removeprefix("eval_")) if name.startswith("eval_") else ("train", name)
                self._writer.add_scalar(f"{side}/{plain}", value, state.global_step)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl) -> None:
        """Close it."""
        if self._writer is not None:
            self._writer.close()


class _Named:
    """Says which callback an error came from."""

    def __init__(self, method: object) -> None:
        self.name = f"{type(getattr(method, '__self__', method)).__name__}.{getattr(method, '__name__', '__call__')}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, UserError):
            what = f"callback {self.name}: {type(error).__name__}: {error}"
            raise TrainingError(f"{what}; mend it, and go on from the last checkpoint [E-CALLBACK]") from error


def _asked_for(method: object, things: Mapping[str, object]) -> dict[str, object]:
    """Those things that a method names, or all where it takes any."""
    assert callable(method)
    parameters = inspect.signature(method).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()):
        return dict(things)
    return {name: thing for name, thing in things.items() if name in parameters}
