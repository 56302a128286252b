"""Where a run keeps its checkpoints: when one is written, what becomes of a failure, and which one it goes on from."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, SaveError
from ..launch import n_restarts
from .checkpoint import find_last, load_checkpoint, load_weights
from .checkpoint_folder import Contents
from .run_folder import RunFolder, checkpoint_of
from .shards import TIED, WHERE
from .state import collect
from .state_files import STATE, to_files

if TYPE_CHECKING:
    from .arguments import TrainingArguments
    from .callbacks import TrainerState
    from .pretrain import BERTTrainer
    from .shard_writer import ShardWriter


class Pending(NamedTuple):
    """A checkpoint that is to be written: its step, its files, and the steps that stay."""

    step: int
    contents: Contents
    protected: set[int]


class Saver:
    """The checkpoints of a run in its `output_dir`; without one, nothing is kept."""

    def __init__(self, trainer: BERTTrainer, args: TrainingArguments, state: TrainerState) -> None:
        """Keep the checkpoints of this trainer."""
        self.trainer, self.args, self.state = trainer, args, state
        self.folder = None if args.output_dir is None else Path(os.path.abspath(args.output_dir))
        self._own: RunFolder | None = None
        self._saved_step: int | None = None
        self._pending: Pending | None = None
        self._writer: ShardWriter | None = None

    def open(self) -> None:
        """Take the folder.

        Raises:
            InputError: Another process has it.
            SaveError: It cannot be written to.
        """
        self.trainer.world.on_main(self._open)

    def _open(self) -> None:
        if self.folder is not None:
            self._own = RunFolder(self.folder)

    def close(self) -> None:
        """Give it free."""
        if self._own is not None:
            self._own.close()

    def find(self) -> str | None:
        """The checkpoint to go on from, as the settings ask for it; None: begin anew.

        Raises:
            InputError: There is none, or one is there and was not asked for.
        """
        return self.trainer.world.on_main(self._find)

    def _find(self) -> str | None:
        asked, folder = self.args.resume_from_checkpoint, self._own
        if n_restarts() and folder is not None:
            # A launcher began anew: what the processes before have saved is what they were asked to do.
            found = folder.find_last()
            if found is not None:
                return str(found)
            asked = None if asked == "last" else asked
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
        is_here = self.folder is not None and Path(path).resolve() == checkpoint_of(self.folder, step).resolve()
        self._saved_step = step if is_here else None
        self.trainer.bad_steps.last_checkpoint = Path(path)

    @property
    def path_now(self) -> str | None:
        """The checkpoint of this very step, if it is there."""
        if self.folder is None or self._saved_step != self.state.global_step:
            return None
        return str(checkpoint_of(self.folder, self.state.global_step))

    def save(self, run: Mapping[str, Any], *, again: bool = False) -> str | None:
        """Write the checkpoint of this step, if it is not there yet; its path, if there is one now.

        Args:
            run: What the run itself wants to find again.
            again: Write it even if it is there.

        Raises:
            SaveError: It could not be written, and `on_save_error` says to stop.
        """
        step = self.state.global_step
        is_begun = self._pending is not None and self._pending.step == step
        if self.folder is None or ((self._saved_step == step or is_begun) and not again):
            return None
        self._name_best(self.folder)
        protected = {number for number in (step, self.state.best_global_step) if number is not None}
        in_parts = self.args.sharding is not None and self.trainer.world.size > 1
        state = {**collect(self.trainer, in_parts=in_parts), "run": {**run, "state": self.state.to_dict()}}
        pending = Pending(step, to_files(state), protected)
        if not in_parts:
            return self._put(pending)
        self.finish()
        self._pending = self._begin_parts(pending)
        return None

    def poll(self) -> str | None:
        """Put a checkpoint in its place whose parts are written by now; its path, if there is one.

        Raises:
            SaveError: As `save`.
        """
        return self.finish() if self._pending is not None and self._writer is not None and self._writer.is_done else None

    def finish(self) -> str | None:
        """As `poll`, but wait for the parts.

        Raises:
            SaveError: As `save`.
        """
        pending, self._pending = self._pending, None
        if pending is None or self._writer is None:
            return None
        return self._put(pending, self._writer.finish())

    def _begin_parts(self, pending: Pending) -> Pending | None:
        from .shard_writer import ShardWriter, parts_of

        if self._writer is None:
            self._writer = ShardWriter(self.trainer.world)
        tensors, tied = parts_of(pending.contents)
        rest = {name: content for name, content in pending.contents.items() if name not in WHERE.values()}
        rest[STATE] = {**rest[STATE], TIED: tied}
        try:
            self._writer.begin(self.trainer.world.on_main(lambda: self._make_folder(pending.step)), tensors)
        except SaveError as error:
            self._not_saved(pending.step, error)
            return None
        return pending._replace(contents=rest)

    def _make_folder(self, step: int) -> str:
        assert self._own is not None
        return str(self._own.begin(step))

    def _put(self, pending: Pending, failure: str | None = None) -> str | None:
        """Write what the main process writes, and put the checkpoint in its place."""
        try:
            path = self.trainer.world.on_main(lambda: self._write(pending, failure))
        except SaveError as error:
            self._not_saved(pending.step, error)
            return None
        self.resumed(path, pending.step)
        return path

    def _write(self, pending: Pending, failure: str | None) -> str:
        assert self._own is not None
        if failure is not None:
            self._own.give_up(pending.step)
            path = self._own.checkpoint(pending.step)
            raise SaveError(f"{path}: cannot be written: {failure}; free space, earlier checkpoints are whole [E-SAVE]")
        return str(self._own.save(pending.step, pending.contents, self.args.save_total_limit, pending.protected))

    def _not_saved(self, step: int, error: SaveError) -> None:
        if step == self.state.best_global_step:
            self.state.best_model_checkpoint = None
        if self.args.on_save_error == "stop":
            raise error
        warnings.warn(f"{error}; training goes on", stacklevel=4)

    def save_file(self, epoch: int, run: Mapping[str, Any]) -> str | None:
        """Write `output_path.epN` behind pass `epoch`, or within it; its path, if there is one and it could be written.

        Raises:
            SaveError: As `save`.
        """
        if self.args.output_path is None:
            return None
        try:
            return self.trainer.save(epoch, self.args.output_path, run={**run, "state": self.state.to_dict()})
        except SaveError as error:
            if self.args.on_save_error == "stop":
                raise
            warnings.warn(f"{error}; training goes on", stacklevel=2)
            return None

    def evaluated(self) -> None:
        """Where this step was saved before it was evaluated, and is the best, name its checkpoint."""
        if self.folder is not None and self.path_now is not None:
            self._name_best(self.folder)

    def _name_best(self, folder: Path) -> None:
        if self.state.global_step == self.state.best_global_step:
            self.state.best_model_checkpoint = checkpoint_of(folder, self.state.global_step).name

    def load_best(self) -> None:
        """Take the weights of the best evaluation; where its checkpoint could not be saved, a warning says so."""
        name = self.state.best_model_checkpoint
        if self.folder is None or name is None or not (self.folder / name).exists():
            warnings.warn(
                "load_best_model_at_end: no checkpoint of the best evaluation is there; the last weights stay", stacklevel=2
            )
            return
        path = self.folder / name
        load_weights(path, self.trainer.language_model, load_checkpoint(path)["model"])
