"""Files of weights that others wrote, read so that nothing in them is executed and memory stays near the size of the file."""

from __future__ import annotations

import json
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import torch
from torch import Tensor

from ..dataset.encoded_file import write_tensor
from ..errors import InputError, UnreadableError
from ..files import atomic_write
from ..trainer.tensor_file import tensors_of
from .tensorflow import find_checkpoint, read_checkpoint

_NAMES_OF_TYPES = {
    **{torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL"},
    **{torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"},
}
_FILES = ("model.safetensors", "pytorch_model.bin")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+([.-][A-Za-z0-9_]+)*")
_MOST_JSON = 50_000_000
UNREADABLE = (RuntimeError, OSError, EOFError, ValueError, LookupError, AssertionError, AttributeError, TypeError)
"""What torch raises on bytes that are no whole file of its own."""


def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Tensor]) -> None:
    """Write tensors for Transformers and others, whole or not at all.

    Args:
        path: The file.
        tensors: By name, each once.

    Raises:
        SaveError: The file cannot be written.
    """
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, value in tensors.items():
        begin, end = end, end + value.numel() * value.element_size()
        kind = _NAMES_OF_TYPES[value.dtype]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [begin, end]}
    content = json.dumps(header).encode("ascii")
    content += b" " * (-len(content) % 8)
    with atomic_write(path) as file:
        file.write(len(content).to_bytes(8, "little") + content)
        for value in tensors.values():
            write_tensor(file, value.detach().cpu().contiguous())


def read_json(path: Path, code: str) -> dict[str, object]:
    """A JSON object from a file of a hub-style folder.

    Raises:
        InputError: It is missing, too large, or no JSON object; the message ends with `code`.
    """
    try:
        if path.stat().st_size > _MOST_JSON:
            raise InputError(f"{path}: {path.stat().st_size} bytes, expected at most {_MOST_JSON}; give another file [{code}]")
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise UnreadableError.of(path, error, f"give a folder as Transformers saves it [{code}]") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: no whole JSON document; copy the folder again [{code}]") from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(document).__name__}; copy the folder again [{code}]")
    return document


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The weights of a hub-style folder: `model.safetensors` or `pytorch_model.bin`, whole or in parts, or TensorFlow's.

    Raises:
        InputError: There are none, or a file is damaged or hostile; the message names it.
        UnavailableError: They are TensorFlow's, which is not installed.
    """
    for name in _FILES:
        if (folder / name).is_file():
            return read_tensors(folder / name)
        index = folder / f"{name}.index.json"
        if index.is_file():
            return _read_parts(folder, index)
    prefix = find_checkpoint(folder)
    if prefix is not None:
        tensors = read_checkpoint(prefix)
        for name in tensors:
            check_name(prefix, name)
        return tensors
    raise InputError(f"{folder}: has no {' and no '.join(_FILES)}; give a folder as Transformers saves it [E-HUB-WEIGHTS]")


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of one file, on the CPU.

    Raises:
        InputError: It is missing, damaged, or holds something else.
    """
    tensors = _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    for name in tensors:
        check_name(path, name)
    return tensors


def check_name(path: str | os.PathLike[str], name: object) -> None:
    """Refuse a name that no tensor of a model has, such as one that reads as a path.

    Raises:
        InputError: It is one; the message gives it.
    """
    if not isinstance(name, str) or not _PLAIN_NAME.fullmatch(name):
        shown = ascii(name)[:80]
        raise InputError(f"{path}: {shown} is no name of a tensor; do not trust this file, nothing was taken [E-HUB-WEIGHTS]")


def check_archive(path: Path, code: str) -> None:
    """Refuse a zip archive that is not as torch writes it: entries packed, outside their folder, or larger than the file.

    Raises:
        InputError: It is none; the message names the entry.
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (*UNREADABLE, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: damaged: {error}; copy it again [{code}]") from error
    for entry in entries:
        parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
        reason = None
        if entry.compress_type != zipfile.ZIP_STORED:
            reason = "is packed, which torch never does"
        elif ".." in parts or entry.filename.startswith(("/", "\\")):
            reason = "leads out of the archive"
        elif sum(each.file_size for each in entries) > size:
            reason = "claims more bytes than the file has"
        elif parts and parts[-1].endswith(".zip"):
            reason = "is an archive within the archive"
        if reason is not None:
            name = ascii(entry.filename)[:80]
            raise InputError(f"{path}: its entry {name} {reason}; do not trust this file, nothing was taken [{code}]")


def check_extent(path: str | os.PathLike[str], name: object, value: Tensor, code: str) -> None:
    """Refuse a tensor that claims more numbers than stand in the file, which a copy of it would then take.

    Raises:
        InputError: It does.
    """
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise InputError(
            f"{path}: {ascii(name)[:80]} claims {value.numel()} numbers, the file has fewer; copy it again [{code}]"
        )


def _read_parts(folder: Path, index: Path) -> dict[str, Tensor]:
    places = read_json(index, "E-HUB-WEIGHTS").get("weight_map")
    if not isinstance(places, dict):
        raise InputError(f"{index}: has no weight_map; copy the folder again [E-HUB-WEIGHTS]")
    tensors: dict[str, Tensor] = {}
    for name in sorted({str(place) for place in places.values()}):
        if Path(name).name != name or "\\" in name:
            message = f"{index}: names the file {ascii(name)[:80]} outside the folder"
            raise InputError(f"{message}; do not trust this folder, nothing was taken [E-HUB-WEIGHTS]")
        tensors |= read_tensors(folder / name)
    missing = sorted(str(name) for name in places if name not in tensors)
    if missing:
        raise InputError(f"{index}: names {missing[0]}, which no file has; copy the folder again [E-HUB-WEIGHTS]")
    return tensors


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with open(path, "rb") as file:
            content = bytearray(os.fstat(file.fileno()).st_size)
            file.readinto(content)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-HUB-WEIGHTS]") from error
    try:
        return tensors_of(content, path)
    except InputError as error:
        raise InputError(f"{path}: damaged: {error.__cause__}; copy it again [E-HUB-WEIGHTS]") from error


def _read_torch(path: Path) -> dict[str, Tensor]:
    try:
        with open(path, "rb") as file:
            is_zip = file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-HUB-WEIGHTS]") from error
    if is_zip:
        check_archive(path, "E-HUB-WEIGHTS")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Torch warns of the pickle protocol of files that are refused anyway.
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except pickle.UnpicklingError as error:
        reason = "holds Python objects beside tensors; nothing was executed"
        raise InputError(f"{path}: {reason}, give a file of weights alone [E-HUB-WEIGHTS]") from error
    except UNREADABLE as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: damaged or no file of weights: {reason}; copy it again [E-HUB-WEIGHTS]") from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise InputError(f"{path}: expected a dict of tensors alone; give a file of weights [E-HUB-WEIGHTS]")
    for name, value in state.items():
        check_name(path, name)
        check_extent(path, name, value, "E-HUB-WEIGHTS")
    return dict(state)
