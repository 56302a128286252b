"""A model from elsewhere as a checkpoint of this library, with an optimiser that has seen nothing yet."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..dataset.vocab import Vocab
from ..model import BERTLM
from ..trainer import BERTTrainer
from ..trainer.checkpoint import save_checkpoint
from ..trainer.parallel import put_weights
from ..trainer.state import collect

BEGINS_ANEW = "begins_anew"
"""The setting of a checkpoint that names what in it holds nothing learned."""


def write_as_checkpoint(
    path: str | os.PathLike[str], model: BERTLM, vocab: Vocab | None = None, new: Sequence[str] = ()
) -> None:
    """Write a model so that `load_model`, `export_checkpoint` and the scripts read it.

    Args:
        path: The file.
        model: Encoder and heads.
        vocab: Its vocabulary: named in the file, so that another one is refused later.
        new: Tensors that hold nothing learned: named in the file, so that nobody takes what they give for an answer.

    Raises:
        SaveError: The file cannot be written.
    """
    settings: dict[str, object] = {} if vocab is None else {"vocab_sha256": vocab.fingerprint}
    if new:
        settings[BEGINS_ANEW] = list(new)
    trainer = BERTTrainer(model.bert, model.bert.vocab_size, [], with_cuda=False, warmup_steps=0, settings=settings)
    take_weights(trainer, model)
    save_checkpoint(path, collect(trainer))


def take_weights(trainer: BERTTrainer, model: BERTLM) -> None:
    """Give a trainer the weights of a model of its sizes, heads too: it builds new heads by itself.

    Args:
        trainer: Its weights are overwritten, all alike; its optimiser has seen nothing yet.
        model: Where they come from.
    """
    put_weights(trainer.language_model, model.state_dict())
