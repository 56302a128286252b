"""Pretrain a BERT on a corpus of one's own: vocabulary, data, model, trainer, and the commands `bert` and `bert-vocab`.

Names are resolved on first use, so that work without a model (`bert-vocab`, `--help`) never pays for importing torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .cli import parse_args
    from .dataset import BERTDataset, WordVocab
    from .model import BERT, BERTLM
    from .trainer import BERTTrainer

__version__ = "0.1.0"
__all__ = ["BERT", "BERTLM", "BERTDataset", "BERTTrainer", "WordVocab", "__version__", "parse_args"]

_HOME_OF = {
    "BERT": ".model",
    "BERTLM": ".model",
    "BERTDataset": ".dataset",
    "BERTTrainer": ".trainer",
    "WordVocab": ".dataset",
    "parse_args": ".cli",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name], __name__), name)
