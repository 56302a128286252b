"""A whole run: pass after pass, with logs, evaluations, checkpoints and callbacks where the settings have them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InputError, UserError
from .callbacks import CallbackHandler, TrainerState, who_stopped
from .distributed import lost_ranks_named
from .measuring import EvaluationStoppedError, Measuring, as_held_out
from .report import has_report
from .reporting import collected, with_built_in
from .saving import Saver
from .signals import InterruptedRunError, Signals
from .state import restore
from .step import Outcome

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_SAVE_STEPS = 500


class Run:
    """The plan of a trainer, carried out.

    Attributes:
        state: Where the run is; saved with it.
    """

    def __init__(self, trainer: BERTTrainer, callbacks: Sequence[object]) -> None:
        """Prepare a run.

        Raises:
            InputError: Evaluations are asked for without held-out data, or a callback has no event.
        """
        self.trainer, self.args, self.state = trainer, trainer.args, TrainerState(is_world_process_zero=trainer.world.is_main)
        has_data = trainer.test_data is not None
        self.eval_strategy = self.args.eval_strategy or ("epoch" if has_data else "no")
        if not has_data and (self.eval_strategy != "no" or self.args.needs_evaluations):
            raise InputError("fit: evaluations are asked for without held-out data; give test_dataloader [E-TRAINER-NO-TEST]")
        self.handler = CallbackHandler(with_built_in(self.args, callbacks), trainer, self.state)
        self.measuring = Measuring(trainer, self.state, self.handler)
        self.signals, self._has_begun = Signals(), False
        self.saver = Saver(trainer, self.args, self.state)
        self._real_tokens, self._seconds, self._first_step = 0.0, 0.0, 0
        self._last_outcome: Outcome | None = None
        self._checkpoint: str | None = None
        self.handler.call("on_init_end")

    def fit(self) -> dict[str, Any]:
        """Carry it out; the last figures of training and evaluation, and how it ended.

        Raises:
            InterruptedRunError: A signal ended it; it is saved.
            UserError: It cannot begin or go on.
        """
        self._began = time.perf_counter()
        self.state.message = "ended by an error nobody foresaw"
        self.saver.open()
        try:
            with self.signals, collected(self.state.warnings), lost_ranks_named(self.trainer.world):
                self._resume()
                self._train()
            self.state.message = None
        except UserError as error:
            self.state.message = str(error)
            if not isinstance(error, InterruptedRunError):
                self.state.stopped_by = "error"
            raise
        finally:
            if self._has_begun:
                self.handler.call("on_run_end", metrics=self.outcome())
            self.saver.close()
        return self.outcome()

    def outcome(self) -> dict[str, Any]:
        """What the run has come to."""
        return {
            "stopped_by": self.state.stopped_by,
            "steps": self.state.global_step,
            "epochs": self.trainer.position.epoch + self.trainer.position.is_within_pass,
            "real_tokens": self._real_tokens,
            "seconds": self._seconds,
            "elapsed_seconds": time.perf_counter() - self._began,
            "real_tokens_per_second": self._real_tokens / self._seconds if self._seconds else math.nan,
            "steps_per_second": (self.state.global_step - self._first_step) / self._seconds if self._seconds else math.nan,
            "checkpoint": self._checkpoint,
            "best_metric": self.state.best_metric,
            "best_model_checkpoint": self.state.best_model_checkpoint,
            **{f"train_{name}": value for name, value in self.measuring.train_report.items()},
            **as_held_out(self.measuring.eval_report),
        }

    def step_ended(self, epoch: int, n_batches: int | None, outcome: Outcome) -> None:
        """Log, evaluate and save where it is time to, and see whether the run is to end.

        Args:
            epoch: The pass.
            n_batches: Batches of it; None: not known.
            outcome: What the step did.
        """
        self._last_outcome, args, control, trainer = outcome, self.args, self.handler.control, self.trainer
        step = self.state.global_step = trainer.optim_schedule.n_current_steps
        done = trainer.position.n_batches
        self.state.epoch = epoch + (done / n_batches if n_batches else 0.0)
        is_first = step == 1 and args.logging_first_step
        control.should_log = args.logging_strategy == "steps" and (step % args.logging_steps == 0 or is_first)
        every = args.eval_steps or args.logging_steps
        control.should_evaluate = self.eval_strategy == "steps" and step % every == 0 and step >= args.eval_delay
        control.should_save = args.save_strategy == "steps" and step % (args.save_steps or _SAVE_STEPS) == 0
        self.handler.call("on_step_end")
        self._act()
        self._saved(self.saver.poll())
        if args.max_minutes is not None:
            if trainer.world.highest(int(time.perf_counter() - self._began >= 60 * args.max_minutes)):
                self._stop("max_minutes")
        self.signals.received = trainer.world.highest(self.signals.received or 0) or None
        if self.signals.received is not None:
            self._stop("signal")

    def poll(self) -> None:
        """Within an evaluation: leave it when a signal has come."""
        if self.trainer.world.highest(self.signals.received or 0):
            raise EvaluationStoppedError

    @property
    def is_to_stop(self) -> bool:
        """Whether the pass is not to go on."""
        return self.handler.control.should_training_stop or self.handler.control.should_epoch_stop

    @property
    def _last_epoch(self) -> float:
        """Passes after which this process ends."""
        plan = self.args.num_train_epochs if self.args.max_steps is None else math.inf
        return min(plan, self.args.stop_after_epochs or math.inf)

    def _resume(self) -> None:
        path = self.saver.find()
        if path is None:
            return
        run = restore(self.trainer, path, allow_change=self.args.allow_change).get("run")
        self.state.global_step = self.trainer.optim_schedule.n_current_steps
        if run is not None:
            self.state.load(run["state"])
            self.handler.load_state_dict(run["callbacks"])
            self.measuring.load_state_dict(run["measuring"])
        self.saver.resumed(path, self.state.global_step)

    def _train(self) -> None:
        trainer, args = self.trainer, self.args
        self.state.max_steps, self.state.num_train_epochs = trainer.max_steps or 0, args.num_train_epochs
        if trainer.is_done or trainer.position.epoch >= self._last_epoch:
            self._nothing_is_left()
            return
        self._first_step, self._has_begun = self.state.global_step, True
        self.handler.call("on_train_begin")
        try:
            if self.measuring.evaluation_is_due:
                self.measuring.evaluate()
                self._act()
            while not (trainer.is_done or self.handler.control.should_training_stop):
                if trainer.position.epoch >= self._last_epoch:
                    break
                self._pass(trainer.position.epoch)
            if self.signals.received is not None:
                self._interrupted(self.signals.received)
        except UserError as error:
            if error.code == "E-CALLBACK" and trainer.world.size == 1:
                # What training has reached is whole: it was the onlooker that failed. Others would not take part in a save.
                self.saver.save(self._to_keep())
            raise
        if self.handler.control.should_training_stop and self.state.stopped_by == "plan":
            self.state.stopped_by = who_stopped(self.handler)
        if args.save_strategy != "no":
            self._save()
        self._saved(self.saver.finish())
        if self.handler.control.should_training_stop and trainer.position.is_within_pass:
            self._cut_short()
        if args.load_best_model_at_end:
            self.saver.load_best()
        self.handler.call("on_train_end")

    def _cut_short(self) -> None:
        """Keep and measure what the begun pass has come to: a checkpoint first, which knows nothing of the evaluation."""
        self._save_file(self.trainer.position.epoch)
        if self.eval_strategy != "no" and not self.measuring.is_evaluated:
            self.measuring.evaluate()
            self.saver.evaluated()

    def _nothing_is_left(self) -> None:
        """End well where the last checkpoint of a folder has all: whoever starts runs again until they end sees an end.

        Raises:
            InputError: A checkpoint was named, to be trained further.
        """
        trainer, args = self.trainer, self.args
        plan = "max_steps" if args.max_steps else "num_train_epochs"
        flag = plan if trainer.is_done or args.stop_after_epochs is None else "stop_after_epochs"
        message = f"the checkpoint has all that {flag} asks for; to train longer raise it"
        if args.resume_from_checkpoint != "last" or self.saver.folder is None:
            raise InputError(f"fit: {message} [E-RESUME-DONE]")
        warnings.warn(f"{self.saver.path_now}: nothing is left to do: {message}", stacklevel=2)
        self._checkpoint = self.saver.path_now
        if args.load_best_model_at_end:
            self.saver.load_best()
        # A kill between the last checkpoint and the end of the run left no report.
        folder = self.saver.folder
        self._has_begun = not trainer.world.on_main(lambda: has_report(folder))

    def _interrupted(self, number: int) -> None:
        """Save, and end with the signal's exit status; what broke off within a step is not saved."""
        is_whole, path = not self.trainer.position.is_within_step, None
        if is_whole:
            saved = self._save(again=self.measuring.evaluation_is_due)
            path = self._saved(self.saver.finish()) or saved or self.saver.path_now
            path = path or self._save_file(self.trainer.position.epoch)
        self.trainer.world.gather(None)  # A launcher that sees one process end ends the others: all is written first.
        where = f"saved as {path}; go on with --resume_from_checkpoint last" if path else "its last checkpoint stays"
        message = f"stopped by signal {number} after step {self.state.global_step}: {where} [E-INTERRUPTED]"
        raise InterruptedRunError(number, message)

    def _pass(self, epoch: int) -> None:
        args, control = self.args, self.handler.control
        control.should_epoch_stop = False
        if not self.trainer.position.is_within_pass:
            self.measuring.pass_begins()
            self.handler.call("on_epoch_begin")
        try:
            report = self.measuring.train_report = self.trainer.train(epoch)
            self._real_tokens += report["real_tokens"] - report["earlier_tokens"]
            self._seconds += report["seconds"]
        except RuntimeError as error:
            # A signal to the whole group may end the data's processes too; what they were to bring is not needed any more.
            if isinstance(error, UserError) or self.signals.received is None:
                raise
        if control.should_training_stop or self.signals.received is not None:
            return
        self.state.epoch = float(epoch + 1)
        control.should_log = args.logging_strategy == "epoch"
        control.should_evaluate = self.eval_strategy == "epoch" and epoch + 1 >= args.eval_delay
        control.should_save = args.save_strategy == "epoch"
        self.handler.call("on_epoch_end")
        if control.should_log:
            self._log()
        self.measuring.pass_ends()
        if args.output_path is not None:
            # Saved before the evaluation, which a run that goes on from here makes up for.
            self.measuring.evaluation_is_due = control.should_evaluate
            self._save_file(epoch)
        self._act()
        if self.trainer.position.epoch == args.stop_after_epochs and not self.trainer.is_done:
            self._stop("stop_after_epochs")

    def _act(self) -> None:
        """Do what the flags ask for, in this order, so that a checkpoint has the figures of its step."""
        control, began = self.handler.control, time.perf_counter()
        if control.should_log or control.should_evaluate or control.should_save:
            self.trainer.bad_steps.settle()
        if control.should_log:
            self._log()
        if control.should_evaluate:
            control.should_evaluate = False
            self.measuring.evaluate()
        if control.should_save:
            control.should_save = False
            self._save()
        self.measuring.leave_out(time.perf_counter() - began)

    def _log(self) -> None:
        self.handler.control.should_log = False
        if self._last_outcome is not None:
            self.measuring.log(self._last_outcome)

    def _stop(self, reason: str) -> None:
        self.handler.control.should_training_stop = True
        if self.state.stopped_by == "plan":
            self.state.stopped_by = reason

    def _to_keep(self) -> dict[str, Any]:
        return {"callbacks": self.handler.state_dict(), "measuring": self.measuring.state_dict()}

    def _save(self, *, again: bool = False) -> str | None:
        return self._saved(self.saver.save(self._to_keep(), again=again))

    def _save_file(self, epoch: int) -> str | None:
        path = self.saver.save_file(epoch, self._to_keep())
        self._checkpoint = path or self._checkpoint
        return path

    def _saved(self, path: str | None) -> str | None:
        if path is not None:
            self._checkpoint = path
            self.handler.call("on_save")
        return path
