"""A model from elsewhere as a checkpoint of this library, with an optimiser that has seen nothing yet."""

from __future__ import annotations

import os

from ..dataset.vocab import Vocab
from ..model import BERTLM
from ..trainer import BERTTrainer
from ..trainer.checkpoint import save_checkpoint
from ..trainer.state import collect


def write_as_checkpoint(path: str | os.PathLike[str], model: BERTLM, vocab: Vocab | None = None) -> None:
    """Write a model so that `load_model`, `export_checkpoint` and the scripts read it.

    Args:
        path: The file.
        model: Encoder and heads.
        vocab: Its vocabulary: named in the file, so that another one is refused later.

    Raises:
        SaveError: The file cannot be written.
    """
    settings = {} if vocab is None else {"vocab_sha256": vocab.fingerprint}
    trainer = BERTTrainer(model.bert, model.bert.vocab_size, [], with_cuda=False, warmup_steps=0, settings=settings)
    take_heads(trainer, model)
    save_checkpoint(path, collect(trainer))


def take_heads(trainer: BERTTrainer, model: BERTLM) -> None:
    """Give a trainer, built on `model.bert`, the heads of `model` too: it builds new ones by itself.

    Args:
        trainer: Its weights are overwritten, all alike.
        model: Where they come from.
    """
    trainer.language_model.load_state_dict(model.state_dict())
