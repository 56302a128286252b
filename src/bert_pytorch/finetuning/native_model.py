"""The native engine's model: an encoder with its vocabulary from a checkpoint or a hub-style folder, and a head.

Shapes: B sequences, L tokens per sequence.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..dataset.vocab import Vocab
from ..errors import InputError, UnreadableError, UsageError
from ..files import atomic_write
from ..model import (
    BERT,
    BERTLM,
    BERTForQuestionAnswering,
    BERTForSequenceClassification,
    BERTForTokenClassification,
)
from ..model.language_model import NextSentencePrediction
from ..trainer.checkpoint import load_model
from ..trainer.checkpoint_folder import is_checkpoint_folder
from ..trainer.tensor_file import tensors_of, write_tensors
from .labels import LabelMap
from .settings import Settings
from .tasks import ANSWERS, REGRESSION, TOKENS

WEIGHTS, VOCAB = "model.safetensors", "vocab.json"
Head = BERTForSequenceClassification | BERTForTokenClassification | BERTForQuestionAnswering


class Start(NamedTuple):
    """What a run begins from.

    Attributes:
        language_model: The encoder with its pretraining heads, of which the pooler is taken over.
        vocab: Its vocabulary.
    """

    language_model: BERTLM
    vocab: Vocab


def load_start(settings: Settings) -> Start:
    """The model that the settings name.

    Raises:
        InputError: It cannot be read, or its tokenizer is of a kind that this library does not have.
        UsageError: A checkpoint is named without its vocabulary.
    """
    if os.path.isdir(settings.model) and not is_checkpoint_folder(settings.model):
        if settings.vocab is not None:
            message = "vocab has no effect on a model with its own tokenizer; leave it out, or write vocab=null"
            raise UsageError(f"{message} [E-SETTING-CONFLICT]")
        from ..interop.huggingface import load_pretrained

        torch.manual_seed(settings.seed)
        found = load_pretrained(settings.model)
        if found.vocab is None:
            raise InputError(f"{settings.model}: has no tokenizer files; copy them there [E-FINETUNE-MODEL]")
        start = Start(found.model, found.vocab)
    elif os.path.exists(settings.model):
        if settings.vocab is None:
            raise UsageError(f"{settings.model}: a checkpoint needs its vocabulary; set vocab [E-FINETUNE-MODEL]")
        start = Start(load_model(settings.model), Vocab.load_vocab(settings.vocab))
        if len(start.vocab) != start.language_model.bert.vocab_size:
            counts = f"{len(start.vocab)} entries, the model {start.language_model.bert.vocab_size}"
            raise InputError(f"{settings.vocab}: has {counts}; give the one it was trained with [E-FINETUNE-MODEL]")
    else:
        message = "no such file or folder; the native engine takes a checkpoint or a local folder"
        raise InputError(f"{settings.model}: {message} [E-FINETUNE-MODEL]")
    bert = start.language_model.bert
    if settings.length > bert.max_len:
        message = f"takes at most {bert.max_len} tokens, max_length is {settings.length}; lower it"
        raise InputError(f"{settings.model}: {message} [E-FINETUNE-LENGTH]")
    if settings.from_scratch:
        torch.manual_seed(settings.seed)
        sizes: dict[str, Any] = dict(bert.config)
        new = BERT(**sizes)
        start = Start(BERTLM(new, new.vocab_size), start.vocab)
    return start


def make_head(settings: Settings, bert: BERT, labels: LabelMap | None) -> Head:
    """The encoder with a new head of the task, drawn by the run's seed."""
    task, kind = settings.task_and_kind
    n_labels = 1 if labels is None or kind == REGRESSION else len(labels)
    torch.manual_seed(settings.seed)
    if task.name == ANSWERS:
        return BERTForQuestionAnswering(bert)
    if task.name == TOKENS:
        return BERTForTokenClassification(bert, n_labels)
    return BERTForSequenceClassification(bert, n_labels, pooling=settings.pooling)


def take_pooler(model: Head, language_model: BERTLM) -> None:
    """Begin with the pooler of next-sentence training, where there is one: it stands over the first token as this one does."""
    there = language_model.next_sentence
    if (
        isinstance(model, BERTForSequenceClassification)
        and model.pooling == "cls"
        and isinstance(there, NextSentencePrediction)
    ):
        model.pooler.load_state_dict(there.pooler.state_dict())


def freeze(model: Head, settings: Settings) -> int:
    """Keep embeddings and lowest blocks as they are; the number of parameters that still learn.

    Raises:
        InputError: There are not that many blocks.
    """
    bert = model.bert
    if not 0 <= settings.freeze_layers <= bert.n_layers:
        message = f"freeze_layers is {settings.freeze_layers}, the model has {bert.n_layers} layers"
        raise InputError(f"{message}; lower it [E-FINETUNE-SETTING]")
    parts = [bert.embedding] if settings.freeze_embeddings else []
    for part in (*parts, *bert.transformer_blocks[: settings.freeze_layers]):
        part.requires_grad_(False)
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def groups_of(model: Head, learning_rate: float, weight_decay: float, decay: float) -> list[dict[str, Any]]:
    """Parameters by depth, each depth with its rate; norms, biases and small tables do not shrink.

    Args:
        model: Its head has the full rate.
        learning_rate: The peak.
        weight_decay: Of those that shrink.
        decay: The rate of a layer over that of the one above; embeddings are below the first.

    Returns:
        Two groups a depth, those that are empty left out.

    Source: Howard and Ruder 2018 (arXiv 1801.06146), section 3.2.
    """
    top = model.bert.n_layers + 1
    found: dict[tuple[int, bool], list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        depth = top
        if name.startswith("bert.embedding."):
            depth = 0
        elif name.startswith("bert.transformer_blocks."):
            depth = 1 + int(name.split(".")[2])
        is_table = name.endswith(("embedding.position.weight", "embedding.segment.weight"))
        found.setdefault((depth, parameter.dim() >= 2 and not is_table), []).append(parameter)
    return [
        {"params": some, "weight_decay": weight_decay if shrinks else 0.0, "lr": learning_rate * decay ** (top - depth)}
        for (depth, shrinks), some in sorted(found.items(), key=lambda item: item[0])
    ]


def inputs_of(batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Ids and segments `[B, L]` as `BERT.forward` takes them: segments from 1, 0 on padding."""
    return batch["input_ids"], (batch["token_type_ids"] + 1) * batch["attention_mask"]


def save_model(folder: str, model: Head, vocab: Vocab) -> dict[str, Any]:
    """Write weights and vocabulary; what is needed to build the model again.

    Raises:
        SaveError: A file cannot be written.
    """
    with atomic_write(Path(folder) / WEIGHTS) as file:
        write_tensors(file, model.state_dict())
    vocab.save_vocab(Path(folder) / VOCAB)
    return {"bert": model.bert.config}


def load_finetuned(folder: str, settings: Settings, labels: LabelMap | None, head: Mapping[str, Any]) -> tuple[Head, Vocab]:
    """The model of a folder that `save_model` wrote, on the CPU, in evaluation mode.

    Raises:
        InputError: A file is missing or damaged.
    """
    path = Path(folder) / WEIGHTS
    try:
        content = bytearray(path.read_bytes())
    except OSError as error:
        raise UnreadableError.of(path, error, "run finetune.py again [E-FINETUNE-RESULT]") from error
    sizes: dict[str, Any] = dict(head["bert"])
    model = make_head(settings, BERT(**sizes), labels)
    try:
        model.load_state_dict(tensors_of(content, path))
    except RuntimeError as error:
        message = f"{path}: its weights are of another model; run finetune.py again"
        raise InputError(f"{message} [E-FINETUNE-RESULT]") from error
    return model.eval(), Vocab.load_vocab(Path(folder) / VOCAB)
