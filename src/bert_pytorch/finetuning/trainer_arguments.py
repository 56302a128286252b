"""Settings of a run as the arguments of the Transformers Trainer, checked before anything is loaded."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..errors import InputError, UsageError
from .foreign import Arguments
from .names import Values, modern
from .settings import Settings
from .tasks import CAUSAL, MASKED, SEQ2SEQ

_WITHOUT_EFFECT = ("do_train", "do_eval", "do_predict", "remove_unused_columns")


def make_arguments(transformers: ModuleType, settings: Settings, notices: list[str]) -> Arguments:
    """The `TrainingArguments` of a run.

    Args:
        transformers: The package.
        settings: The run; defaults of this library are already in it.
        notices: A line is added for each old name.

    Raises:
        UsageError: A name is unknown or gone.
        InputError: A value is refused by Transformers.
    """
    task = settings.task_and_kind[0].name
    kind = transformers.Seq2SeqTrainingArguments if task == SEQ2SEQ else transformers.TrainingArguments
    known = {each.name for each in fields(kind)}
    given: Values = {name: value for name, value in settings.training.items() if value is not None}
    usual: dict[str, Any] = {"report_to": "none", "dataloader_pin_memory": torch.cuda.is_available()}
    values = {**usual, **modern(given, known, notices)}
    for name in _WITHOUT_EFFECT:
        if name in values:
            raise UsageError(f"{name} has no effect here; leave it out [E-FINETUNE-ARGUMENT]")
    values |= {"output_dir": settings.output_dir, "remove_unused_columns": False}
    values["metric_for_best_model"] = values.get("metric_for_best_model") or settings.metric
    if "greater_is_better" not in values and str(values["metric_for_best_model"]).endswith(settings.metric):
        values["greater_is_better"] = settings.task_and_kind[0].greater_is_better
    if settings.early_stopping_patience is not None:
        values.setdefault("load_best_model_at_end", True)
    if task in (MASKED, CAUSAL):
        values["prediction_loss_only"] = True
    if task == SEQ2SEQ:
        values["predict_with_generate"] = True
        values.setdefault("generation_max_length", settings.max_target_length)
    if settings.task_and_kind[0].name not in (MASKED, CAUSAL) and values.get("prediction_loss_only"):
        raise UsageError("prediction_loss_only would leave out the task's figures; leave it out [E-SETTING-CONFLICT]")
    try:
        return kind(**values)
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:400]
        raise InputError(f"TrainingArguments: {reason} [E-FINETUNE-ARGUMENT]") from error


def resume_from(transformers: ModuleType, settings: Settings) -> str | None:
    """The checkpoint to go on from, if any.

    Raises:
        InputError: There is none; or the folder holds a run that is not to be gone on with.
    """
    folder, asked = Path(settings.output_dir), settings.resume_from_checkpoint
    there = [path for path in folder.glob("checkpoint-*") if path.is_dir()] if folder.is_dir() else []
    if asked is None:
        if there or (folder / "finetune.json").is_file():
            message = "holds a run already; set resume_from_checkpoint to last, or name another output_dir"
            raise InputError(f"{folder}: {message} [E-FINETUNE-OUTPUT]")
        return None
    if asked != "last":
        if not (Path(asked) / "trainer_state.json").is_file():
            raise InputError(f"{asked}: no checkpoint of the Trainer; give last, or a checkpoint-STEP [E-CHECKPOINT-NONE]")
        return asked
    found = transformers.trainer_utils.get_last_checkpoint(str(folder)) if there else None
    if found is None:
        raise InputError(f"{folder}: no checkpoint to go on from; leave resume_from_checkpoint out [E-CHECKPOINT-NONE]")
    return found
