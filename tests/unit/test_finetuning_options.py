"""Every option of the Trainer's reference, set to something else than usual: what is seen then."""

import json

import pytest
import torch

from bert_pytorch.errors import UserError
from bert_pytorch.finetuning.trainer_arguments import make_arguments

from .finetuning_runs import run, write_bert

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
FEW = {"max_steps": 6, "per_device_train_batch_size": 8, "max_train_rows": 48}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture
def tune(model, tmp_path):
    """A short run; its report, its folder, and what the Trainer logged."""

    def call(**settings):
        report = run(tmp_path, "sequence-classification", model, **{**FEW, **settings})
        states = sorted(tmp_path.glob("tuned/checkpoint-*/trainer_state.json"), key=lambda p: int(p.parent.name.split("-")[1]))
        log = json.loads(states[-1].read_text())["log_history"] if states else []
        return report, tmp_path / "tuned", log

    return call


def steps_of(log, name):
    return [entry["step"] for entry in log if name in entry]


def saved(folder):
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*"))


def test_logging_steps_and_logging_first_step(tune):
    _, _, log = tune(logging_steps=3, logging_first_step=True)
    assert steps_of(log, "loss") == [1, 3, 6]


def test_logging_strategy(tune):
    _, _, log = tune(logging_strategy="epoch", num_train_epochs=2, max_steps=-1)
    assert steps_of(log, "loss") == [6, 12]


def test_eval_strategy_eval_steps_and_eval_delay(tune):
    _, _, log = tune(eval_strategy="steps", eval_steps=2, eval_delay=3)
    assert steps_of(log, "eval_loss") == [4, 6]


def test_save_strategy_save_steps_and_save_total_limit(tune):
    _, folder, _ = tune(save_strategy="steps", save_steps=2, save_total_limit=2)
    assert saved(folder) == [4, 6]


def test_save_strategy_best_keeps_the_best_alone(tune):
    report, folder, _ = tune(save_strategy="best", eval_strategy="steps", eval_steps=2, save_total_limit=1)
    assert saved(folder) == [int(report["best_checkpoint"].rpartition("-")[2])]


@pytest.mark.parametrize(("greater", "choose"), [(True, max), (False, min)])
def test_load_best_model_at_end_metric_for_best_model_and_greater_is_better(greater, choose, tune):
    settings = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 2, "save_steps": 2, "learning_rate": 0.02}
    report, _, log = tune(**settings, load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=greater)
    values = [entry["eval_loss"] for entry in log if "eval_loss" in entry]
    assert report["eval_loss"] == pytest.approx(choose(values))


def test_num_train_epochs_max_steps_and_gradient_accumulation_steps(tune):
    assert tune(num_train_epochs=2, max_steps=-1, gradient_accumulation_steps=3)[0]["steps"] == 4


def test_per_device_train_batch_size(tune):
    assert tune(max_steps=-1, per_device_train_batch_size=16)[0]["steps"] == 3


@pytest.mark.parametrize(
    ("kind", "more", "last"),
    [
        ("linear", {}, 0.001 / 6),
        ("constant", {"warmup_steps": 0}, 0.001),
        ("cosine", {}, None),
        ("polynomial", {"lr_scheduler_kwargs": {"power": 2.0, "lr_end": 0.0}}, 0.001 / 36),
    ],
)
def test_learning_rate_lr_scheduler_type_and_lr_scheduler_kwargs(kind, more, last, tune):
    _, _, log = tune(**{"warmup_steps": 0, "lr_scheduler_type": kind, "learning_rate": 0.001, "logging_steps": 1, **more})
    rates = [entry["learning_rate"] for entry in log if "learning_rate" in entry]
    assert rates[0] == pytest.approx(0.001)
    assert last is None or rates[-1] == pytest.approx(last, rel=1e-3)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("warmup", [3, 0.5])
def test_warmup_steps_as_a_number_and_as_a_share(warmup, tune):
    _, _, log = tune(warmup_steps=warmup, learning_rate=0.003, logging_steps=1)
    rates = [entry["learning_rate"] for entry in log if "learning_rate" in entry]
    assert rates.index(max(rates)) == 3
    assert rates[:3] == pytest.approx([0.0, 0.001, 0.002])


@pytest.mark.parametrize("optim", ["adamw_torch", "adamw_torch_fused", "adafactor", "sgd", "rmsprop", "adagrad"])
def test_optim(optim, tune):
    report, folder, _ = tune(optim=optim)
    args = torch.load(folder / "training_args.bin", weights_only=False)
    assert (args.optim, report["steps"]) == (optim, 6)


def weights_after(tune, **settings):
    from safetensors.torch import load_file

    return load_file(tune(**settings)[1] / "model.safetensors")


@pytest.mark.parametrize(
    "option",
    [
        {"weight_decay": 0.5},
        {"adam_beta1": 0.5},
        {"adam_beta2": 0.9},
        {"adam_epsilon": 1e-2},
        {"max_grad_norm": 1e-3},
        {"label_smoothing_factor": 0.3},
        {"seed": 7},
        {"data_seed": 7},
        {"neftune_noise_alpha": 5.0},
        {"train_sampling_strategy": "group_by_length"},
        {"dataloader_drop_last": True, "per_device_train_batch_size": 7, "per_device_eval_batch_size": 2, "max_steps": -1},
        {"bf16": True, "use_cpu": True},
        {"eval_on_start": True},
    ],
    ids=lambda option: next(iter(option)),
)
def test_options_that_change_what_is_learned(option, model, tmp_path):
    from safetensors.torch import load_file

    found = []
    for name, values in (("usual", {}), ("other", option)):
        run(tmp_path, "sequence-classification", model, name, **{**FEW, "max_train_rows": 45, **values})
        found.append(load_file(tmp_path / name / "model.safetensors")["bert.encoder.layer.1.output.dense.weight"])
    assert torch.isfinite(found[1]).all()
    assert not torch.equal(*found)


@pytest.mark.parametrize(
    "option",
    [
        {"activation_checkpointing": True},
        {"per_device_eval_batch_size": 3},
        {"eval_accumulation_steps": 1},
        {"dataloader_num_workers": 1},
        {"dataloader_pin_memory": False},
        {"use_cpu": True},
        {"full_determinism": False},
        {"skip_memory_metrics": False},
        {"log_level": "error"},
        {"include_num_input_tokens_seen": "all"},
        {"logging_nan_inf_filter": False},
        {"torch_empty_cache_steps": 2},
        {"run_name": "a"},
        {"torch_compile_backend": "eager"},
    ],
    ids=lambda option: next(iter(option)),
)
@pytest.mark.filterwarnings("ignore:.*use_reentrant", "ignore:.*fork", "ignore:.*None of the inputs")
def test_options_that_leave_what_is_learned_alone(option, model, tmp_path):
    from safetensors.torch import load_file

    found = []
    for name, values in (("usual", {}), ("other", option)):
        run(tmp_path, "sequence-classification", model, name, **{**FEW, **values})
        found.append(load_file(tmp_path / name / "model.safetensors")["bert.encoder.layer.1.output.dense.weight"])
    assert torch.allclose(*found, atol=1e-6)


CALLBACKS = """
import transformers
class Stop(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step == 2
callbacks = [Stop()]
"""


def test_callbacks_of_the_users_own(tune, tmp_path):
    (tmp_path / "own.py").write_text(CALLBACKS)
    assert tune(callbacks=str(tmp_path / "own.py"))[0]["steps"] == 2


def test_early_stopping_threshold(tune):
    settings = {"eval_strategy": "steps", "save_strategy": "steps", "eval_steps": 1, "save_steps": 1, "max_steps": 12}
    assert tune(**settings, early_stopping_patience=2, early_stopping_threshold=2.0)[0]["steps"] == 3


def test_report_to_tensorboard(tune, monkeypatch, tmp_path):
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "board"))
    tune(report_to="tensorboard")
    assert list((tmp_path / "board").rglob("events.*"))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ({"push_to_hub": True, "hub_model_id": "a/b", "hub_strategy": "end", "hub_private_repo": True}, "end"),
        ({"torch_compile_backend": "eager"}, True),
        ({"fsdp_config": {"min_num_params": 5}}, None),
        ({"ddp_timeout": 60}, 60),
        ({"fp16_full_eval": True}, True),
        ({"bf16_full_eval": True, "use_cpu": True}, True),
        ({"accelerator_config": {"split_batches": True}}, None),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_options_that_need_other_machines_reach_the_trainer(option, expected):
    from bert_pytorch.finetuning.settings import settings_of

    values = {"task": "sequence-classification", "model": "m", "output_dir": "o", **option}
    args = make_arguments(transformers, settings_of(values), [])
    found = {"push_to_hub": "hub_strategy", "torch_compile_backend": "torch_compile"}.get(
        next(iter(option)), next(iter(option))
    )
    value = getattr(args, found)
    assert value is not None if expected is None else getattr(value, "value", value) == expected


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        ({"metric_for_best_model": "f2", "load_best_model_at_end": True}, "E-METRIC-NAME", "eval_f2"),
        ({"eval_strategy": "steps", "eval_steps": 3, "load_best_model_at_end": True}, "E-FINETUNE-ARGUMENT", "match"),
        ({"compute_loss": "missing.py"}, "E-FILE-READ", "missing.py"),
        ({"callbacks": "missing.py"}, "E-FILE-READ", "missing.py"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_the_trainer_refuses_is_one_line(option, code, words, tune):
    with pytest.raises(UserError) as caught:
        tune(**option)
    assert caught.value.code == code
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
