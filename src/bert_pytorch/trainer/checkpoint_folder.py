"""One checkpoint as a folder of files: tensors, plain values, and a manifest with their sizes and checksums.

| file | content |
|---|---|
| `model.safetensors` | weights |
| `optimizer.safetensors`, `random.safetensors` | moments; states of the generators |
| `config.json`, `trainer_state.json` | sizes of the model; all else: position, schedule, counters, settings |
| `shard-R-...safetensors` | in place of the first two: parts of their tensors, of process R of a sharded run |
| `manifest.json` | sizes and checksums of the others, and its own |
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import __version__
from ..errors import InputError, UnreadableError
from ..files import Writable, sync_folder
from .shards import PREFIX, TIED, assembled
from .state_files import STATE
from .tensor_file import parts_of, tensors_of, write_tensors

FORMAT, VERSION = "bert_pytorch.run", 1
MANIFEST = "manifest.json"

Contents = Mapping[str, Mapping[str, Any]]
"""Files of a checkpoint by name: tensors by name for `*.safetensors`, plain values for `*.json`."""


def write_checkpoint(folder: Path, step: int, contents: Contents) -> None:
    """Make a folder with the files and their manifest, all of it on the disk when this returns.

    What lies there already, as parts of tensors that other processes wrote, belongs to it.

    Raises:
        OSError: It cannot be made, or the disk is full; half of it may be there.
    """
    folder.mkdir(exist_ok=True)
    files = {path.name: _facts_of(path) for path in sorted(folder.iterdir())}
    files |= {name: _write_file(folder / name, content) for name, content in contents.items()}
    manifest = {"format": FORMAT, "version": VERSION, "step": step, "library_version": __version__}
    _write_file(folder / MANIFEST, {**manifest, "saved_at_ns": time.time_ns(), "files": files})
    sync_folder(folder)


def size_of(contents: Contents) -> int:
    """Bytes that the tensors of a checkpoint take; those with two names count once."""
    tensors = {
        (value.data_ptr(), value.shape): value.numel() * value.element_size()
        for content in contents.values()
        for value in content.values()
        if isinstance(value, Tensor)
    }
    return sum(tensors.values())


def check_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Compare the files of a checkpoint with its manifest, which is returned.

    Raises:
        InputError: A file is missing, cut off or changed; the message names it.
    """
    manifest = _read_manifest(Path(path))
    for name in manifest["files"]:
        _read_file(Path(path), name, manifest)
    return manifest


def read_checkpoint(path: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """The contents of a checkpoint, compared with its manifest as they are read; tensors are on the CPU.

    Raises:
        InputError: As `check_checkpoint`.
    """
    folder = Path(path)
    manifest = _read_manifest(folder)
    contents: dict[str, dict[str, Any]] = {}
    parts = []
    for name in manifest["files"]:
        content = _read_file(folder, name, manifest)
        if name.startswith(PREFIX):
            parts.append(parts_of(content, folder / name))
        else:
            contents[name] = json.loads(content) if name.endswith(".json") else tensors_of(content, folder / name)
    if parts:
        tied = contents[STATE].pop(TIED, {})
        contents |= assembled(parts, tied, folder)
    return contents


def is_checkpoint_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a path is such a folder, whole or not."""
    return (Path(path) / MANIFEST).is_file()


def _read_manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        checksum = manifest.pop("sha256")
        if manifest["format"] != FORMAT or checksum != _checksum_of(manifest):
            raise ValueError("its checksum is wrong")
        if manifest["version"] != VERSION:
            version = f"version {manifest['version']}, expected {VERSION}"
            raise InputError(f"{path}: {version}; use the library version that wrote it [E-CHECKPOINT-FORMAT]")
        return manifest
    except OSError as error:
        raise UnreadableError.of(path, error, "use an earlier checkpoint [E-CHECKPOINT-READ]") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: damaged: {error}; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]") from error


def _read_file(folder: Path, name: str, manifest: Mapping[str, Any]) -> bytearray:
    path, expected = folder / name, manifest["files"][name]
    try:
        with open(path, "rb") as file:
            content = bytearray(os.fstat(file.fileno()).st_size)
            file.readinto(content)
    except OSError as error:
        raise UnreadableError.of(path, error, "use an earlier checkpoint [E-CHECKPOINT-READ]") from error
    if len(content) != expected["size"]:
        got = f"{len(content)} bytes, expected {expected['size']}"
        raise InputError(f"{path}: damaged: {got}; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]")
    if hashlib.sha256(content).hexdigest() != expected["sha256"]:
        raise InputError(f"{path}: damaged: its checksum is wrong; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]")
    return content


class _Hashing:
    """A file that adds up the checksum of what is written."""

    def __init__(self, file: Writable) -> None:
        self.file, self.hash, self.size = file, hashlib.sha256(), 0

    def write(self, content: bytes | memoryview, /) -> int:
        self.hash.update(content)
        self.size += memoryview(content).nbytes
        return self.file.write(content)


def _write_file(path: Path, content: Mapping[str, Any]) -> dict[str, object]:
    """Write a file and bring it to the disk; its size and checksum."""
    with open(path, "xb") as file:
        hashing = _Hashing(file)
        if path.suffix == ".json":
            plain = {**content, "sha256": _checksum_of(content)} if path.name == MANIFEST else content
            hashing.write(_json_of(plain))
        else:
            write_tensors(hashing, content)
        file.flush()
        os.fsync(file.fileno())
    return {"size": hashing.size, "sha256": hashing.hash.hexdigest()}


def _facts_of(path: Path) -> dict[str, object]:
    size, checksum = 0, hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            size += len(block)
            checksum.update(block)
    return {"size": size, "sha256": checksum.hexdigest()}


def _json_of(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=1, allow_nan=False).encode("ascii")


def _checksum_of(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode("ascii")).hexdigest()
