"""What is in a file or a folder of a model, told without executing anything in it."""

from __future__ import annotations

import os
import pickle
import pickletools
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..allow_list import UNREADABLE
from ..dataset.vocab import Vocab
from ..errors import InputError, UnreadableError
from ..trainer.checkpoint import load_checkpoint
from ..trainer.checkpoint_folder import is_checkpoint_folder
from .huggingface import load_pretrained
from .legacy import VOCAB_CLASSES, load_old_model, load_old_vocab
from .weights import check_archive, read_tensors

_MOST_PICKLE = 64_000_000
_KEPT = ("library_version", "position", "n_threads", "settings", "arguments")

Facts = dict[str, object]


def inspect(path: str | os.PathLike[str]) -> Facts:
    """The facts of a checkpoint, a hub-style folder, a file of tensors, an old file or a vocabulary.

    `kind` says which: `checkpoint`, `hub-folder`, `tensors`, `old-model`, `old-vocabulary`, `vocabulary`, `torchscript`, or
    `objects`: a pickle of anything else, of which only the names it refers to are told.

    Raises:
        InputError: It cannot be read, is damaged, or is none of these.
    """
    path = Path(path)
    if path.is_dir():
        return _of_checkpoint(path) if is_checkpoint_folder(path) else _of_hub_folder(path)
    try:
        with open(path, "rb") as file:
            start = file.read(16)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    if path.suffix == ".safetensors":
        return {"kind": "tensors", **_of_tensors(read_tensors(path))}
    if start.startswith(b"PK"):
        if (n_entries := _count_code(path)) is not None:
            return {"kind": "torchscript", "entries": n_entries}
        check_archive(path, "E-INSPECT-FILE")
    elif not start.startswith(b"\x80"):
        return {"kind": "vocabulary", **_of_vocab(Vocab.load_vocab(path))}
    names = names_in(path)
    if _is_checkpoint(names, path):
        return _of_checkpoint(path)
    if any(name.startswith("bert_pytorch.model.") for name in names):
        model, new = load_old_model(path)
        return {"kind": "old-model", "sizes": model.bert.config, "without": new, **_of_tensors(model.bert.state_dict())}
    if any(name.rpartition(".")[2] in VOCAB_CLASSES for name in names):
        return {"kind": "old-vocabulary", **_of_vocab(load_old_vocab(path))}
    if all(name.startswith(("torch.", "collections.OrderedDict")) for name in names) and start.startswith(b"PK"):
        return {"kind": "tensors", **_of_tensors(read_tensors(path))}
    return {"kind": "objects", "refers_to": names}


def names_in(path: Path) -> list[str]:
    """The classes and functions that a pickle, or one in an archive, refers to by name; sorted.

    Raises:
        InputError: It is cut off, damaged, or too large.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                pickles = [entry for entry in archive.infolist() if entry.filename.endswith(".pkl")]
                if len(pickles) != 1 or pickles[0].file_size > _MOST_PICKLE:
                    raise ValueError(f"{len(pickles)} pickles in it, expected one of at most {_MOST_PICKLE} bytes")
                contents = [archive.read(pickles[0])]
        else:
            with open(path, "rb") as file:
                contents = [file.read(_MOST_PICKLE)]
        return sorted({name for content in contents for name in _names_of(content)})
    except (*UNREADABLE, OSError, zipfile.BadZipFile) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: damaged: {reason}; nothing was executed, copy it again [E-INSPECT-FILE]") from error


def _names_of(content: bytes) -> set[str]:
    """By GLOBAL, or by STACK_GLOBAL from the two texts put last, which a memo may hold."""
    names: set[str] = set()
    start, n_pickles = 0, 0
    # A file of torch before 1.6 is five pickles, and numbers.
    while start < len(content) and n_pickles < 5:
        texts: list[str] = []
        memo: dict[object, str] = {}
        n_memo = 0
        end = None
        for operation, argument, place in pickletools.genops(content[start:]):
            if operation.name in ("GLOBAL", "INST"):
                names.add(str(argument).replace(" ", "."))
            elif operation.name == "STACK_GLOBAL":
                names.add(".".join(texts[-2:]))
            elif "UNICODE" in operation.name:
                texts.append(str(argument))
            elif operation.name == "MEMOIZE":
                memo[n_memo] = texts[-1] if texts else ""
                n_memo += 1
            elif operation.name in ("PUT", "BINPUT", "LONG_BINPUT"):
                memo[argument] = texts[-1] if texts else ""
            elif operation.name in ("GET", "BINGET", "LONG_BINGET"):
                texts.append(memo.get(argument, ""))
            elif operation.name == "STOP":
                end = place
        if end is None:
            raise pickle.UnpicklingError("it is cut off")
        start, n_pickles = start + end + 1, n_pickles + 1
        if not content[start : start + 1] == b"\x80":
            break
    return names


def _is_checkpoint(names: list[str], path: Path) -> bool:
    if not zipfile.is_zipfile(path) or any(not name.startswith(("torch.", "collections.OrderedDict")) for name in names):
        return False
    try:
        return load_checkpoint(path)["format"] is not None
    except InputError as error:
        if error.code == "E-CHECKPOINT-FORMAT":
            return False
        raise


def _count_code(path: Path) -> int | None:
    """The entries of an archive that holds a program of TorchScript; None: it holds none."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (*UNREADABLE, OSError, zipfile.BadZipFile):
        return None
    return len(names) if any("/code/" in name for name in names) else None


def _of_checkpoint(path: Path) -> Facts:
    state = load_checkpoint(path)
    facts: Facts = {"kind": "checkpoint", "sizes": state["model_config"], **_of_tensors(state["model"])}
    facts["steps"] = state["schedule"].get("n_current_steps")
    return facts | {name: state[name] for name in _KEPT if name in state and _is_plain(state[name])}


def _of_hub_folder(path: Path) -> Facts:
    found = load_pretrained(path)
    facts: Facts = {"kind": "hub-folder", "sizes": found.model.bert.config}
    facts |= {"begins_anew": found.new, "left_out": found.left_out}
    facts |= {} if found.vocab is None else _of_vocab(found.vocab)
    return facts | _of_tensors(found.model.state_dict())


def _of_tensors(tensors: Mapping[str, Tensor]) -> Facts:
    unique = {(value.data_ptr(), value.shape): value for value in tensors.values()}
    return {
        "parameters": sum(value.numel() for value in unique.values()),
        "dtypes": sorted({str(value.dtype).removeprefix("torch.") for value in tensors.values()}),
        "not_finite": sorted(k for k, v in tensors.items() if v.is_floating_point() and not bool(torch.isfinite(v).all())),
        "tensors": {name: list(value.shape) for name, value in tensors.items()},
    }


def _of_vocab(vocab: Vocab) -> Facts:
    return {"vocab_size": len(vocab), "vocab_kind": type(vocab).__name__, "vocab_sha256": vocab.fingerprint}


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_plain(each) for each in value.values())
    return isinstance(value, (str, int, float, type(None)))
