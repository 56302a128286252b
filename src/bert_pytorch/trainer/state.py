"""All that decides how a trainer goes on: taken from it, and given to another."""

from __future__ import annotations

import os
import warnings
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import torch

from .. import __version__
from ..errors import InputError
from .arguments import TrainingArguments
from .checkpoint import check_same_model, load_checkpoint, load_weights
from .distributed import World
from .optim_schedule import load_optimizer
from .parallel import moments_like, whole
from .randomness import random_state

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_HINTS = {
    "n_total_steps": " (to part one run, keep its plan and give --stop_after_epochs)",
    "n_threads": " (OMP_NUM_THREADS sets them)",
}
_OF_THE_SCHEDULE = ("n_total_steps", "n_warmup_steps")
_BATCH = "per_device_train_batch_size"
_STAND_IN_THE_SCHEDULE = {"num_train_epochs", "max_steps", "warmup_steps", "warmup_ratio"}


def collect(trainer: BERTTrainer, epoch: int | None = None, *, in_parts: bool = False) -> dict[str, Any]:
    """The state, as a nest of plain values and tensors; outside a pass that behind pass `epoch`, where given.

    Args:
        trainer: The trainer.
        epoch: The pass.
        in_parts: Weights and moments stay the parts that this process has.
    """
    trainer.bad_steps.settle()
    position = trainer.position.state_dict(epoch)
    weights, moments = trainer.update.weights(trainer.language_model), trainer.update.moments(trainer.optim)
    metrics = trainer.pass_metrics if trainer.position.is_within_pass else None
    return {
        "library_version": __version__,
        "model_config": trainer.bert.config,
        "model": weights if in_parts else whole(weights),
        "optimizer": moments if in_parts else whole(moments),
        "schedule": trainer.optim_schedule.state_dict(),
        "scaler": trainer.update.state_dict(),
        **position,
        "random_of_ranks": trainer.world.gather(position["random"])[1:],
        "pass_sums": None if metrics is None else [metrics.sums, metrics.n_steps],
        "n_parts": trainer.step.n_parts,
        "n_eval_parts": trainer.step.n_eval_parts,
        "bad_steps": trainer.bad_steps.state_dict(),
        "n_threads": torch.get_num_threads(),
        "settings": trainer.settings,
        "arguments": trainer.args.to_dict(),
    }


def restore(trainer: BERTTrainer, path: str | os.PathLike[str], *, allow_change: bool) -> dict[str, Any]:
    """Put the state of a checkpoint into a trainer, which then goes on as if it had never stopped; returns that state.

    Args:
        trainer: One of the same model sizes and vocabulary.
        path: A checkpoint of either form.
        allow_change: Go on, with a warning, where settings differ that change what is computed.

    Raises:
        InputError: The checkpoint cannot be used, is of another model or vocabulary, or of other settings.
    """
    state = load_checkpoint(path)
    check_same_model(path, state, trainer.bert.config, trainer.settings)
    differing, harmless = differences(state, trainer)
    if differing and not allow_change:
        message = f"{path}: was trained with other settings: {'; '.join(differing)}"
        raise InputError(f"{message}; give the same, or pass --allow_change [E-RESUME-CHANGED]")
    for difference in [*differing, *harmless]:
        warnings.warn(f"{path}: {difference}: the run is not the unbroken one", stacklevel=3)
    load_weights(path, trainer.language_model, state["model"])
    load_optimizer(trainer.optim, moments_like(trainer.optim, state["optimizer"]))
    trainer.optim_schedule.load_state_dict(state["schedule"])
    trainer.update.load_state_dict(state.get("scaler", {}))
    trainer.position.load_state_dict({**state, "random": _random_of(state, trainer.world)})
    trainer.step.n_parts, trainer.step.n_eval_parts = state.get("n_parts", 1), state.get("n_eval_parts", 1)
    if "bad_steps" in state:
        trainer.bad_steps.load_state_dict(state["bad_steps"])
    trainer.metrics_to_go_on_from = state.get("pass_sums")
    return state


def take_weights(trainer: BERTTrainer, path: str | os.PathLike[str]) -> None:
    """Go back to the weights, the optimiser and the scale of a checkpoint; all else goes on."""
    state = load_checkpoint(path)
    load_weights(path, trainer.language_model, state["model"])
    load_optimizer(trainer.optim, moments_like(trainer.optim, state["optimizer"]))
    trainer.update.load_state_dict(state.get("scaler", {}))
    # The rates of the next step are those of where the plan is, not of the checkpoint.
    trainer.optim_schedule.load_state_dict(trainer.optim_schedule.state_dict())


def differences(state: dict[str, Any], trainer: BERTTrainer) -> tuple[list[str], list[str]]:
    """What a checkpoint was trained under and this trainer is not: what changes the mathematics, and what its rounding only."""
    names = {each.name for each in fields(TrainingArguments) if each.metadata["changes"]} - _STAND_IN_THE_SCHEDULE
    there = {name: value for name, value in state.get("arguments", {}).items() if name in names}
    here = {name: value for name, value in trainer.args.to_dict().items() if name in names}
    there |= {name: state["schedule"][name] for name in _OF_THE_SCHEDULE} | state["settings"]
    _take_ranks_together(there, 1 + len(state.get("random_of_ranks", ())))
    _take_ranks_together(here, trainer.world.size)
    schedule = trainer.optim_schedule
    here |= {"n_total_steps": schedule.n_total_steps, "n_warmup_steps": schedule.n_warmup_steps, **trainer.settings}
    differing = [_difference(name, there[name], here[name]) for name in there if name in here and there[name] != here[name]]
    harmless = {
        "n_threads": (state["n_threads"], torch.get_num_threads()),
        "n_ranks": (1 + len(state.get("random_of_ranks", ())), trainer.world.size),
    }
    return differing, [_difference(name, *both) for name, both in harmless.items() if both[0] != both[1]]


def _take_ranks_together(values: dict[str, Any], n_ranks: int) -> None:
    """The batch of all processes in place of that of one, so that others of another number can go on."""
    if values.get(_BATCH) is not None:
        values[_BATCH] *= n_ranks


def _random_of(state: dict[str, Any], world: World) -> dict[str, Any]:
    """The states of the generators of this process; where there were fewer processes, it keeps its own."""
    states = [state["random"], *state.get("random_of_ranks", ())]
    return states[world.rank] if world.rank < len(states) else random_state()


def _difference(name: str, there: object, here: object) -> str:
    return f"{name.removeprefix('n_')} was {there}, is now {here}{_HINTS.get(name, '')}"
