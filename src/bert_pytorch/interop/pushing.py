"""An exported folder to a hub: which files go, and going."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError, TrainingError, UserError
from ..extras import import_extra
from ..trainer.checkpoint_folder import is_checkpoint_folder

STRATEGIES = ("end", "checkpoint", "all_checkpoints")
_ID = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")


def files_to_push(folder: str | os.PathLike[str], strategy: str = "end") -> dict[str, Path]:
    """What would go, by its name there.

    Args:
        folder: An export, with `config.json`. Hidden files never go.
        strategy: As in Transformers: `end`: the model; `checkpoint`: its last `checkpoint-STEP` too, as `last-checkpoint`;
            `all_checkpoints`: all of them.

    Raises:
        InputError: It is no export, or has no checkpoint that is asked for.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file() or is_checkpoint_folder(folder):
        raise InputError(f"{folder}: is no exported model; make one with export.py --to huggingface [E-PUSH-FOLDER]")
    checkpoints = sorted(
        (path for path in folder.glob("checkpoint-*") if path.name[11:].isdecimal() and is_checkpoint_folder(path)),
        key=lambda path: int(path.name[11:]),
    )
    if strategy != "end" and not checkpoints:
        raise InputError(f"{folder}: has no checkpoint-STEP for the strategy {strategy!r}; take 'end' [E-PUSH-FOLDER]")
    chosen = {"end": [], "checkpoint": checkpoints[-1:], "all_checkpoints": checkpoints}[strategy]
    files = {name: path for name, path in _files_in(folder) if not name.startswith("checkpoint-")}
    for path in chosen:
        prefix = "last-checkpoint" if strategy == "checkpoint" else path.name
        files |= {f"{prefix}/{name}": file for name, file in _files_in(path)}
    return files


def push(
    files: dict[str, Path], model_id: str, *, token: str | None = None, private: bool = False, message: str = "Add model"
) -> str:
    """Make the repository where it is missing, and put the files there in one commit; its address.

    Args:
        files: As `files_to_push` gives them.
        model_id: `NAME` or `USER/NAME`.
        token: None: as the hub's own tools keep it.
        private: For a new repository.
        message: Of the commit.

    Raises:
        UnavailableError: The package huggingface_hub is not installed.
        InputError: The hub has no such place for these files.
        TrainingError: The hub cannot be reached.
    """
    check_id(model_id)
    hub: Any = import_extra("huggingface_hub", "huggingface_hub")
    errors: Any = import_extra("huggingface_hub.errors", "huggingface_hub")
    operations = [hub.CommitOperationAdd(path_in_repo=name, path_or_fileobj=str(path)) for name, path in files.items()]
    api = hub.HfApi(token=token)
    try:
        place = api.create_repo(model_id, private=private, exist_ok=True)
        done = api.create_commit(place.repo_id, operations, commit_message=message)
    except (*_raised_by(errors.HfHubHTTPError), errors.LocalTokenNotFoundError, ValueError, OSError) as error:
        raise _failure(model_id, error) from error
    return str(done.commit_url)


def check_id(model_id: str) -> None:
    """Refuse what is no name of a repository.

    Raises:
        InputError: It is none.
    """
    if not _ID.fullmatch(model_id) or ".." in model_id or "--" in model_id:
        raise InputError(f"hub_model_id {ascii(model_id)[:80]}, expected NAME or USER/NAME [E-PUSH-NAME]")


def _raised_by(refusal: type[Exception]) -> tuple[type[Exception], ...]:
    """The hub's refusals, and what its transport raises where there is no answer: it is their base, from whichever package."""
    return refusal, *(each for each in refusal.__mro__ if each.__name__ in ("HTTPError", "RequestException"))


def _failure(model_id: str, error: Exception) -> UserError:
    reason = str(error).strip().partition("\n")[0].encode("ascii", "replace").decode() or type(error).__name__
    return TrainingError(f"{model_id}: the hub refused or was not reached: {reason}; check name, token and network [E-PUSH]")


def _files_in(folder: Path) -> Sequence[tuple[str, Path]]:
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())
    named = [(path.relative_to(folder).as_posix(), path) for path in paths]
    return [(name, path) for name, path in named if not any(part.startswith(".") for part in name.split("/"))]
