"""What a run leaves: figures, counts, and a folder that predict.py, evaluate.py and others read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import InputError, UnreadableError
from ..files import atomic_write
from .labels import LabelMap
from .metrics import Figures
from .settings import Settings, settings_of

FILE = "finetune.json"
FORMAT, VERSION = "bert_pytorch.finetuned", 1
_SECRET = ("hub_token", "push_to_hub_token")


@dataclass
class Result:
    """How a run ended.

    Attributes:
        figures: Of the last evaluation, with the prefixes `eval_` and `test_`.
        facts: Steps, seconds and counts.
        notices: Lines for the user, such as old names of settings.
        history: What was logged, step by step.
        is_stopped: Whether it ended before its plan did.
    """

    figures: Figures
    facts: dict[str, object]
    notices: list[str] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    is_stopped: bool = False


class Observer(Protocol):
    """Who looks on at a run's evaluations."""

    def evaluated(self, figures: Mapping[str, float], step: int) -> bool:
        """Take note of an evaluation; whether the run is to end."""
        ...


@dataclass(frozen=True)
class Finetuned:
    """A folder of a fine-tuned model.

    Attributes:
        folder: Where it lies.
        settings: Of the run that made it.
        labels: The labels, where the task has any.
        head: Of the native engine the sizes of encoder and head; empty otherwise.
    """

    folder: str
    settings: Settings
    labels: LabelMap | None
    head: Mapping[str, Any]


def write_finetuned(settings: Settings, labels: LabelMap | None, head: Mapping[str, Any], report: Mapping[str, object]) -> None:
    """Say in the run's folder what the model in it is.

    Raises:
        SaveError: It cannot be written.
    """
    kept = {name: value for name, value in asdict(settings).items() if value is not None}
    kept["training"] = {name: value for name, value in settings.training.items() if name not in _SECRET}
    document = {
        **{"format": FORMAT, "version": VERSION, "settings": kept, "head": dict(head)},
        "labels": None if labels is None else list(labels.names),
        "report": {name: plain(value) for name, value in report.items()},
    }
    with atomic_write(Path(settings.output_dir) / FILE) as file:
        file.write(json.dumps(document, indent=1).encode("ascii") + b"\n")


def read_finetuned(folder: str) -> Finetuned:
    """Read what `write_finetuned` wrote.

    Raises:
        InputError: It is no folder of a finished run.
    """
    path = Path(folder) / FILE
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["version"] != VERSION:
            raise ValueError(f"version {document['version']}, expected {VERSION}")
        names = document["labels"]
        settings = settings_of({**document["settings"], "output_dir": folder, "resume_from_checkpoint": None})
        return Finetuned(folder, settings, None if names is None else LabelMap(names), document["head"])
    except OSError as error:
        raise UnreadableError.of(path, error, "give the output_dir of a finished finetune.py [E-FINETUNE-RESULT]") from error
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: damaged: {error}; run finetune.py again [E-FINETUNE-RESULT]") from error


def plain(value: object) -> object:
    """A value that JSON can hold: numbers that are not finite become none."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
