"""The file an encoded corpus is kept in.

A mark, then arrays, each at a multiple of 64 bytes, then a manifest in JSON, the manifest's length in 8 bytes, and the mark
again: what is cut off has no mark at its end. All numbers are little-endian.

| array | type | content |
|---|---|---|
| `ids` | uint16, int32 beyond 65,536 ids | ids of all texts, line by line, of a line the first text first |
| `offsets` | int32, int64 where needed | where in `ids` each text begins, and the end of the last |
| `hashes` | int64 | of each line, to tell equal lines |
| `order`, `group_start`, `group_size` | int32 | for pairs: lines sorted by their second text (`negatives.Partners`) |
| `word_counts` | int64 | occurrences by id |
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import warnings
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..errors import InputError, UnreadableError
from ..files import Writable

FORMAT, VERSION = "bert_pytorch.encoded", 1
MARK = b"\x93BERTIDS"
TYPES = {"uint16": torch.int16, "int32": torch.int32, "int64": torch.int64}
"""Torch has next to no operations on unsigned 16 bits: these are read as signed, see `examples.Texts`."""
_ALIGNMENT = 64


class ArrayWriter:
    """Writes the parts of the file in order."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin a file."""
        self.file = file
        self.arrays: dict[str, dict[str, object]] = {}
        file.write(MARK)

    @contextmanager
    def array(self, name: str, kind: str) -> Iterator[None]:
        """Note where an array begins, and after the block how long it has become."""
        self.file.write(bytes(-self.file.tell() % _ALIGNMENT))
        start = self.file.tell()
        yield
        count = (self.file.tell() - start) // TYPES[kind].itemsize
        self.arrays[name] = {"type": kind, "offset": start, "count": count}

    def finish(self, manifest: Mapping[str, object]) -> None:
        """Write the manifest and the closing mark."""
        document = {"format": FORMAT, "version": VERSION, **manifest, "arrays": self.arrays}
        content = json.dumps(document, indent=1).encode("ascii")
        self.file.write(content + len(content).to_bytes(8, "little") + MARK)


def is_encoded(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as an encoded corpus does."""
    if not os.path.isfile(path):
        return False  # To open a pipe would wait for its writer.
    try:
        with open(path, "rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False


def read_manifest(path: str) -> dict[str, Any]:
    """Read what an encoded corpus says of itself, and check that all of it is there.

    Raises:
        InputError: The file cannot be read, is cut off, damaged or something else.
    """
    try:
        with open(path, "rb") as file:
            starts_right = file.read(len(MARK)) == MARK
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(MARK) - 8))
            tail = file.read()
            n_bytes = int.from_bytes(tail[:8], "little")
            if not starts_right:
                raise _damaged(path, "it does not begin as one")
            if size < 2 * len(MARK) + 8 or tail[8:] != MARK or n_bytes > size - 2 * len(MARK) - 8:
                raise _damaged(path, "it is cut off")
            file.seek(size - len(MARK) - 8 - n_bytes)
            content = file.read(n_bytes)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    try:
        manifest = json.loads(content)
        if manifest["format"] != FORMAT or manifest["version"] != VERSION:
            raise _damaged(path, f"its version is {manifest['version']!r}, this library reads {VERSION}")
        _check(manifest, size - len(MARK) - 8 - n_bytes)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(path, "its manifest is damaged") from error
    return manifest


def map_array(path: str, manifest: Mapping[str, Any], name: str) -> Tensor:
    """An array of the file, mapped: its pages are read when they are looked at, and shared by all processes."""
    entry = manifest["arrays"][name]
    kind = TYPES[entry["type"]]
    begin = entry["offset"] // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    shift = entry["offset"] - begin
    with open(path, "rb") as file, warnings.catch_warnings():
        mapped = mmap.mmap(file.fileno(), shift + entry["count"] * kind.itemsize, access=mmap.ACCESS_READ, offset=begin)
        # Torch says that it cannot protect the bytes; the system does, and nothing here writes to them.
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(mapped, dtype=kind, count=entry["count"], offset=shift)


def read_array(path: str, manifest: Mapping[str, Any], name: str, starts: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Parts of an array of the file, one after the other."""
    entry = manifest["arrays"][name]
    kind = TYPES[entry["type"]]
    parts = bytearray()
    with open(path, "rb", buffering=0) as file:
        for start, length in zip(starts, lengths, strict=True):
            file.seek(entry["offset"] + start * kind.itemsize)
            parts += file.read(length * kind.itemsize)
    return torch.frombuffer(parts, dtype=kind) if parts else torch.zeros(0, dtype=kind)


def write_tensor(file: Writable, values: Tensor) -> None:
    """Write the numbers of a tensor on the CPU."""
    values = values.contiguous()
    if n_bytes := values.numel() * values.element_size():
        file.write(memoryview((ctypes.c_char * n_bytes).from_address(values.data_ptr())).cast("B"))


def tensor_of(values: array[int]) -> Tensor:
    """A tensor on the numbers of an array; 16-bit ones as signed."""
    kinds = {"H": torch.int16, "I": torch.int32, "i": torch.int32}
    kind = kinds[values.typecode]
    return torch.frombuffer(values, dtype=kind) if values else torch.zeros(0, dtype=kind)


def _check(manifest: Mapping[str, Any], end: int) -> None:
    """Raise one of ValueError, KeyError and TypeError where the manifest does not fit the file."""
    n_lines, n_columns = manifest["n_lines"], manifest["n_columns"]
    counts = {"ids": manifest["n_tokens"], "offsets": n_lines * n_columns + 1, "hashes": n_lines}
    counts["word_counts"] = manifest["vocab"]["size"]
    if n_columns == 2:
        counts |= dict.fromkeys(("order", "group_start", "group_size"), n_lines)
    if n_columns not in (1, 2) or n_lines < 1 or not isinstance(manifest["vocab"]["fingerprint"], str):
        raise ValueError("counts")
    for name, count in counts.items():
        entry = manifest["arrays"][name]
        size = TYPES[entry["type"]].itemsize
        if entry["count"] != count or entry["offset"] < len(MARK) or entry["offset"] + count * size > end:
            raise ValueError(name)
        if entry["offset"] % _ALIGNMENT:
            raise ValueError(name)


def _damaged(path: str, reason: str) -> InputError:
    return InputError(f"{path}: not a whole encoded corpus: {reason}; delete it and encode the corpus again [E-ENCODED-FILE]")
