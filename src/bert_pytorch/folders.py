"""Putting a whole folder in place so that a crash or a kill leaves the old one or the new one, never half of either."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .files import save_error, sync_folder

LEFTOVER_SECONDS = 600
"""Age from which a workspace is what a killed process left behind; writing one takes seconds."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn what the system refuses into one line.

    Raises:
        SaveError: Something in the block could not be read or written.
    """
    try:
        yield
    except OSError as error:
        raise save_error(folder, error) from error


@contextmanager
def workspace_beside(folder: Path) -> Iterator[Path]:
    """A temporary folder on the same file system as `folder`, whose parent is made when missing; removed at the end."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        yield path
    finally:
        shutil.rmtree(path)


def put_folder(new: Path, folder: Path) -> None:
    """Give a finished folder, or a link to one, its name. What stood there is removed.

    Args:
        new: The finished folder, on the same file system; it has its final name afterwards.
        folder: The final name.
    """
    if not os.path.lexists(folder):
        os.rename(new, folder)
    elif exchange(new, folder):
        _remove(new)
    else:
        aside = _aside(folder)
        _remove(aside)
        os.rename(folder, aside)
        os.rename(new, folder)
        _remove(aside)
    sync_folder(folder.parent)


def recover_folder(folder: Path) -> None:
    """Bring back what a kill left moved aside, and remove workspaces that killed processes left."""
    aside = _aside(folder)
    if os.path.lexists(aside) and not os.path.lexists(folder):
        os.rename(aside, folder)
    _remove(aside)
    for path in folder.parent.glob(f".{folder.name}.*.tmp"):
        if time.time() - path.lstat().st_mtime > LEFTOVER_SECONDS:
            _remove(path)


def exchange(first: Path, second: Path) -> bool:
    """Swap two names in one step; False where the system cannot. Linux can, on most file systems."""
    swap = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    if swap is None:
        return False
    working_folder, exchange_flag = -100, 2
    names = [os.fsencode(path.absolute()) for path in (first, second)]
    return swap(working_folder, names[0], working_folder, names[1], exchange_flag) == 0


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
