"""Whole objects as `torch.save` keeps them, in both of its forms, read by an allow-list; nothing is executed.

Form of torch 1.6 and later: a zip archive with `data.pkl` and a file for each storage. Earlier: pickles one after the other -
a mark, a version, facts about the machine, the object, the keys of storages - and then each storage: eight bytes with the
number of its elements, and these.
"""

from __future__ import annotations

import os
import pickle
import pickletools
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch
from torch import Tensor

from ..allow_list import Shell, unpickle
from .weights import check_archive

MAGIC = 0x1950A86A20F9469CFC6C
_TYPES = {
    **{"FloatStorage": torch.float32, "DoubleStorage": torch.float64, "HalfStorage": torch.float16},
    **{"LongStorage": torch.int64, "BFloat16Storage": torch.bfloat16},
}
_N_STORAGES = 100_000


class Slice(NamedTuple):
    """A tensor that a pickle describes."""

    storage: Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]


class Storage(NamedTuple):
    """Where its numbers are."""

    key: str
    kind: str


class Found(NamedTuple):
    """What a file holds."""

    value: object
    """The object, shells for its parts, slices for its tensors."""
    storages: Mapping[str, bytes]

    def tensor(self, part: Slice) -> Tensor:
        """The numbers of a slice.

        Raises:
            ValueError: They do not stand in the file.
        """
        kind = _TYPES[part.storage.kind]
        content = self.storages[part.storage.key]
        sizes = (*part.size, *part.stride, part.offset)
        if len(part.size) != len(part.stride) or not all(type(n) is int and n >= 0 for n in sizes):
            raise ValueError("a tensor has sizes that are no numbers")
        n_there = len(content) // kind.itemsize
        n_elements = torch.Size(part.size).numel()
        last = part.offset + sum((n - 1) * step for n, step in zip(part.size, part.stride, strict=True))
        if n_elements and (last >= n_there or n_elements > n_there):
            raise ValueError(f"a tensor of {list(part.size)} does not stand in the file")
        if not n_elements:
            return torch.empty(part.size, dtype=kind)
        flat = torch.frombuffer(bytearray(content[: n_there * kind.itemsize]), dtype=kind)
        return flat.as_strided(part.size, part.stride, part.offset).clone()


def read_object(path: Path, classes: set[str]) -> Found:
    """The object of a file.

    Args:
        path: The file.
        classes: Full names of the classes that are allowed beside tensors and plain values.

    Raises:
        InputError: A zip archive is not as torch writes it.
        UnpicklingError: It refers to something else. Damage may raise others of `allow_list.UNREADABLE`.
    """
    with open(path, "rb") as file:
        if file.read(4) == b"PK\x03\x04":
            check_archive(path, "E-LEGACY-FILE")
            return _read_archive(path, classes)
        file.seek(0)
        return _read_stream(file, os.fstat(file.fileno()).st_size, classes)


def _read_archive(path: Path, classes: set[str]) -> Found:
    seen: dict[str, Storage] = {}
    with zipfile.ZipFile(path) as archive:
        pickles = [name for name in archive.namelist() if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1:
            raise ValueError("it is no archive of torch")
        value = unpickle(archive.read(pickles[0]), _stand_in(classes), _persistent(seen))
        folder = pickles[0].removesuffix(".pkl")
        return Found(value, {key: archive.read(f"{folder}/{key}") for key in seen})


def _read_stream(file: BinaryIO, size: int, classes: set[str]) -> Found:
    seen: dict[str, Storage] = {}
    stand_in, persistent = _stand_in(classes), _persistent(seen)
    magic, version, _, value, keys = (unpickle(_next_pickle(file), stand_in, persistent) for _ in range(5))
    if magic != MAGIC or version != 1001 or not isinstance(keys, list):
        raise ValueError("it does not begin as a file of torch does")
    storages: dict[str, bytes] = {}
    for key in keys:
        kind = _TYPES[seen[key].kind]
        n_bytes = int.from_bytes(file.read(8), "little") * kind.itemsize
        storages[key] = file.read(n_bytes) if n_bytes <= size - file.tell() else b""
        if len(storages[key]) != n_bytes:
            raise EOFError("it is cut off")
    return Found(value, storages)


def _next_pickle(file: BinaryIO) -> bytes:
    start = file.tell()
    end = next((place for operation, _, place in pickletools.genops(file) if operation.name == "STOP"), None)
    if end is None:
        raise EOFError("it is cut off")
    file.seek(start)
    return file.read(end + 1 - start)


def _persistent(seen: dict[str, Storage]) -> Callable[[object], object]:
    """What stands for storages, and for classes, to which the earlier form adds their source text."""

    def load(said: object) -> object:
        if isinstance(said, tuple) and said[:1] == ("module",) and len(said) > 1:
            return said[1]
        if not isinstance(said, tuple) or len(said) < 5 or said[0] != "storage" or not isinstance(said[1], _Kind):
            raise pickle.UnpicklingError("it refers to something outside itself")
        key = said[2]
        if not isinstance(key, str) or len(seen) > _N_STORAGES or (len(said) > 5 and said[5] is not None):
            raise pickle.UnpicklingError("it refers to a storage that no such file has")
        seen[key] = Storage(key, said[1].kind)
        return seen[key]

    return load


def _stand_in(classes: set[str]) -> Callable[[str, str], Callable[..., object] | None]:
    functions: dict[str, Callable[..., object]] = {
        **{"collections.OrderedDict": OrderedDict, "builtins.set": set, "__builtin__.set": set},
        **{"torch._utils._rebuild_tensor_v2": _tensor, "torch._utils._rebuild_tensor": _tensor},
        **{"torch._utils._rebuild_parameter": _parameter, "torch.Size": tuple},
        # Until torch 1.4 each module named the functions that it computed with.
        "torch.nn.backends.thnn._get_thnn_function_backend": _nothing,
    }

    def find(module: str, name: str) -> Callable[..., object] | None:
        full = f"{module}.{name}"
        if module == "torch" and name in _TYPES:
            return _Kind(name)
        return Shell if full in classes else functions.get(full)

    return find


class _Kind:
    """A kind of storage, which pickles name as a class; nothing can be made of it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self) -> None:
        raise pickle.UnpicklingError("it makes a storage by itself")


def _nothing() -> None:
    return None


def _tensor(storage: Storage, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Slice:
    return Slice(storage, offset, tuple(size), tuple(stride))


def _parameter(data: Slice, *_: object) -> Slice:
    return data
