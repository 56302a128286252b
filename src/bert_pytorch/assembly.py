"""From the flags of `bert` to loaders, a model and its trainer."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from .devices import check_device
from .errors import InputError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

    from .dataset import BERTDataset
    from .dataset.loader import BatchLoader
    from .dataset.vocab import Vocab
    from .model import BERT, BERTLM
    from .trainer import BERTTrainer
    from .trainer.arguments import TrainingArguments

_BATCH_SETTINGS = ("tokens_per_batch", "group_by_length", "packing", "pad_to_multiple_of")
"""What decides the batches, beside their size; what decides the examples, the dataset tells the trainer."""
_FLAGS = {
    **{"num_train_epochs": "epochs", "learning_rate": "lr", "weight_decay": "adam_weight_decay", "logging_steps": "log_freq"},
}
"""Flags that `bert` has under an older name, by that of the setting."""
SIZES = {
    **{"hidden": ("hidden", 256), "layers": ("n_layers", 8), "attn_heads": ("attn_heads", 8)},
    **{"architecture": ("architecture", "bert")},
}
"""Flags for the sizes of a new model: their names in `BERT`, and their defaults."""
_OF_LOADERS = ("per_device_train_batch_size", "per_device_eval_batch_size")


def check_device_flags(args: argparse.Namespace) -> bool:
    """`check_device` for the flags of `bert`, refusing those that have no effect."""
    if args.device == "cuda" and not args.with_cuda:
        raise UsageError("--device cuda contradicts --with_cuda false; leave one out [E-SETTING-CONFLICT]")
    if args.cuda_devices and (args.device == "cpu" or not args.with_cuda):
        raise UsageError("--cuda_devices has no effect without CUDA; leave it out [E-SETTING-CONFLICT]")
    return check_device(args.device, args.with_cuda)


def make_loaders(
    args: argparse.Namespace, dataset: BERTDataset, test_dataset: BERTDataset | None, with_cuda: bool
) -> tuple[BatchLoader, BatchLoader | None]:
    """The batches to train on, and those to evaluate on."""
    from .dataset.loader import BatchLoader
    from .trainer.distributed import current

    n_workers = args.num_workers
    if n_workers is None:
        n_workers = min(5, max(0, (os.cpu_count() or 1) - 1)) if with_cuda else 0
    world = current()
    shape = {name: getattr(args, name) for name in _BATCH_SETTINGS}
    if shape["tokens_per_batch"] is not None:
        shape["tokens_per_batch"] *= world.size
    common = {"pin_memory": with_cuda, "rank": world.rank, "n_ranks": world.size, **shape}
    train_data = BatchLoader(dataset, args.batch_size * world.size, n_workers, shuffle=True, **common)
    if test_dataset is None:
        return train_data, None
    n = args.per_device_eval_batch_size or args.batch_size
    return train_data, BatchLoader(test_dataset, n * world.size, n_workers, **common)


def plan_steps(args: argparse.Namespace, train_data: BatchLoader) -> int:
    """Steps of the whole run; where tokens make up batches, passes differ in steps."""
    n_epochs = n_steps = 0
    while n_steps < args.max_steps if args.max_steps else n_epochs < args.epochs:
        n_steps += -(-train_data.count_batches(n_epochs) // args.gradient_accumulation_steps)
        n_epochs += 1
    if args.stop_after_epochs is not None and args.stop_after_epochs > n_epochs:
        message = f"--stop_after_epochs {args.stop_after_epochs} has no effect, the plan has {n_epochs} epochs; leave it out"
        raise UsageError(f"{message} [E-SETTING-CONFLICT]")
    return args.max_steps or n_steps


def load_start(args: argparse.Namespace, vocab: Vocab) -> BERTLM | None:
    """The model that `--model_name_or_path` names, whose weights a run begins with; None where it names none.

    Raises:
        InputError: It cannot be read, has another vocabulary, or takes shorter sequences.
        UsageError: A flag asks for another size than it has.
    """
    path = args.model_name_or_path
    if path is None:
        return None
    from .inference.loading import open_model

    loaded = open_model(path, args.vocab_path)
    bert = loaded.model.bert
    if len(vocab) != bert.vocab_size:
        message = f"the vocabulary has {len(vocab)} entries, the model {bert.vocab_size}"
        raise InputError(f"{path}: {message}; give the one it was trained with [E-EXPORT-VOCAB]")
    for name, (size, usual) in SIZES.items():
        asked, there = getattr(args, name), bert.config[size]
        if asked not in (usual, there):
            message = f"--{name} {asked} contradicts --model_name_or_path {path}, which has {there}"
            raise UsageError(f"{message}; leave it out [E-SETTING-CONFLICT]")
    check_length(args, bert.max_len, path)
    return loaded.model


def check_length(args: argparse.Namespace, max_len: int, path: str) -> None:
    """Refuse a `--seq_len` beyond what the model at `path` takes.

    Raises:
        InputError: It is.
    """
    if args.seq_len > max_len:
        message = f"--seq_len is {args.seq_len}, expected at most {max_len}, which {path} takes"
        raise InputError(f"{message}; lower it [E-MODEL-LENGTH]")


def make_bert(args: argparse.Namespace, vocab: Vocab) -> BERT:
    """The encoder, with new weights."""
    from .model import BERT

    return BERT(
        len(vocab),
        hidden=args.hidden,
        n_layers=args.layers,
        attn_heads=args.attn_heads,
        dropout=args.dropout,
        max_len=max(512, args.seq_len),
        architecture=args.architecture,
    )


def make_trainer(
    args: argparse.Namespace,
    vocab: Vocab,
    train_data: Iterable[Mapping[str, Tensor]],
    test_data: Iterable[Mapping[str, Tensor]] | None,
    with_cuda: bool,
    max_steps: int,
    dataset: BERTDataset | None = None,
) -> BERTTrainer:
    """A trainer around a new model or the one to start from; what it trains on comes from `dataset`, where it is to know."""
    from .model import BERT
    from .trainer import BERTTrainer
    from .trainer.distributed import current

    facts, world = {} if dataset is None else {"pairs": len(dataset)}, current()
    begun = load_start(args, vocab)
    bert = make_bert(args, vocab) if begun is None else BERT(**{**begun.bert.config, "dropout": args.dropout})
    trainer = BERTTrainer(
        bert,
        len(vocab),
        train_data,
        test_data,
        with_cuda=with_cuda,
        cuda_devices=args.cuda_devices,
        args=training_arguments(args, max_steps),
        word_counts=None if dataset is None else dataset.word_counts,
        settings={
            **{name: getattr(args, name) for name in _BATCH_SETTINGS},
            "batch_size": args.batch_size * world.size,
            "tokens_per_batch": args.tokens_per_batch and args.tokens_per_batch * world.size,
            **facts,
        },
    )
    if begun is not None:
        from .interop.as_checkpoint import take_weights

        take_weights(trainer, begun)
    return trainer


def training_arguments(args: argparse.Namespace, max_steps: int) -> TrainingArguments:
    """The settings of the trainer, a warm-up of a tenth of the run where none is asked for."""
    from .trainer.arguments import TrainingArguments

    names = [each.name for each in fields(TrainingArguments) if each.name not in _OF_LOADERS]
    values = {name: getattr(args, _FLAGS.get(name, name)) for name in names}
    values["max_steps"] = max_steps
    if args.warmup_steps is None and args.warmup_ratio is None and args.lr_scheduler_type != "constant":
        values["warmup_steps"] = max_steps // 10
    return TrainingArguments.of(values)
