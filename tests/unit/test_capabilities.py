"""Settings of training, each by what it does in a run."""

import json

import pytest
import torch

from bert_pytorch.errors import InputError
from bert_pytorch.trainer import BERTTrainer
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.checkpoint import load_checkpoint

from .examples import make_bert, same_tensors
from .runs import VOCAB, checkpoints, history, loaders, start


def rates(folder):
    return {entry["step"]: entry["learning_rate"] for entry in history(folder) if "learning_rate" in entry}


def evaluated(folder):
    return [entry["step"] for entry in history(folder) if "eval_loss" in entry]


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"eval_strategy": "steps", "eval_steps": 2, "eval_delay": 4}, [4, 6, 8]),
        ({"eval_strategy": "steps", "logging_steps": 3}, [3, 6]),
        ({"eval_strategy": "epoch", "eval_delay": 2}, [8]),
        ({"eval_strategy": "no"}, []),
        ({}, [4, 8]),
    ],
    ids=str,
)
def test_when_held_out_data_are_evaluated(tmp_path, settings, steps):
    """11 pairs, 3 a batch: 4 steps a pass."""
    start(tmp_path, num_train_epochs=2, **settings).fit()
    assert evaluated(tmp_path) == steps


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"logging_strategy": "steps", "logging_steps": 3}, [3, 6]),
        ({"logging_strategy": "steps", "logging_steps": 3, "logging_first_step": True}, [1, 3, 6]),
        ({"logging_strategy": "epoch"}, [4, 8]),
        ({"logging_strategy": "no"}, []),
    ],
    ids=str,
)
def test_when_training_is_logged(tmp_path, settings, steps):
    start(tmp_path, num_train_epochs=2, held_out=False, **settings).fit()
    assert sorted(rates(tmp_path)) == steps


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"save_strategy": "steps", "save_steps": 3}, [3, 6, 8]),
        ({"save_strategy": "epoch"}, [4, 8]),
        ({"save_strategy": "no"}, [8]),
        ({"save_strategy": "steps", "save_steps": 2, "save_total_limit": 2}, [6, 8]),
    ],
    ids=str,
)
def test_when_checkpoints_are_saved(tmp_path, settings, steps):
    """The end of a run is always saved."""
    start(tmp_path, num_train_epochs=2, output_dir=str(tmp_path / "run"), **settings).fit()
    assert checkpoints(tmp_path) == steps


def test_files_of_whole_passes_beside_a_folder(tmp_path):
    trainer = start(tmp_path, num_train_epochs=2, output_path=str(tmp_path / "model"))
    trainer.fit()
    assert sorted(path.name for path in tmp_path.glob("model.*")) == ["model.ep0", "model.ep1"]
    assert same_tensors(load_checkpoint(tmp_path / "model.ep1")["model"], trainer.model.state_dict())


def test_a_warm_up_as_a_share_of_the_run(tmp_path):
    start(tmp_path, max_steps=8, warmup_ratio=0.5, learning_rate=0.01, logging_steps=1, held_out=False).fit()
    assert [rates(tmp_path)[step] for step in (1, 2, 3, 4)] == pytest.approx([0.0025, 0.005, 0.0075, 0.01])
    assert rates(tmp_path)[8] < 0.01


def test_the_schedule_that_is_named_is_the_one_that_is_run(tmp_path):
    kwargs = {"lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0, "lr_end": 1e-4}, "warmup_steps": 0}
    start(tmp_path, max_steps=4, learning_rate=0.01, logging_steps=1, held_out=False, **kwargs).fit()
    expected = [(0.01 - 1e-4) * (1 - step / 4) ** 2 + 1e-4 for step in range(4)]
    assert list(rates(tmp_path).values()) == pytest.approx(expected)


@pytest.mark.parametrize("metric", [None, "mlm_accuracy"])
def test_a_plateau_lowers_the_rate_by_the_metric_of_the_run(tmp_path, metric):
    """The weights hardly move: no evaluation is better than the first, whether more or less of it is."""
    settings = {"lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": {"patience": 0, "factor": 0.5, "eps": 0}}
    plan = {"max_steps": 4, "eval_strategy": "steps", "eval_steps": 1, "logging_steps": 1, "warmup_steps": 0}
    trainer = start(tmp_path, learning_rate=1e-12, metric_for_best_model=metric, **plan, **settings)
    trainer.fit()
    assert trainer.optim_schedule.schedule_settings["mode"] == ("min" if metric is None else "max")
    assert list(rates(tmp_path).values()) == pytest.approx([1e-12, 1e-12, 5e-13, 2.5e-13])


def test_a_plateau_needs_held_out_data(tmp_path):
    with pytest.raises(InputError, match="without held-out data"):
        start(tmp_path, lr_scheduler_type="reduce_lr_on_plateau", held_out=False).fit()


@pytest.mark.parametrize(("greater_is_better", "choose"), [(None, max), (True, max), (False, min)])
def test_the_best_is_chosen_by_the_metric_and_its_direction(tmp_path, greater_is_better, choose):
    settings = {"metric_for_best_model": "mlm_accuracy", "greater_is_better": greater_is_better}
    plan = {"max_steps": 12, "eval_strategy": "steps", "eval_steps": 2, "load_best_model_at_end": True, "learning_rate": 0.05}
    trainer = start(tmp_path, **plan, **settings)
    report = trainer.fit()
    values = {entry["step"]: entry["eval_mlm_accuracy"] for entry in history(tmp_path) if "eval_loss" in entry}
    assert len(set(values.values())) > 1
    best = choose(values, key=values.get)
    assert (report["best_metric"], report["best_model_checkpoint"]) == (values[best], f"checkpoint-{best}")
    assert trainer.test(0)["mlm_accuracy"] == values[best]


def test_a_metric_that_is_not_there_is_an_error_with_those_that_are(tmp_path):
    with pytest.raises(InputError, match=r"there is no eval_f1; there are .*eval_loss.*E-METRIC-NAME"):
        start(tmp_path, max_steps=2, eval_strategy="steps", metric_for_best_model="f1", load_best_model_at_end=True).fit()


@pytest.mark.parametrize(
    "settings",
    [
        {"optim": "sgd", "optim_args": {"momentum": 0.9}},
        {"adam_epsilon": 1.0},
        {"adam_beta1": 0.0},
        {"adam_beta2": 0.5},
        {"weight_decay": 5.0},
        {"max_grad_norm": 0.01},
        {"label_smoothing_factor": 0.5},
        {"learning_rate": 0.02},
        {"gradient_accumulation_steps": 2},
        {"bf16": True},
        {"fp16": True},
        {"seed": 7},
    ],
    ids=str,
)
def test_a_setting_changes_what_is_trained_and_is_kept_in_the_checkpoint(tmp_path, settings):
    weights = []
    for name, own in (("plain", {}), ("other", settings), ("again", settings)):
        (tmp_path / name).mkdir()
        trainer = start(tmp_path / name, max_steps=3, held_out=False, **own)
        torch.manual_seed(trainer.args.seed)
        trainer.fit()
        weights.append(trainer.model.state_dict())
    assert not same_tensors(weights[0], weights[1])
    assert same_tensors(weights[1], weights[2])
    kept = load_checkpoint(tmp_path / "other" / "run" / "checkpoint-3")["arguments"]
    assert {name: kept[name] for name in settings} == settings


@pytest.mark.parametrize(
    "settings", [{"gradient_checkpointing": True}, {"torch_compile": True, "torch_compile_backend": "eager"}]
)
def test_how_a_step_is_computed_changes_neither_weights_nor_their_names(tmp_path, settings):
    """A compiled run goes on from one that was not, and the other way round."""
    (tmp_path / "plain").mkdir()
    plain = start(tmp_path / "plain", max_steps=4, save_strategy="steps", save_steps=2, held_out=False)
    plain.fit()
    other = start(tmp_path, max_steps=4, save_strategy="steps", save_steps=2, held_out=False, **settings)
    other.fit()
    there, here = (load_checkpoint(folder / "run" / "checkpoint-4")["model"] for folder in (tmp_path / "plain", tmp_path))
    assert list(there) == list(here)
    for name, value in there.items():
        torch.testing.assert_close(here[name], value, rtol=1e-5, atol=1e-6, msg=name)
    going_on = {"resume_from_checkpoint": str(tmp_path / "run" / "checkpoint-2"), "allow_change": True}
    again = start(tmp_path / "plain", max_steps=4, held_out=False, **going_on)
    if "torch_compile" in settings:
        with pytest.warns(UserWarning, match="torch_compile was True, is now False"):
            again.fit()
    else:
        again.fit()
    torch.testing.assert_close(again.model.state_dict(), plain.model.state_dict(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("packing", [False, True])
def test_a_step_in_parts_is_the_same_step(tmp_path, packing):
    """Rows of 13 tokens at most, so one or two a part; nothing is drawn, as dropout would be for each part anew."""
    trainers, rows = [], []
    for most in (None, 26):
        folder = tmp_path / str(most)
        folder.mkdir()
        train, test = loaders(folder, 4, packing=packing)
        args = TrainingArguments(max_steps=2, tokens_per_part=most)
        bert = make_bert(len(VOCAB), n_layers=1, dropout=0.0)
        trainer = BERTTrainer(bert, len(VOCAB), train, test, with_cuda=False, args=args)
        trainer.language_model.to(torch.float64)
        objective = trainer.objective.forward
        trainer.objective.forward = lambda *, bert_input, _do=objective, **other: (
            rows.append(len(bert_input)) or _do(bert_input=bert_input, **other)
        )
        rows.append("begin")
        trainers.append((trainer, trainer.fit()))
    parts = rows[rows.index("begin", 1) + 1 :]
    assert max(parts) <= 2 < max(rows[1 : rows.index("begin", 1)])
    (whole, expected), (some, report) = trainers
    torch.testing.assert_close(some.model.state_dict(), whole.model.state_dict(), rtol=0, atol=1e-9)
    for name in ("train_loss", "eval_mlm_loss", "eval_nsp_accuracy", "eval_n_targets"):
        assert report[name] == pytest.approx(expected[name], rel=1e-9)


def test_a_pass_can_be_the_last_of_a_process(tmp_path):
    report = start(tmp_path, num_train_epochs=3, stop_after_epochs=1).fit()
    assert (report["stopped_by"], report["steps"]) == ("stop_after_epochs", 4)


def test_tensorboard_has_every_figure_once_also_after_a_resume(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = {"logging_dir": str(tmp_path / "board"), "save_strategy": "steps", "save_steps": 3, "num_train_epochs": 2}
    start(tmp_path, **settings).fit()
    expected = history(tmp_path)
    start(tmp_path, resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-3"), **settings).fit()
    events = accumulator.EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == pytest.approx({entry["step"]: entry["loss"] for entry in expected if "loss" in entry}, rel=1e-6)
    assert [event.step for event in events.Scalars("train/loss")] == sorted(losses)
    held_out = {event.step: event.value for event in events.Scalars("eval/mlm_loss")}
    assert held_out == pytest.approx({entry["step"]: entry["eval_mlm_loss"] for entry in expected if "eval_loss" in entry})


def test_short_memory_in_an_evaluation_costs_no_figure(tmp_path):
    """Batches of 3 that fit in rows of one only."""
    whole = start(tmp_path, num_train_epochs=1, compute_metrics=lambda words: {"n": float(len(words.label_ids))})
    expected = whole.fit()
    (tmp_path / "short").mkdir()
    trainer = start(tmp_path / "short", num_train_epochs=1, compute_metrics=lambda words: {"n": float(len(words.label_ids))})
    measure, tried = trainer.step._measure, []

    def fail(batch):
        tried.append(len(batch["bert_input"]))
        if tried[-1] > 1:
            raise RuntimeError("CUDA out of memory.")
        return measure(batch)

    trainer.step._measure = fail
    with pytest.warns(UserWarning) as said:
        report = trainer.fit()
    assert [f"evaluated in {n} parts" in str(each.message) for n, each in zip((2, 4), said, strict=True)] == [True, True]
    assert tried == [3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
    for name in ("eval_loss", "eval_mlm_accuracy", "eval_n", "eval_n_targets"):
        assert report[name] == pytest.approx(expected[name], rel=1e-6)


def test_the_report_of_a_resumed_run_is_that_of_the_whole(tmp_path):
    settings = {"max_steps": 6, "save_strategy": "steps", "save_steps": 3}
    start(tmp_path, **settings).fit()
    start(tmp_path, resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-3"), **settings).fit()
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert [entry["step"] for entry in report["log_history"] if "loss" in entry] == [2, 4, 6]
