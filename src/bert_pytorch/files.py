"""Writing files so that a crash, a full disk or a kill never leaves half of one under its final name."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from .errors import SaveError, UserError


class Writable(Protocol):
    """What bytes can be written to."""

    def write(self, content: bytes | memoryview, /) -> int:
        """Write them."""
        ...


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file beside `path`; flush, sync and rename it over `path` when the block ends well.

    Args:
        path: The final name. Its folder is made when missing. What stands there stays whole until the rename.

    Yields:
        A binary file to write to and to read back.

    Raises:
        SaveError: The folder or the file cannot be written, or the disk is full. The temporary file is removed.
    """
    final = Path(os.path.realpath(path))
    temporary = None
    try:
        _refuse_what_is_no_file(path)
        final.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{final.name}.", suffix=".tmp", dir=final.parent)
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        _set_mode(temporary, final)
        os.replace(temporary, final)
        temporary = None
        sync_folder(final.parent)
    except UserError:
        # Not a fault of this file, but what the block itself has to say.
        raise
    except OSError as error:
        raise save_error(path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Make the folder of `path` and write one byte into it, so that a bad path is known before an hour of work.

    Raises:
        SaveError: Nothing can be written there.
    """
    try:
        folder = Path(path).parent
        folder.mkdir(parents=True, exist_ok=True)
        _refuse_what_is_no_file(path)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        raise save_error(path, error) from error


def _refuse_what_is_no_file(path: str | os.PathLike[str]) -> None:
    """Refuse folders, and devices and pipes, which a rename would replace by a file."""
    is_folder = os.fspath(path).endswith(("/", os.sep))
    if is_folder or (Path(path).exists() and not Path(path).is_file()):
        raise OSError(errno.EINVAL, "is a folder or a device, no file")


def save_error(path: str | os.PathLike[str], error: OSError, whole: str = "what stood there is") -> SaveError:
    """What the system refused, as one line.

    Args:
        path: What could not be written.
        error: Why.
        whole: What is left as it was, with its verb.
    """
    reason = error.strerror or str(error)
    return SaveError(f"{path}: cannot be written: {reason}; free space or name another path, {whole} whole [E-SAVE]")


def _set_mode(temporary: str, final: Path) -> None:
    """Give a file made by mkstemp, which only its owner can read, the mode of the one it replaces, or that of a new one."""
    if final.exists():
        os.chmod(temporary, stat.S_IMODE(final.stat().st_mode))
        return
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(temporary, 0o666 & ~mask)


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can sync a folder (Windows cannot)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
