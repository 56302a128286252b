"""Models and tokenizers of Transformers: of a local folder, of the hub where allowed, or of a checkpoint of this project."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ..errors import InputError, UsageError
from ..extras import import_extra
from ..trainer.checkpoint_folder import is_checkpoint_folder
from .encoders import FastEncoder
from .foreign import HubConfig, HubTokenizer
from .labels import LabelMap
from .settings import Settings
from .tasks import CAUSAL, CLASSIFICATION, MASKED, REGRESSION, TOKENS

EXPORTED = "exported"
"""Folder within the run's that holds a checkpoint of this project in Transformers' form."""


class HubModel(NamedTuple):
    """A model of Transformers with its tokenizer.

    Attributes:
        model: With the head of the task.
        tokenizer: Transformers' own.
        encoder: The same tokenizer as this library uses it.
    """

    model: Any
    tokenizer: HubTokenizer
    encoder: FastEncoder

    @property
    def with_types(self) -> bool:
        """Whether the model takes segments."""
        return "token_type_ids" in self.tokenizer.model_input_names


def is_checkpoint(path: str) -> bool:
    """Whether a path is a checkpoint of this project: a file, or a `checkpoint-STEP` folder."""
    return Path(path).is_file() or is_checkpoint_folder(path)


def as_folder(settings: Settings) -> str:
    """The model as a folder or name that Transformers loads; a checkpoint is exported into the run's folder.

    Raises:
        UsageError: A checkpoint has no vocabulary beside it, or one is named without need.
        InputError: There is no such folder, and a hub name is not allowed.
    """
    if is_checkpoint(settings.model):
        if settings.vocab is None:
            raise UsageError(f"{settings.model}: a checkpoint needs its vocabulary; set vocab [E-FINETUNE-MODEL]")
        from ..interop.huggingface import export_checkpoint

        folder = Path(settings.output_dir) / EXPORTED
        export_checkpoint(settings.model, settings.vocab, str(folder))
        return str(folder)
    if settings.vocab is not None:
        message = "vocab has no effect on a model with its own tokenizer; leave it out, or write vocab=null"
        raise UsageError(f"{message} [E-SETTING-CONFLICT]")
    if os.path.isdir(settings.model) or settings.allow_network:
        return settings.model
    message = "no such file or folder; a hub name needs allow_network"
    raise InputError(f"{settings.model}: {message} [E-FINETUNE-MODEL]")


@contextmanager
def errors_alone() -> Iterator[None]:
    """Let Transformers log errors and nothing less; afterwards it logs as before.

    Raises:
        UnavailableError: transformers is not installed.
    """
    logging = import_extra("transformers", "transformers").logging
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)


def load_hub_model(settings: Settings, labels: LabelMap | None, folder: str | None = None) -> HubModel:
    """The model of a task, with its labels in its configuration.

    Args:
        settings: Task and model.
        labels: The labels, where the task has any.
        folder: Where to load from in place of the settings' model.

    Raises:
        InputError: It cannot be loaded, has no such head, or is too short for `max_length`.
        UnavailableError: transformers is not installed.
    """
    transformers = import_extra("transformers", "transformers")
    name = as_folder(settings) if folder is None else folder
    local = not settings.allow_network
    task, kind = settings.task_and_kind
    try:
        tokenizer = _load_tokenizer(transformers, name, task.name, local)
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=local)
        if labels is not None:
            config.num_labels = len(labels)
            config.id2label, config.label2id = labels.id2label, labels.label2id
        if task.name == CLASSIFICATION:
            config.problem_type = kind
            config.num_labels = 1 if kind == REGRESSION else config.num_labels
        if getattr(config, "pad_token_id", None) is None and task.name in (CLASSIFICATION, CAUSAL):
            config.pad_token_id = tokenizer.pad_token_id
        make = getattr(transformers, task.model_class)
        transformers.set_seed(settings.seed)
        if settings.from_scratch and folder is None:
            model = make.from_config(config)
        else:
            has_new = labels is not None  # The head of another number of labels begins anew.
            model = make.from_pretrained(name, config=config, local_files_only=local, ignore_mismatched_sizes=has_new)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{name}: cannot be loaded for {task.name}: {reason} [E-FINETUNE-MODEL]") from error
    if len(tokenizer) > config.vocab_size:
        model.resize_token_embeddings(len(tokenizer))
    _check_fit(name, settings, config, tokenizer)
    return HubModel(model, tokenizer, _encoder_of(name, tokenizer))


def _load_tokenizer(transformers: ModuleType, name: str, task: str, local: bool) -> HubTokenizer:
    """Words that are given one by one begin with a space, for tokenizers to which that matters."""
    options = {"add_prefix_space": True} if task == TOKENS else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, local_files_only=local, **options)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    return tokenizer


def _check_fit(name: str, settings: Settings, config: HubConfig, tokenizer: HubTokenizer) -> None:
    task = settings.task_and_kind[0].name
    most = getattr(config, "max_position_embeddings", None)
    most = min([n for n in (most, tokenizer.model_max_length) if isinstance(n, int) and 0 < n < 1 << 20], default=None)
    if most is not None and settings.length > most:
        message = f"takes at most {most} tokens, max_length is {settings.length}; lower it"
        raise InputError(f"{name}: {message} [E-FINETUNE-LENGTH]")
    if task == MASKED and tokenizer.mask_token_id is None:
        raise InputError(f"{name}: its tokenizer has no mask, which masked-lm needs; give another model [E-FINETUNE-MODEL]")


def _encoder_of(name: str, tokenizer: HubTokenizer) -> FastEncoder:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise InputError(f"{name}: its tokenizer tells no offsets; give a model with a tokenizer.json [E-FINETUNE-MODEL]")
    document = backend.to_str()
    adds_none = backend.num_special_tokens_to_add(False) == 0
    return FastEncoder(document, int(tokenizer.pad_token_id or 0), tokenizer.eos_token_id if adds_none else None)
