"""One file with the whole state of a run, and how it is read back.

A file of `torch.save` that holds tensors, numbers, texts, lists and dicts and nothing else, so that `torch.load` reads it under
its safe defaults. Its keys: `format`, `version` and `KEYS`.
"""

from __future__ import annotations

import os
import pickle
import time
import warnings
import zipfile
from collections.abc import Mapping
from typing import Any

import torch

from ..errors import InputError, UnreadableError
from ..files import atomic_write
from ..model import BERT, BERTLM
from .checkpoint_folder import is_checkpoint_folder, read_checkpoint
from .parallel import put_weights
from .state_files import from_files

FORMAT = "bert_pytorch.checkpoint"
VERSION = 1
KEYS = {
    *("library_version", "saved_at_ns", "model_config", "model", "optimizer", "schedule"),
    *("random", "pass_start_random", "position", "n_threads", "settings"),
}
_UNREADABLE = (RuntimeError, OSError, EOFError, ValueError, LookupError, AssertionError, AttributeError, TypeError)
"""What torch raises on bytes that are no whole file of its own."""


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`, whole or not at all.

    Raises:
        SaveError: The file cannot be written; what stood there is whole.
    """
    with atomic_write(path) as file:
        try:
            torch.save(_on_cpu({"format": FORMAT, "version": VERSION, "saved_at_ns": time.time_ns(), **state}, {}), file)
        except RuntimeError as error:
            # A full disk reaches us as torch's complaint about its position in the file; the cause stands behind it.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _on_cpu(value: object, moved: dict[tuple[object, ...], torch.Tensor]) -> object:
    """The same nest of values with every tensor on the CPU, so that a machine without a GPU reads the file too."""
    if isinstance(value, torch.Tensor):
        if not value.is_cuda:
            return value
        # Tied weights are one tensor under two names, and stay one.
        return moved.setdefault((value.data_ptr(), value.shape, value.stride(), value.dtype), value.cpu())
    if isinstance(value, dict):
        return {key: _on_cpu(each, moved) for key, each in value.items()}
    if isinstance(value, list):
        return [_on_cpu(each, moved) for each in value]
    return value


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint into CPU memory; nothing in the file is executed.

    Raises:
        InputError: The file is missing, damaged, or not a checkpoint of this library.
    """
    if is_checkpoint_folder(path):
        return _read_folder(path)
    state = _read(path)
    # torch.load does not compare the checksums in the file, and would take flipped bits for weights.
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except (*_UNREADABLE, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: damaged: its table of contents: {error}; use an earlier one [E-CHECKPOINT-DAMAGED]"
        ) from error
    if damaged is not None:
        raise InputError(f"{path}: damaged: the checksum of {damaged} is wrong; use an earlier one [E-CHECKPOINT-DAMAGED]")
    return state


def _read_folder(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        return from_files(read_checkpoint(path))
    except KeyError as error:
        raise InputError(f"{path}: lacks {error}; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]") from error


def _read(path: str | os.PathLike[str], mmap: bool = False) -> dict[str, Any]:
    """Read a checkpoint without looking at its checksums; with `mmap` the weights stay in the file until they are used."""
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-CHECKPOINT-READ]") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Torch warns of the pickle protocol of files that are refused anyway.
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap and zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: holds Python objects, as the whole-model files of bert-pytorch 0.0.1a4 do; nothing was executed, "
            "train again or give a file of this library [E-CHECKPOINT-PICKLE]"
        ) from error
    except _UNREADABLE as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path}: damaged or no checkpoint: {reason}; use an earlier one [E-CHECKPOINT-DAMAGED]") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path}: not a checkpoint of this library; give a file written by bert [E-CHECKPOINT-FORMAT]")
    if state.get("version") != VERSION or not state.keys() >= KEYS:
        lacks = ", ".join(sorted(KEYS - state.keys())) or "nothing"
        raise InputError(
            f"{path}: checkpoint of version {state.get('version')} that lacks {lacks}, expected version {VERSION}; "
            "use the library version that wrote it [E-CHECKPOINT-FORMAT]"
        )
    return state


def check_same_model(
    path: str | os.PathLike[str], state: dict[str, Any], config: dict[str, Any], settings: dict[str, Any]
) -> None:
    """Compare a checkpoint's sizes with a model's `config`, and its vocabulary with the one named in `settings`.

    Raises:
        InputError: They differ; the message lists each size.
    """
    there = state["model_config"]
    names = [name for name in {**there, **config} if there.get(name) != config.get(name)]
    if names:
        differences = "; ".join(f"{name} {there.get(name)} there, {config.get(name)} here" for name in names)
        raise InputError(f"{path}: is of another model: {differences}; build the same one [E-RESUME-MODEL]")
    hashes = {state["settings"].get("vocab_sha256"), settings.get("vocab_sha256")} - {None}
    if len(hashes) > 1:
        raise InputError(f"{path}: was trained with another vocabulary; give --vocab_path that one [E-RESUME-VOCAB]")


def load_model(path: str | os.PathLike[str]) -> BERTLM:
    """The model of a checkpoint, on the CPU, in evaluation mode; `.bert` is its encoder.

    Raises:
        InputError: As `load_checkpoint`.
    """
    return model_of(path, load_checkpoint(path))


def model_of(path: str | os.PathLike[str], state: Mapping[str, Any]) -> BERTLM:
    """The model of a checkpoint that `load_checkpoint` has read from `path`, as `load_model` gives it.

    Raises:
        InputError: Its sizes and its weights do not fit.
    """
    try:
        bert = BERT(**state["model_config"])
    except TypeError as error:
        raise InputError(
            f"{path}: no sizes this library knows: {error}; use the version that wrote it [E-CHECKPOINT-FORMAT]"
        ) from error
    model = BERTLM(bert, bert.vocab_size)
    load_weights(path, model, state["model"])
    return model.eval()


def load_weights(path: str | os.PathLike[str], model: BERTLM, weights: dict[str, torch.Tensor]) -> None:
    """Put a checkpoint's weights into a model of its sizes.

    Raises:
        InputError: Names or sizes of the weights do not fit; the model is as it was.
    """
    there = {name: tuple(value.shape) for name, value in weights.items()}
    here = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    wrong = sorted(name for name in {**there, **here} if there.get(name) != here.get(name))
    if wrong:
        raise InputError(f"{path}: its weights do not fit its sizes: {wrong[0]}; use an earlier one [E-CHECKPOINT-DAMAGED]")
    put_weights(model, weights)


def list_checkpoints(file_path: str | os.PathLike[str]) -> list[str]:
    """Every `file_path.epN` there is."""
    folder, prefix = os.path.split(os.fspath(file_path))
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    epochs = [name.removeprefix(f"{prefix}.ep") for name in names if name.startswith(f"{prefix}.ep")]
    return [f"{os.fspath(file_path)}.ep{epoch}" for epoch in sorted(epochs) if epoch.isdecimal()]


def find_last(file_path: str | os.PathLike[str]) -> str:
    """The `file_path.epN` that was saved last, by the time that stands in the file.

    Neither the highest N (an older and longer run may have left it) nor the file's own time (copying changes it) tells.

    Raises:
        InputError: There is none that can be read.
    """
    saved: dict[int, str] = {}
    for path in list_checkpoints(file_path):
        try:
            saved[_read(path, mmap=True)["saved_at_ns"]] = path
        except InputError as error:
            warnings.warn(f"left out: {error}", stacklevel=2)
    if not saved:
        raise InputError(f"{file_path}.ep*: no checkpoint to resume from; start without --resume [E-CHECKPOINT-NONE]")
    return saved[max(saved)]
