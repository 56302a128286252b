"""The settings of a run as those of this library's trainer, refused where the native engine does not have them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..errors import UsageError
from ..trainer.arguments import TrainingArguments
from ..trainer.optimizers import MUON
from .names import Values, for_native, whole_epochs
from .settings import Settings

_NOT_HERE = (
    *("output_path", "stop_after_epochs", "max_minutes", "tokens_per_part", "logging_dir", "on_save_error"),
    *("allow_change", "nan_policy", "max_bad_steps", "resume_from_checkpoint", "label_smoothing_factor"),
)
SUPPORTED = tuple(each.name for each in fields(TrainingArguments) if each.name not in _NOT_HERE)


def native_arguments(settings: Settings, notices: list[str]) -> tuple[TrainingArguments, bool]:
    """The settings of the trainer, and whether a GPU is to be left alone.

    Args:
        settings: The run; defaults are already in it.
        notices: A line is added for each old name.

    Raises:
        UsageError: The native engine has no such setting.
        InputError: A value is out of its range.
    """
    given: Values = {name: value for name, value in settings.training.items() if value is not None}
    asked = [given.pop(name) for name in ("use_cpu", "no_cuda") if name in given]
    given.pop("report_to", None)
    values: dict[str, Any] = for_native(given, SUPPORTED, notices)
    if "num_train_epochs" in values:
        values["num_train_epochs"] = whole_epochs(values["num_train_epochs"])
    if values.get("save_strategy") == "no":
        values.pop("save_total_limit", None)
    values |= {"output_dir": settings.output_dir}
    values["metric_for_best_model"] = values.get("metric_for_best_model") or settings.metric
    if "greater_is_better" not in values and str(values["metric_for_best_model"]).endswith(settings.metric):
        values["greater_is_better"] = settings.task_and_kind[0].greater_is_better
    if settings.early_stopping_patience is not None:
        values["early_stopping_patience"] = settings.early_stopping_patience
        values["early_stopping_threshold"] = settings.early_stopping_threshold
        values.setdefault("load_best_model_at_end", True)
    if settings.callbacks is not None:
        raise UsageError("callbacks are Transformers' own; set engine to transformers [E-SETTING-CONFLICT]")
    if values.get("optim") == MUON and settings.layer_rate_decay != 1:
        raise UsageError("layer_rate_decay has no effect with optim muon; leave one out [E-SETTING-CONFLICT]")
    return TrainingArguments.of(values), any(map(bool, asked))
