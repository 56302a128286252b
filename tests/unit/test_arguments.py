"""The settings: which values they take, what contradicts, and where they differ from Transformers' own."""

import dataclasses
import re

import pytest

from bert_pytorch.errors import InputError
from bert_pytorch.trainer.arguments import TrainingArguments

DIFFERENT = {
    "max_steps": "None in place of -1",
    "learning_rate": "the paper's and the ancestor's rate for pretraining, not that of fine-tuning",
    "weight_decay": "the paper's",
    "per_device_train_batch_size": "the loader's, or 64 for a dataset",
    "per_device_eval_batch_size": "the loader's, or that of training",
    "warmup_steps": "a tenth of the run where nothing is said",
    "logging_steps": "the ancestor's",
    "eval_strategy": "each pass where there are held-out data",
    "save_strategy": "each pass",
    "save_steps": "None stands for 500, so that one without effect is noticed",
    "gradient_checkpointing": "off, where None there stands for off",
}
REMOVED_THERE = {"warmup_ratio", "logging_dir"}
OWN = {
    *("output_path", "stop_after_epochs", "max_minutes", "on_save_error", "allow_change", "nan_policy", "max_bad_steps"),
    *("early_stopping_patience", "early_stopping_threshold", "float32_matmul_precision", "tokens_per_part", "sharding"),
}
CONFLICTS = [
    {"bf16": True, "fp16": True},
    {"torch_compile_backend": "eager"},
    {"warmup_steps": 3, "warmup_ratio": 0.1},
    {"eval_strategy": "epoch", "eval_steps": 3},
    {"save_strategy": "epoch", "save_steps": 3},
    {"eval_strategy": "no", "early_stopping_patience": 3},
    {"early_stopping_threshold": 0.1},
    {"load_best_model_at_end": True},
    {"save_total_limit": 2},
    {"nan_policy": "raise", "max_bad_steps": 3},
    {"sharding": "full", "fp16": True},
    {"sharding": "grad", "optim": "muon"},
    {"sharding": "full", "deepspeed": "x.json"},
    {"deepspeed": "x.json", "optim": "sgd"},
    {"deepspeed": "x.json", "output_dir": "x", "load_best_model_at_end": True},
    {"nan_policy": "rollback"},
    {"nan_policy": "rollback", "output_dir": "x", "save_strategy": "no"},
    {"eval_strategy": "no", "lr_scheduler_type": "reduce_lr_on_plateau"},
    {"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"mode": "max"}},
]


def defaults(kind):
    return {
        each.name: each.default if each.default_factory is dataclasses.MISSING else each.default_factory()
        for each in dataclasses.fields(kind)
    }


def test_names_and_defaults_are_those_of_transformers_but_for_what_is_explained():
    theirs = defaults(pytest.importorskip("transformers").TrainingArguments)
    ours = defaults(TrainingArguments)
    assert set(ours) - set(theirs) == OWN | (REMOVED_THERE - set(theirs))
    differing = {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
    assert differing == set(DIFFERENT)


@pytest.mark.parametrize("settings", CONFLICTS, ids=str)
def test_settings_that_contradict_or_have_no_effect_are_refused_by_name(settings):
    with pytest.raises(InputError, match=r"\[E-SETTING-CONFLICT\]$") as caught:
        TrainingArguments(**settings)
    assert any(name in str(caught.value) for name in settings)


@pytest.mark.parametrize("each", dataclasses.fields(TrainingArguments), ids=lambda each: each.name)
def test_a_value_out_of_its_range_is_refused_with_what_was_expected(each):
    expected = each.metadata["expected"]
    if not expected:
        return
    for value in ("nonsense", -1, float("nan"), True):
        with pytest.raises(InputError, match=rf"{each.name} is {re.escape(repr(value))}, expected .*\[E-TRAINER-SETTING\]$"):
            TrainingArguments(**{each.name: value})


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError, match=r"unknown setting learning_rat; did you mean learning_rate\?.*\[E-CONFIG-KEY\]$"):
        TrainingArguments.of({"learning_rat": 1})
    assert TrainingArguments.of({"learning_rate": 1.0}).learning_rate == 1.0


def test_every_setting_says_what_it_is_for():
    assert all(each.metadata["help"] for each in dataclasses.fields(TrainingArguments))


def test_the_figure_that_decides_has_its_prefix_and_direction():
    assert TrainingArguments().best_metric_name == "eval_loss"
    assert not TrainingArguments(metric_for_best_model="mlm_loss").is_greater_better
    assert TrainingArguments(metric_for_best_model="eval_nsp_accuracy").is_greater_better
    assert not TrainingArguments(metric_for_best_model="f1", greater_is_better=False).is_greater_better
