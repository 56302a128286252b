"""Files elsewhere, `s3://bucket/name` and the like, through fsspec; what is fetched lies in a local folder of bounded size."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import InputError, SaveError, UnavailableError, UnreadableError
from ..extras import import_extra
from ..files import atomic_write

_CHUNK_BYTES = 1 << 20
SUFFIX = ".tokens"


def is_remote(path: str | os.PathLike[str]) -> bool:
    """Whether a path begins with a protocol, as `s3://` does."""
    return re.match(r"[a-z][a-z0-9+.-]+://", os.fspath(path)) is not None


def beside(path: str, name: str) -> str:
    """The path of another file in the folder of `path`; a whole path stays."""
    if is_remote(name) or os.path.isabs(name):
        return name
    return f"{path.rpartition('/')[0]}/{name}" if is_remote(path) else os.path.join(os.path.dirname(path), name)


def sha256_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a local file.

    Raises:
        UnreadableError: It cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    return digest.hexdigest()


def read_file(path: str) -> bytes:
    """The content of a small file, here or elsewhere.

    Raises:
        UnreadableError: It cannot be read.
    """
    if not is_remote(path):
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    system, inner = _system(path)
    try:
        return system.cat_file(inner)
    except OSError as error:
        raise _unreadable(path, error) from error


def exists(path: str) -> bool:
    """Whether there is such a file, here or elsewhere."""
    if not is_remote(path):
        return os.path.exists(path)
    system, inner = _system(path)
    try:
        return system.exists(inner)
    except OSError as error:
        raise _unreadable(path, error) from error


def send(local: str, path: str) -> None:
    """Put a local file elsewhere.

    Raises:
        SaveError: That cannot be.
    """
    system, inner = _system(path)
    try:
        system.makedirs(system._parent(inner), exist_ok=True)
        system.put_file(local, inner)
    except OSError as error:
        reason = error.strerror or error
        raise SaveError(f"{path}: cannot be written: {reason}; see that this account may write there [E-SAVE]") from error


def fetch(path: str, folder: str | os.PathLike[str]) -> str:
    """The local copy of a single file elsewhere, fetched where there is none of this state of it.

    Args:
        path: The file.
        folder: Where copies are kept.

    Raises:
        UnreadableError: It cannot be read.
        SaveError: The copy cannot be written.
    """
    system, inner = _system(path)
    try:
        info = system.info(inner)
    except OSError as error:
        raise _unreadable(path, error) from error
    names = ("size", "ETag", "etag", "md5Hash", "generation", "mtime", "LastModified", "last_modified", "created")
    state = repr([path, *(info.get(name) for name in names)])
    name = path.rpartition("/")[2]
    local = Path(folder, f"{hashlib.sha256(state.encode()).hexdigest()[:12]}-{name}")
    with _alone(local):
        if not local.exists():
            _copy(path, local)
    return str(local)


class Cache:
    """A folder of fetched shards, named by what is in them; the one used longest ago goes when another needs its room."""

    def __init__(self, folder: str | os.PathLike[str], limit_bytes: int) -> None:
        """Use this folder; several processes may.

        Args:
            folder: In its subfolder `shards` they lie, and nothing else does.
            limit_bytes: Most that the shards in it take; one shard is kept whatever its size.
        """
        self.folder, self.limit_bytes = os.path.join(folder, "shards"), limit_bytes

    def get(self, path: str, n_bytes: int, sha256: str) -> str:
        """The local copy of a shard, fetched and checked where there is none.

        Raises:
            InputError: It is not there, or is another one than the manifest says.
            SaveError: The copy cannot be written.
        """
        local = Path(self.folder, f"{sha256[:20]}{SUFFIX}")
        with _alone(local):
            if not (local.is_file() and local.stat().st_size == n_bytes):
                self._make_room(n_bytes)
                _copy(path, local, sha256)
            os.utime(local)
        return str(local)

    def _make_room(self, n_bytes: int) -> None:
        there: list[tuple[float, int, Path]] = []
        for each in Path(self.folder).glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):  # Another process makes room too.
                there.append((each.stat().st_mtime, each.stat().st_size, each))
        taken = sum(size for _, size, _ in there) + n_bytes
        for _, size, each in sorted(there):
            if taken <= self.limit_bytes:
                break
            # Whoever has it mapped keeps what it reads.
            each.unlink(missing_ok=True)
            taken -= size


def _copy(path: str, local: Path, sha256: str | None = None) -> None:
    """Fetch a file; nothing stands under its local name before it is whole and the right one."""
    system, inner = _system(path)
    digest = hashlib.sha256()
    try:
        source = system.open(inner, "rb")
    except OSError as error:
        if sha256 is not None and isinstance(error, FileNotFoundError):
            raise missing(path) from error
        raise _unreadable(path, error) from error
    with source, atomic_write(local) as file:
        while chunk := _read(source, path):
            digest.update(chunk)
            file.write(chunk)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise damaged(path, f"its SHA-256 is {digest.hexdigest()[:12]}..., expected {sha256[:12]}...")


def _read(source: BinaryIO, path: str) -> bytes:
    try:
        return source.read(_CHUNK_BYTES)
    except OSError as error:
        raise _unreadable(path, error) from error


def damaged(path: str, reason: str) -> InputError:
    """The error for a shard that is another one than its manifest says."""
    return InputError(f"{path}: not the shard of the manifest: {reason}; copy it again, or encode again [E-SHARD-DAMAGED]")


def missing(path: str) -> UnreadableError:
    """The error for a shard that is not there."""
    error = FileNotFoundError(2, "No such file or directory")
    return UnreadableError.of(path, error, "its manifest names it: copy all shards [E-SHARD-MISSING]")


def _system(path: str) -> tuple[Any, str]:
    """The file system of a path, and the path in it."""
    core = import_extra("fsspec.core", "fsspec")
    try:
        return core.url_to_fs(path)
    except ImportError as error:
        raise UnavailableError(f"{path}: {error}; install what it names with pip [E-DEPENDENCY]") from error
    except ValueError as error:
        raise InputError(f"{path}: {error}; expected s3://, gs://, ... or a local path [E-REMOTE-READ]") from error


def _unreadable(path: str, error: OSError) -> UnreadableError:
    return UnreadableError.of(path, error, "check the path, the account and the network [E-REMOTE-READ]")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process of this machine at a time fetch a file."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    lock = path.with_name(f".{path.name}.lock")
    with ExitStack() as stack:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(lock, "ab"))
        except OSError as error:
            reason = error.strerror or error
            raise SaveError(f"{path.parent}: cannot be written: {reason}; name another --cache_dir [E-SAVE]") from error
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
