"""Settings: where they come from, which go to the Trainer, old names and their successors, and what contradicts."""

from dataclasses import fields

import pytest

from bert_pytorch.errors import InputError, UsageError, UserError
from bert_pytorch.finetuning.names import GONE, RENAMED, modern
from bert_pytorch.finetuning.settings import DEFAULTS, read_settings, settings_of
from bert_pytorch.finetuning.trainer_arguments import make_arguments

BASE = {"task": "sequence-classification", "model": "m", "output_dir": "o"}


def arguments(**values):
    notices = []
    transformers = pytest.importorskip("transformers")
    return make_arguments(transformers, settings_of({**BASE, **values}), notices), notices


def test_words_win_over_the_file_and_unknown_names_go_to_the_trainer(tmp_path):
    (tmp_path / "a.yaml").write_text("task: regression\nmodel: m\noutput_dir: o\nseed: 3\nlearning_rate: 5e-4\nmax_length: 9\n")
    settings = read_settings(str(tmp_path / "a.yaml"), ["max_length=11", "num_train_epochs=2", "save_strategy=no", "bf16=true"])
    assert (settings.task, settings.max_length, settings.seed) == ("regression", 11, 3)
    assert settings.training["learning_rate"] == 5e-4
    assert settings.training["num_train_epochs"] == 2
    assert settings.training["save_strategy"] == "no"
    assert settings.training["bf16"] is True
    assert settings.training["weight_decay"] == DEFAULTS["weight_decay"]


def test_the_trainer_gets_todays_names():
    args, notices = arguments(num_train_epochs=2, warmup_steps=0.2, eval_strategy="no", activation_checkpointing=False)
    assert (args.num_train_epochs, args.warmup_steps, notices) == (2, 0.2, [])
    assert args.metric_for_best_model == "accuracy"
    assert args.greater_is_better is True


OLD = {
    "evaluation_strategy": ("steps", "eval_strategy", "steps"),
    "warmup_ratio": (0.25, "warmup_steps", 0.25),
    "no_cuda": (True, "use_cpu", True),
    "per_gpu_train_batch_size": (5, "per_device_train_batch_size", 5),
    "per_gpu_eval_batch_size": (7, "per_device_eval_batch_size", 7),
    "group_by_length": (True, "train_sampling_strategy", "group_by_length"),
    "adafactor": (True, "optim", "adafactor"),
    "gradient_checkpointing": (True, "activation_checkpointing", True),
    "gradient_checkpointing_kwargs": ({"use_reentrant": False}, "activation_checkpointing_kwargs", {"use_reentrant": False}),
    "push_to_hub_model_id": ("a/b", "hub_model_id", "a/b"),
    "push_to_hub_token": ("t", "hub_token", "t"),
    "xpu_backend": ("gloo", "ddp_backend", "gloo"),
    "torchdynamo": ("eager", "torch_compile_backend", "eager"),
    "include_inputs_for_metrics": (True, "include_for_metrics", ["inputs"]),
    "split_batches": (True, "accelerator_config", {"split_batches": True}),
    "dispatch_batches": (False, "accelerator_config", {"dispatch_batches": False}),
}


@pytest.mark.parametrize("name", OLD)
def test_each_old_name_leads_to_its_successor_with_a_notice(name):
    transformers = pytest.importorskip("transformers")
    known = {each.name for each in fields(transformers.TrainingArguments)}
    value, new, expected = OLD[name]
    notices = []
    found = modern({name: value}, known, notices)
    assert found[new] == expected
    assert name not in found
    assert len(notices) == 1
    assert notices[0].startswith(f"{name} is an old name: write ")
    assert found.keys() <= known


def test_no_setting_of_the_trainer_is_taken_for_a_misspelt_one_of_ours():
    transformers = pytest.importorskip("transformers")
    for each in fields(transformers.Seq2SeqTrainingArguments):
        # `label_names` are the labels here; the Trainer's, the keys of a batch, are set for each task.
        if each.name not in ("output_dir", "resume_from_checkpoint", "label_names"):
            assert settings_of({**BASE, each.name: 1}).training[each.name] == 1


def test_every_old_name_is_tested():
    assert OLD.keys() == RENAMED.keys()


@pytest.mark.parametrize("name", GONE)
def test_a_name_without_successor_is_refused_with_what_to_do(name):
    with pytest.raises(UsageError, match=rf"^{name}: not a setting of this Transformers; .* \[E-FINETUNE-ARGUMENT\]$"):
        arguments(**{name: True})


def test_an_old_optimiser_has_a_successor():
    args, notices = arguments(optim="adamw_hf")
    assert args.optim.value == "adamw_torch"
    assert notices == ["optim adamw_hf is gone: write adamw_torch"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"learning_rat": 1}, "learning_rat: unknown setting; did you mean learning_rate?"),
        ({"evaluation_strategy": "no", "eval_strategy": "no"}, "eval_strategy is set too"),
        ({"do_train": True}, "do_train has no effect here"),
        ({"lr_scheduler_type": "wavy"}, "TrainingArguments: "),
        ({"save_strategy": "often"}, "TrainingArguments: "),
        ({"prediction_loss_only": True}, "would leave out the task's figures"),
        ({"textcolumn": "x"}, "did you mean text_column?"),
        ({"layer_rate_decay": 0.9}, "no effect with engine transformers"),
        ({"pooling": "sum"}, "expected one of: cls, mean, max"),
        ({"engine": "fast"}, "expected one of: transformers, native"),
        ({"task": "tagging"}, "task 'tagging' is unknown"),
        ({"task": "token_classificaton"}, "did you mean token-classification?"),
        ({"task": ""}, "task is missing"),
        ({"max_length": "long"}, "max_length is 'long', expected a whole number"),
        ({"max_length": 0}, "expected at least 1"),
        ({"validation_share": 1.0}, "above 0 and below 1"),
        ({"skip_bad_rows": "maybe"}, "expected true or false"),
        ({"task": "regression", "loss": "focal"}, "are for one label a text"),
        ({"problem_type": "regression", "task": "causal-lm"}, "problem_type has no effect on causal-lm"),
        ({"task": "question-answering", "stride": 400}, "at least 0 and below max_length 384"),
        ({"early_stopping_threshold": 0.1}, "no effect without early_stopping_patience"),
        ({"compute_loss": "a.py", "loss": "focal"}, "leave one out"),
        ({"class_weights": "heavy"}, "balanced, or a list of numbers"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_loaded(values, words):
    with pytest.raises(UserError) as caught:
        arguments(**values)
    assert words in str(caught.value)
    assert caught.value.code is not None
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["- a\n", "a: [\n", "3\n"])
def test_a_file_that_is_no_mapping_is_said(content, tmp_path):
    (tmp_path / "a.yaml").write_text(content)
    with pytest.raises(InputError, match="E-CONFIG-YAML"):
        read_settings(str(tmp_path / "a.yaml"), [])
    with pytest.raises(InputError, match="E-CONFIG-READ"):
        read_settings(str(tmp_path / "missing.yaml"), [])
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        read_settings(None, ["task"])
