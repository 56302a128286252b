"""From a corpus file to training examples. Names are resolved on first use: a vocabulary needs no torch."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .dataset import BERTDataset
    from .vocab import WordVocab

__all__ = ["BERTDataset", "WordVocab"]

_HOME_OF = {"BERTDataset": ".dataset", "WordVocab": ".vocab"}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name], __name__), name)
