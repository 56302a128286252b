"""What a trainer settles before its first step: where it computes, and how long it warms up."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..dataset.draws import mix
from ..dataset.loader import BatchLoader
from ..errors import InputError, UnavailableError
from ..model import BERT, BERTLM
from .arguments import TrainingArguments
from .distributed import World
from .loading import count_batches
from .objective import ParallelObjective, PretrainingObjective
from .optim_schedule import ScheduledOptim
from .optimizers import make_optimizer, parameter_groups
from .parallel import shard
from .schedules import PLATEAU

DEFAULT_WARMUP_STEPS = 10_000


def check_settings(
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    log_freq: int,
    max_steps: int | None,
    max_grad_norm: float | None,
) -> None:
    """Refuse what would train on nonsense.

    Raises:
        InputError: A setting is out of its range; the message names it.
    """
    limits = {
        "lr": (lr, 0 < lr < math.inf, "a number above 0"),
        "betas": (betas, all(0 <= beta < 1 for beta in betas), "two numbers of at least 0 and below 1"),
        "weight_decay": (weight_decay, 0 <= weight_decay < math.inf, "a number of at least 0"),
        "log_freq": (log_freq, log_freq >= 1, "at least 1"),
        "max_steps": (max_steps, max_steps is None or max_steps >= 1, "at least 1, or None"),
        "max_grad_norm": (max_grad_norm, max_grad_norm is None or 0 < max_grad_norm < math.inf, "a number above 0, or None"),
    }
    for name, (value, is_good, expected) in limits.items():
        if not is_good:
            raise InputError(f"BERTTrainer: {name} is {value}, expected {expected} [E-TRAINER-SETTING]")


_NAMES = {"lr": "learning_rate", "log_freq": "logging_steps"}


def settle(args: TrainingArguments | None, given: Mapping[str, Any]) -> TrainingArguments:
    """The settings of a trainer: `args`, or those its other parameters stand for.

    Args:
        args: All settings; None: `given` are.
        given: Parameters of `BERTTrainer` by name.

    Raises:
        InputError: A setting is out of its range, or stands in both.
    """
    beta1, beta2 = given["betas"]
    values = {_NAMES.get(name, name): value for name, value in given.items() if name != "betas"}
    values |= {"adam_beta1": beta1, "adam_beta2": beta2, "max_grad_norm": given["max_grad_norm"] or 0.0}
    if args is None:
        names = ("lr", "betas", "weight_decay", "log_freq", "max_steps", "max_grad_norm")
        check_settings(**{name: given[name] for name in names})
        return TrainingArguments.of(values)
    defaults = TrainingArguments()
    for name, value in values.items():
        if value != getattr(defaults, name):
            raise InputError(f"BERTTrainer: {name} is given beside args; set it there [E-SETTING-CONFLICT]")
    return args


def count_steps(args: TrainingArguments, data_loader: Iterable[Mapping[str, Tensor]]) -> int:
    """Steps of the whole plan; where tokens make up batches, passes differ in steps.

    Raises:
        InputError: The loader does not tell its length, and `max_steps` is not set.
    """
    if args.max_steps is not None:
        return args.max_steps
    n_steps = 0
    for epoch in range(args.num_train_epochs):
        n_batches = data_loader.count_batches(epoch) if isinstance(data_loader, BatchLoader) else count_batches(data_loader)
        if n_batches is None:
            raise InputError("fit: the training loader does not tell its length; set max_steps [E-TRAINER-PLAN]")
        n_steps += -(-n_batches // args.gradient_accumulation_steps)
    return n_steps


def choose_devices(with_cuda: bool, cuda_devices: Sequence[int] | None, world: World) -> tuple[torch.device, list[int]]:
    """The device that holds the model, and the numbers of all GPUs in use; of several processes, each has one.

    Raises:
        UnavailableError: `cuda_devices` names a GPU that is not there.
    """
    if not (with_cuda and torch.cuda.is_available()):
        return torch.device("cpu"), []
    if world.size > 1:
        return torch.device("cuda", world.local_rank), [world.local_rank]
    gpus = list(range(torch.cuda.device_count())) if cuda_devices is None else list(cuda_devices)
    if not gpus or max(gpus) >= torch.cuda.device_count() or min(gpus) < 0:
        there = torch.cuda.device_count()
        raise UnavailableError(f"cuda_devices is {gpus}, but there are {there} GPUs, counted from 0 [E-DEVICE-CUDA]")
    return torch.device("cuda", gpus[0]), gpus


def place_model(
    bert: BERT,
    vocab_size: int,
    args: TrainingArguments,
    device: torch.device,
    gpus: Sequence[int],
    world: World,
    word_counts: Sequence[int] | None,
    *,
    has_own_loss: bool,
) -> tuple[BERTLM, nn.Module, nn.Module]:
    """The language model on its devices, what `compute_loss` runs, and what steps run else.

    Args:
        bert: The encoder.
        vocab_size: Length of the vocabulary.
        args: Says how blocks are computed, and whether processes share the weights out.
        device: Of this process.
        gpus: Those that this process has; several share each batch.
        world: The processes.
        word_counts: Start the masked-word bias there.
        has_own_loss: Whether `compute_loss` is run.
    """
    language_model = BERTLM(bert, vocab_size).to(device)
    if word_counts is not None:
        language_model.mask_lm.start_bias_at(word_counts)
    model: nn.Module = language_model
    objective: nn.Module = PretrainingObjective(language_model, args.label_smoothing_factor)
    if len(gpus) > 1:
        warnings.warn(
            f"{len(gpus)} GPUs share each batch in one process; torchrun --nproc_per_node {len(gpus)} is faster", stacklevel=3
        )
        model = nn.DataParallel(language_model, device_ids=list(gpus))
        objective = ParallelObjective(objective, device_ids=list(gpus))
    bert.gradient_checkpointing = args.gradient_checkpointing
    if args.torch_compile:
        bert.compile_blocks(args.torch_compile_backend)
    if world.rank:
        # Weights are the same in all processes; what dropout draws is not.
        torch.manual_seed(mix(args.seed, world.rank) >> 1)
    if world.size > 1 and args.sharding is not None:
        shard(model if has_own_loss else objective, language_model, world, device, args.sharding)
    return language_model, model, objective


def build_optimizer(args: TrainingArguments, model: nn.Module) -> Optimizer:
    """The optimiser that the settings name, on a model's parameters."""
    # A value that nobody set is none that an optimiser without it could refuse.
    is_set = args.adam_epsilon != TrainingArguments.adam_epsilon
    return make_optimizer(
        args.optim,
        parameter_groups(model, args.weight_decay, optim=args.optim),
        lr=args.learning_rate,
        betas=(args.adam_beta1, args.adam_beta2),
        eps=args.adam_epsilon if is_set else None,
        settings=args.optim_args,
    )


def build_schedule(
    args: TrainingArguments,
    optimizer: Optimizer,
    train_dataloader: Iterable[Mapping[str, Tensor]],
    max_steps: int | None,
) -> ScheduledOptim:
    """The schedule that the settings name, over this many steps."""
    settings = dict(args.lr_scheduler_kwargs or {})
    if args.lr_scheduler_type == PLATEAU:
        settings.setdefault("mode", "max" if args.is_greater_better else "min")
    return ScheduledOptim(
        optimizer,
        0,
        _warmup_steps(args, train_dataloader, max_steps),
        n_total_steps=max_steps,
        schedule=args.lr_scheduler_type,
        schedule_settings=settings,
    )


def _warmup_steps(args: TrainingArguments, train_dataloader: Iterable[Mapping[str, Tensor]], max_steps: int | None) -> int:
    """Warm-up steps: as asked for, else 10,000, at most one pass over the loader and a tenth of the run."""
    if args.warmup_steps is not None:
        return args.warmup_steps
    if args.warmup_ratio is not None and max_steps is not None:
        return math.ceil(args.warmup_ratio * max_steps)
    if args.lr_scheduler_type == "constant":
        return 0
    n_batches = count_batches(train_dataloader)
    n_steps = None if n_batches is None else -(-n_batches // args.gradient_accumulation_steps)
    limits = (DEFAULT_WARMUP_STEPS, n_steps, None if max_steps is None else max_steps // 10)
    return min(limit for limit in limits if limit is not None)
