"""The pretraining loop, its settings, schedule and checkpoints. Names are resolved on first use: settings need no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .arguments import TrainingArguments
    from .callbacks import EarlyStoppingCallback, TrainerControl, TrainerState
    from .checkpoint import load_checkpoint, load_model
    from .pretrain import BERTTrainer

__all__ = [
    "BERTTrainer",
    "EarlyStoppingCallback",
    "TrainerControl",
    "TrainerState",
    "TrainingArguments",
    "load_checkpoint",
    "load_model",
]

_HOME_OF = {
    "BERTTrainer": ".pretrain",
    "EarlyStoppingCallback": ".callbacks",
    "TrainerControl": ".callbacks",
    "TrainerState": ".callbacks",
    "TrainingArguments": ".arguments",
    "load_checkpoint": ".checkpoint",
    "load_model": ".checkpoint",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name], __name__), name)
