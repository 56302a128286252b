"""Checkpoints of the native engine: everything that a run needs to go on as if it had never stopped."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..trainer.checkpoint_folder import is_checkpoint_folder, read_checkpoint
from ..trainer.optimizers import load_optimizer
from ..trainer.randomness import random_state, set_random_state
from ..trainer.run_folder import RunFolder
from ..trainer.state_files import from_files, to_files
from .settings import Settings

if TYPE_CHECKING:
    from .native import Run

_PLANS = ("num_train_epochs", "max_steps", "per_device_train_batch_size", "gradient_accumulation_steps", "learning_rate")
_PLANS += (
    "lr_scheduler_type",
    "warmup_steps",
    "warmup_ratio",
    "optim",
    "weight_decay",
    "seed",
    "bf16",
    "fp16",
    "max_grad_norm",
)


_DATA = ("task", "model", "vocab", "train_file", "max_length", "pooling", "loss")
_DATA += ("layer_rate_decay", "freeze_layers", "freeze_embeddings")


def plan_of(run: Run) -> dict[str, Any]:
    """What decides the steps of a run; a checkpoint of another plan is none to go on from."""
    settings = run.settings
    own = {name: getattr(settings, name) for name in _DATA}
    rates = {name: getattr(run.args, name) for name in _PLANS}
    return {**own, **rates, "train_windows": len(run.batches.features)}


def save(run: Run) -> None:
    """Write `checkpoint-STEP`, and delete those that are too many; the best stays.

    Raises:
        SaveError: It cannot be written; earlier ones are whole.
    """
    state = {
        "model": run.model.state_dict(),
        "model_config": run.model.bert.config,
        "optimizer": run.optimizer.state_dict(),
        "schedule": run.schedule.state_dict(),
        "scaler": run.update.state_dict(),
        "random": random_state(),
        "position": {"epoch": run.epoch, "n_groups": run.n_groups, "step": run.step, "patience": run.n_worse},
        "best": run.best,
        "history": run.history,
        "sums": [run.loss_sum, run.loss_count, run.total_loss],
        "plan": plan_of(run),
    }
    best = [] if run.best is None else [int(run.best["step"])]
    run.folder.save(run.step, to_files(state), run.args.save_total_limit, best)
    run.saved_step = run.step


def restore(run: Run, path: str | Path) -> None:
    """Take over a checkpoint.

    Raises:
        InputError: It is damaged, or of another plan.
    """
    state = read(path)
    there, here = state["plan"], plan_of(run)
    changed = [name for name in here if there.get(name) != here[name]]
    if changed:
        differences = "; ".join(f"{name} {there.get(name)} there, {here[name]} here" for name in changed)
        raise InputError(f"{path}: was made under other settings: {differences}; set them alike [E-RESUME-CHANGED]")
    run.model.load_state_dict(state["model"])
    load_optimizer(run.optimizer, state["optimizer"])
    run.schedule.load_state_dict(state["schedule"])
    run.update.load_state_dict(state["scaler"])
    position = state["position"]
    run.epoch, run.n_groups, run.step = position["epoch"], position["n_groups"], position["step"]
    run.n_worse, run.best, run.history = position["patience"], state["best"], state["history"]
    run.loss_sum, run.loss_count, run.total_loss = state["sums"]
    run.saved_step = run.step
    set_random_state(state["random"])


def read(path: str | Path) -> dict[str, Any]:
    """The state in a checkpoint.

    Raises:
        InputError: It is damaged, or none of this engine.
    """
    state = from_files(read_checkpoint(path))
    if "plan" not in state or "best" not in state:
        raise InputError(f"{path}: a checkpoint of pretraining, not of this run; name it as model [E-CHECKPOINT-FORMAT]")
    return state


def find_checkpoint(folder: RunFolder, settings: Settings) -> Path | None:
    """The checkpoint to go on from, if one is asked for.

    Raises:
        InputError: There is none; or the folder holds a run that is not to be gone on with.
    """
    asked = settings.resume_from_checkpoint
    if asked is None:
        if folder.steps() or (folder.path / "finetune.json").is_file():
            message = "holds a run already; set resume_from_checkpoint to last, or name another output_dir"
            raise InputError(f"{folder.path}: {message} [E-FINETUNE-OUTPUT]")
        return None
    found = folder.find_last() if asked == "last" else Path(asked)
    if found is None or not is_checkpoint_folder(found):
        where = folder.path if found is None else found
        raise InputError(f"{where}: no checkpoint to go on from; leave resume_from_checkpoint out [E-CHECKPOINT-NONE]")
    return found


def best_weights(folder: RunFolder, best: Mapping[str, Any]) -> dict[str, Any]:
    """The weights of the best evaluation.

    Raises:
        InputError: Its checkpoint is damaged or gone.
    """
    return read(folder.checkpoint(int(best["step"])))["model"]
