"""One file with the whole state of a run, and how it is read back.

A file of `torch.save` that holds tensors, numbers, texts, lists and dicts and nothing else, so that `torch.load` reads it under
its safe defaults. Keys: `format`, `version`, `library_version`, `model_config`, `model`, `optimizer`, `schedule`, `random`,
`position`, `settings`.
"""

from __future__ import annotations

import os
import pickle
import random
from typing import Any

import torch

from ..errors import InputError, UnreadableError
from ..files import atomic_write
from ..model import BERT, BERTLM

FORMAT = "bert_pytorch.checkpoint"
VERSION = 1


def save_checkpoint(path: str | os.PathLike[str], state: dict[str, Any]) -> None:
    """Write `state` to `path`, whole or not at all.

    Raises:
        SaveError: The file cannot be written; what stood there is whole.
    """
    with atomic_write(path) as file:
        try:
            torch.save(_on_cpu({"format": FORMAT, "version": VERSION, **state}, {}), file)
        except RuntimeError as error:
            # A full disk reaches us as torch's complaint about its position in the file; the cause stands behind it.
            if isinstance(error.__context__, OSError):
                raise error.__context__ from error
            raise


def _on_cpu(value: object, moved: dict[int, torch.Tensor]) -> object:
    """The same nest of values with every tensor on the CPU, so that a machine without a GPU reads the file too."""
    if isinstance(value, torch.Tensor):
        # Tied weights are one tensor under two names, and stay one.
        return moved.setdefault(value.data_ptr(), value.cpu()) if value.is_cuda else value
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
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-CHECKPOINT-READ]") from error
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path}: holds Python objects, as the whole-model files of bert-pytorch 0.0.1a4 do; nothing was executed, "
            "train again or give a file of this library [E-CHECKPOINT-PICKLE]"
        ) from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{path}: damaged or no checkpoint: {reason}; use an earlier one [E-CHECKPOINT-DAMAGED]") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise InputError(f"{path}: not a checkpoint of this library; give a file written by bert [E-CHECKPOINT-FORMAT]")
    if state.get("version") != VERSION:
        raise InputError(
            f"{path}: checkpoint version {state.get('version')}, this library reads {VERSION}; "
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
    state = load_checkpoint(path)
    bert = BERT(**state["model_config"])
    model = BERTLM(bert, bert.vocab_size)
    model.load_state_dict(state["model"])
    return model.eval()


def find_last(file_path: str | os.PathLike[str]) -> str:
    """The `file_path.epN` with the highest N.

    Raises:
        InputError: There is none.
    """
    folder, prefix = os.path.split(os.fspath(file_path))
    names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
    suffixes = [name.removeprefix(f"{prefix}.ep") for name in names if name.startswith(f"{prefix}.ep")]
    epochs = [int(suffix) for suffix in suffixes if suffix.isdecimal()]
    if not epochs:
        raise InputError(f"{file_path}.ep*: no checkpoint to resume from; start without --resume [E-CHECKPOINT-NONE]")
    return f"{os.fspath(file_path)}.ep{max(epochs)}"


def random_state() -> dict[str, Any]:
    """The state of every generator a training step or a loader may draw from: Python's, torch's, each GPU's."""
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
