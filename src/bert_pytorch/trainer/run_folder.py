"""The folder of a run: `checkpoint-STEP` folders that are there whole or not at all, whatever happens to the machine.

A checkpoint is written under a temporary name in the same folder, file by file, each brought to the disk; then a manifest with
sizes and checksums; then the folder is renamed. What is read back is compared with the manifest. Nothing is ever written over.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

from ..errors import InputError, SaveError
from ..files import save_error, sync_folder
from .checkpoint_folder import Contents, check_checkpoint, size_of, write_checkpoint

_NAME = re.compile(r"checkpoint-(\d+)")
_TEMPORARY = ".tmp-"
_REPLACED = re.compile(r"\.tmp-replaced-(checkpoint-\d+)-\d+")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_SPARE_BYTES = 1 << 16
_locked: set[str] = set()


def checkpoint_of(folder: Path, step: int) -> Path:
    """Where in the folder of a run the checkpoint of a step is, or would be."""
    return folder / f"checkpoint-{step}"


class RunFolder:
    """Writes, finds, reads and deletes the checkpoints of one run; one process at a time has it.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Make the folder, take it for this process, and clear what an unfinished save left.

        Raises:
            InputError: Another process, or another trainer of this one, has it.
            SaveError: It cannot be made or written to.
        """
        self.path = Path(os.path.abspath(path))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = open(self.path / ".lock", "a+", encoding="ascii")
        except OSError as error:
            raise _save_error(self.path, error) from error
        self._take()
        try:
            self._sweep()
        except OSError as error:
            self.close()
            raise _save_error(self.path, error) from error

    def close(self) -> None:
        """Give the folder free for another process."""
        _locked.discard(os.path.realpath(self.path))
        self._lock.close()

    def steps(self) -> list[int]:
        """Steps of the checkpoints that are there, whole or not, in order; by name, as times change when files are copied."""
        found = (_NAME.fullmatch(entry.name) for entry in self.path.iterdir() if entry.is_dir())
        return sorted(int(match.group(1)) for match in found if match)

    def checkpoint(self, step: int) -> Path:
        """Where the checkpoint of a step is, or would be."""
        return checkpoint_of(self.path, step)

    def save(self, step: int, contents: Contents, limit: int | None = None, protected: Iterable[int] = ()) -> Path:
        """Write the checkpoint of a step, then delete those that are too many.

        Where the disk is full, those that would be deleted afterwards are deleted first, and it is tried once more.

        Args:
            step: Its number.
            contents: Its files.
            limit: How many of the newest stay; None: all.
            protected: Steps that stay in any case, such as the best.

        Returns:
            Its folder.

        Raises:
            SaveError: It could not be written; all earlier ones are whole.
        """
        try:
            path = self._write(step, contents)
        except OSError as error:
            obsolete = self._obsolete({*self.steps(), step}, limit, protected)
            if error.errno not in _FULL or not obsolete:
                raise _save_error(self.checkpoint(step), error) from error
            self._delete(obsolete)
            try:
                path = self._write(step, contents)
            except OSError as again:
                raise _save_error(self.checkpoint(step), again) from again
        self._delete(self._obsolete(self.steps(), limit, protected))
        return path

    def begin(self, step: int) -> Path:
        """Make the folder that several processes write a checkpoint into; `save` with it puts it in its place.

        Raises:
            SaveError: It cannot be made.
        """
        temporary = self._temporary(step)
        try:
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
        except OSError as error:
            raise _save_error(self.checkpoint(step), error) from error
        return temporary

    def give_up(self, step: int) -> None:
        """Clear what `begin` made."""
        shutil.rmtree(self._temporary(step), ignore_errors=True)

    def _temporary(self, step: int) -> Path:
        return self.path / f"{_TEMPORARY}{self.checkpoint(step).name}-{os.getpid()}"

    def find_last(self) -> Path | None:
        """The newest whole checkpoint; damaged ones are named, with the reason, and put aside as `checkpoint-STEP.damaged`."""
        for step in reversed(self.steps()):
            path = self.checkpoint(step)
            try:
                check_checkpoint(path)
            except InputError as error:
                warnings.warn(f"left out: {error}", stacklevel=2)
                self._put_aside(path)
                continue
            return path
        return None

    def _write(self, step: int, contents: Contents) -> Path:
        final = self.checkpoint(step)
        temporary = self._temporary(step)
        try:
            self._check_space(contents)
            write_checkpoint(temporary, step, contents)
            if final.exists():
                replaced = self.path / f"{_TEMPORARY}replaced-{final.name}-{os.getpid()}"
                final.rename(replaced)
                temporary.rename(final)
                sync_folder(self.path)
                shutil.rmtree(replaced, ignore_errors=True)
            else:
                temporary.rename(final)
                sync_folder(self.path)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return final

    def _check_space(self, contents: Contents) -> None:
        """Find out before half of it is written that the disk cannot hold it."""
        needed = size_of(contents) + _SPARE_BYTES
        if shutil.disk_usage(self.path).free < needed:
            raise OSError(errno.ENOSPC, f"No space left on device for {needed} bytes")

    def _obsolete(self, steps: Iterable[int], limit: int | None, protected: Iterable[int]) -> list[int]:
        if limit is None:
            return []
        ordered = sorted(steps)
        there = set(self.steps())
        return [step for step in ordered[: max(0, len(ordered) - limit)] if step in there and step not in set(protected)]

    def _delete(self, steps: Iterable[int]) -> None:
        """Delete checkpoints; renamed first, so that half of one is never taken for a checkpoint."""
        for step in steps:
            path = self.checkpoint(step)
            doomed = self.path / f"{_TEMPORARY}deleted-{path.name}-{os.getpid()}"
            try:
                path.rename(doomed)
                sync_folder(self.path)
            except OSError as error:
                warnings.warn(f"{path}: cannot be deleted: {error.strerror or error}", stacklevel=3)
                continue
            shutil.rmtree(doomed, ignore_errors=True)

    def _put_aside(self, path: Path) -> None:
        number, aside = 1, path.with_name(f"{path.name}.damaged")
        while aside.exists():
            number += 1
            aside = path.with_name(f"{path.name}.damaged-{number}")
        try:
            path.rename(aside)
        except OSError as error:
            warnings.warn(f"{path}: cannot be put aside: {error.strerror or error}", stacklevel=3)

    def _sweep(self) -> None:
        """Clear what killed processes left; this one has the folder, so no other is still at work on it."""
        for entry in sorted(self.path.iterdir()):
            replaced = _REPLACED.fullmatch(entry.name)
            if replaced and not (self.path / replaced.group(1)).exists():
                # Killed between two renames: what was to be replaced is whole and has no successor.
                entry.rename(self.path / replaced.group(1))
            elif entry.name.startswith(_TEMPORARY) and entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)

    def _take(self) -> None:
        """Lock the folder; the system gives it free when the process ends, however it ends."""
        name = os.path.realpath(self.path)
        try:
            if name in _locked:
                raise OSError(errno.EAGAIN, "this process has it already")
            _lock_file(self._lock.fileno())
        except OSError as error:
            self._lock.close()
            raise InputError(
                f"{self.path}: another run is writing here; wait for its end or name another --output_dir [E-RUN-LOCKED]"
            ) from error
        _locked.add(name)


def _lock_file(descriptor: int) -> None:
    """Lock a file for this process alone; children that are forked do not hold it."""
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _save_error(path: Path, error: OSError) -> SaveError:
    return save_error(path, error, "earlier checkpoints are")
