"""Where a run keeps its checkpoints: when one is written, what becomes of a failure, and which one it goes on from."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, SaveError
from .checkpoint import find_last, load_checkpoint, load_weights
from .run_folder import RunFolder
from .state import collect
from .state_files import to_files

if TYPE_CHECKING:
    from .arguments import TrainingArguments
    from .callbacks import TrainerState
    from .pretrain import BERTTrainer


class Saver:
    """The checkpoints of a run in its `output_dir`; without one, nothing is kept."""

    def __init__(self, trainer: BERTTrainer, args: TrainingArguments, state: TrainerState) -> None:
        """Keep the checkpoints of this trainer."""
        self.trainer, self.args, self.state = trainer, args, state
        self.folder: RunFolder | None = None
        self._saved_step: int | None = None

    def open(self) -> None:
        """Take the folder.

        Raises:
            InputError: Another process has it.
            SaveError: It cannot be written to.
        """
        if self.args.output_dir is not None:
            self.folder = RunFolder(self.args.output_dir)

    def close(self) -> None:
        """Give it free."""
        if self.folder is not None:
            self.folder.close()

    def find(self) -> str | None:
        """The checkpoint to go on from, as the settings ask for it; None: begin anew.

        Raises:
            InputError: There is none, or one is there and was not asked for.
        """
        asked, folder = self.args.resume_from_checkpoint, self.folder
        if asked is None:
            n = len(folder.steps()) if folder is not None else 0
            if folder is not None and n:
                message = f"{folder.path}: {n} checkpoints of an earlier run are there; pass --resume_from_checkpoint last"
                raise InputError(f"{message} to go on, or name another --output_dir [E-RUN-EXISTS]")
            return None
        if asked != "last":
            return asked
        if folder is None:
            if self.args.output_path is None:
                message = "resume_from_checkpoint is last, without output_dir or output_path; name a checkpoint"
                raise InputError(f"fit: {message} [E-SETTING-CONFLICT]")
            return find_last(self.args.output_path)
        found = folder.find_last()
        if found is None:
            message = "no whole checkpoint to go on from; start without --resume_from_checkpoint"
            raise InputError(f"{folder.path}: {message} [E-CHECKPOINT-NONE]")
        return str(found)

    def resumed(self, path: str, step: int) -> None:
        """Note which checkpoint the trainer stands at: one just saved, or gone on from, which may lie elsewhere."""
        is_here = self.folder is not None and Path(path).resolve() == self.folder.checkpoint(step).resolve()
        self._saved_step = step if is_here else None
        self.trainer.bad_steps.last_checkpoint = Path(path)

    @property
    def path_now(self) -> str | None:
        """The checkpoint of this very step, if it is there."""
        if self.folder is None or self._saved_step != self.state.global_step:
            return None
        return str(self.folder.checkpoint(self.state.global_step))

    def save(self, run: Mapping[str, Any], *, again: bool = False) -> str | None:
        """Write the checkpoint of this step, if it is not there yet; its path, if there is one now.

        Args:
            run: What the run itself wants to find again.
            again: Write it even if it is there.

        Raises:
            SaveError: It could not be written, and `on_save_error` says to stop.
        """
        step = self.state.global_step
        if self.folder is None or (self._saved_step == step and not again):
            return None
        if step == self.state.best_global_step:
            self.state.best_model_checkpoint = self.folder.checkpoint(step).name
        protected = {step, self.state.best_global_step} - {None}
        contents = to_files({**collect(self.trainer), "run": {**run, "state": self.state.to_dict()}})
        try:
            path = self.folder.save(step, contents, self.args.save_total_limit, protected)
        except SaveError as error:
            if step == self.state.best_global_step:
                self.state.best_model_checkpoint = None
            if self.args.on_save_error == "stop":
                raise
            warnings.warn(f"{error}; training goes on", stacklevel=2)
            return None
        self.resumed(str(path), step)
        return str(path)

    def save_file(self, epoch: int, run: Mapping[str, Any]) -> str | None:
        """Write `output_path.epN` behind pass `epoch`, or within it; its path, if it could be written.

        Raises:
            SaveError: As `save`.
        """
        try:
            return self.trainer.save(epoch, self.args.output_path or "", run={**run, "state": self.state.to_dict()})
        except SaveError as error:
            if self.args.on_save_error == "stop":
                raise
            warnings.warn(f"{error}; training goes on", stacklevel=2)
            return None

    def load_best(self) -> None:
        """Take the weights of the best evaluation; where its checkpoint could not be saved, a warning says so."""
        name = self.state.best_model_checkpoint
        if self.folder is None or name is None or not (self.folder.path / name).exists():
            warnings.warn(
                "load_best_model_at_end: no checkpoint of the best evaluation is there; the last weights stay", stacklevel=2
            )
            return
        path = self.folder.path / name
        load_weights(path, self.trainer.language_model, load_checkpoint(path)["model"])
