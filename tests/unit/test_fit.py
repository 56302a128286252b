"""`fit`: the whole run that the settings describe, and going on from any of its checkpoints."""

import json
import os
import shutil
import signal

import pytest
import torch

from bert_pytorch.errors import InputError, SaveError, TrainingError
from bert_pytorch.trainer import BERTTrainer
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.callbacks import TrainerControl
from bert_pytorch.trainer.signals import InterruptedRunError

from .examples import make_bert, same_tensors, whole_state
from .runs import VOCAB, Stop, checkpoints, history, loaders, start


def test_fit_trains_the_plan_logs_evaluates_and_saves(tmp_path):
    trainer = start(tmp_path, num_train_epochs=2, save_strategy="steps", save_steps=3)
    report = trainer.fit()
    assert report["stopped_by"] == "plan"
    assert trainer.optim_schedule.n_current_steps == 8
    assert checkpoints(tmp_path) == [3, 6, 8]
    logs = history(tmp_path)
    assert [entry["step"] for entry in logs if "loss" in entry] == [2, 4, 6, 8]
    assert [entry["step"] for entry in logs if "eval_loss" in entry] == [4, 8]
    assert report["eval_loss"] == logs[-1]["eval_loss"]
    written = json.loads((tmp_path / "run" / "report.json").read_text())
    assert written["ok"] is True
    assert written["summary"]["steps"] == 8
    assert len(written["log_history"]) == 6
    assert "<svg" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize("n_workers", [0, 2])
@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 7])
def test_a_run_goes_on_from_every_step_to_the_bit(tmp_path, step, accumulation, n_workers):
    plan = {"max_steps": 8, "gradient_accumulation_steps": accumulation, "save_strategy": "steps", "save_steps": 1}
    plan |= {"eval_strategy": "steps", "eval_steps": 3}
    (tmp_path / "a").mkdir()
    unbroken = start(tmp_path / "a", **plan)
    unbroken.fit()
    (tmp_path / "b").mkdir()
    shutil.copytree(tmp_path / "a" / "run" / f"checkpoint-{step}", tmp_path / "b" / "run" / f"checkpoint-{step}")
    resumed = start(tmp_path / "b", n_workers=n_workers, resume_from_checkpoint="last", **plan)
    torch.manual_seed(999)
    resumed.fit()
    assert same_tensors(whole_state(resumed), whole_state(unbroken))
    assert history(tmp_path / "b") == history(tmp_path / "a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_the_step_saves_and_ends_with_its_status(tmp_path, number):
    (tmp_path / "a").mkdir()
    unbroken = start(tmp_path / "a", num_train_epochs=2)
    unbroken.fit()
    (tmp_path / "b").mkdir()
    broken = start(tmp_path / "b", num_train_epochs=2, callbacks=[Stop(3, lambda _: os.kill(os.getpid(), number))])
    before = signal.getsignal(number)
    with pytest.raises(InterruptedRunError, match=r"after step 3.*checkpoint-3.*E-INTERRUPTED") as caught:
        broken.fit()
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    report = json.loads((tmp_path / "b" / "run" / "report.json").read_text())
    assert (report["ok"], report["stopped_by"]) == (False, "signal")
    resumed = start(tmp_path / "b", num_train_epochs=2, resume_from_checkpoint="last")
    resumed.fit()
    assert same_tensors(whole_state(resumed), whole_state(unbroken))
    assert history(tmp_path / "b") == history(tmp_path / "a")


def test_a_callback_that_raises_is_named_and_what_was_trained_is_saved(tmp_path):
    def fail(control):
        raise ValueError("no luck")

    trainer = start(tmp_path, callbacks=[Stop(3, fail)])
    with pytest.raises(TrainingError, match=r"callback Stop.on_step_end: ValueError: no luck.*E-CALLBACK"):
        trainer.fit()
    assert checkpoints(tmp_path) == [3]


def test_flags_of_a_callback_steer_the_run(tmp_path):
    def ask(control):
        control.should_save = control.should_evaluate = control.should_log = True

    class End:
        def on_log(self, args, state, control, **things):
            assert things["model"] is trainer.language_model
            return TrainerControl(should_training_stop=state.global_step == 5)

    trainer = start(tmp_path, callbacks=[Stop(1, ask), Stop(5, ask), End()], save_strategy="no", logging_strategy="no")
    report = trainer.fit()
    assert report["stopped_by"] == "callback"
    assert trainer.optim_schedule.n_current_steps == 5
    assert 1 in checkpoints(tmp_path)


def test_an_old_run_is_neither_overwritten_nor_taken_up_unasked(tmp_path):
    start(tmp_path, max_steps=2).fit()
    with pytest.raises(InputError, match="E-RUN-EXISTS"):
        start(tmp_path, max_steps=2).fit()
    with pytest.raises(InputError, match="E-RESUME-DONE"):
        start(tmp_path, max_steps=2, resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2")).fit()


def test_a_run_that_is_done_ends_well_again_and_makes_up_for_its_report(tmp_path):
    settings = {"max_steps": 4, "load_best_model_at_end": True, "eval_strategy": "steps", "eval_steps": 2}
    whole = start(tmp_path, **settings)
    expected = whole.fit()
    page = tmp_path / "run" / "report.html"
    before = history(tmp_path), page.read_bytes()
    for is_there in (True, False):
        if not is_there:
            page.unlink()
        again = start(tmp_path, resume_from_checkpoint="last", **settings)
        with pytest.warns(UserWarning, match="nothing is left to do"):
            report = again.fit()
        assert {name: report[name] for name in ("steps", "eval_loss", "best_metric", "stopped_by")} == {
            name: expected[name] for name in ("steps", "eval_loss", "best_metric", "stopped_by")
        }
        assert same_tensors(again.model.state_dict(), whole.model.state_dict())
        assert history(tmp_path) == before[0]
        assert page.exists()
        if is_there:
            assert page.read_bytes() == before[1]


CHANGES = [
    ({"adam_beta2": 0.98}, "adam_beta2 was 0.999, is now 0.98"),
    ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type was linear, is now cosine"),
    ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps was 1, is now 2"),
    ({"max_steps": 7}, "total_steps was 6, is now 7"),
]


@pytest.mark.parametrize(("changes", "said"), CHANGES, ids=str)
def test_changed_settings_are_listed_and_refused_unless_allowed(tmp_path, changes, said):
    start(tmp_path, max_steps=6, save_strategy="steps", save_steps=2, warmup_steps=1).fit()
    shutil.rmtree(tmp_path / "run" / "checkpoint-6")
    # How often something is logged changes no number.
    changed = {"max_steps": 6, "warmup_steps": 1, "logging_steps": 3, "resume_from_checkpoint": "last", **changes}
    with pytest.raises(InputError, match=rf"{said}.*; give.*E-RESUME-CHANGED"):
        start(tmp_path, **changed).fit()
    with pytest.warns(UserWarning, match=said):
        start(tmp_path, allow_change=True, **changed).fit()


def test_the_best_stays_the_last_two_stay_and_the_best_comes_back(tmp_path):
    class Worse:
        """Makes every evaluation but the first a bad one."""

        def on_step_end(self, args, state, control, model):
            if state.global_step == 3:
                with torch.no_grad():
                    model.mask_lm.decoder.bias.add_(torch.linspace(-9, 9, len(VOCAB)))

    plan = {"max_steps": 8, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
    trainer = start(tmp_path, callbacks=[Worse()], save_total_limit=2, load_best_model_at_end=True, **plan)
    trainer.fit()
    losses = {entry["step"]: entry["eval_loss"] for entry in history(tmp_path) if "eval_loss" in entry}
    assert min(losses, key=losses.get) == 2
    assert checkpoints(tmp_path) == [2, 6, 8]
    assert trainer.test(0)["loss"] == pytest.approx(losses[2], abs=1e-12)


def test_a_run_stops_early_when_evaluations_are_no_better(tmp_path):
    plan = {"max_steps": 50, "learning_rate": 1e-12, "eval_strategy": "steps", "eval_steps": 1}
    trainer = start(tmp_path, early_stopping_patience=3, early_stopping_threshold=1e-3, **plan)
    assert trainer.fit()["stopped_by"] == "early_stopping"
    assert trainer.optim_schedule.n_current_steps == 4


@pytest.mark.filterwarnings("ignore:.*a spike")
def test_a_time_budget_ends_the_run_saved(tmp_path):
    trainer = start(tmp_path, max_steps=100_000, max_minutes=0.02)
    assert trainer.fit()["stopped_by"] == "max_minutes"
    assert checkpoints(tmp_path)[-1] == trainer.optim_schedule.n_current_steps


def test_a_run_cut_short_within_a_pass_is_saved_measured_and_goes_on_to_the_bit(tmp_path):
    plan = {"num_train_epochs": 2, "output_dir": None, "output_path": str(tmp_path / "run.model")}
    unbroken = start(tmp_path, **{**plan, "output_path": str(tmp_path / "other.model")})
    unbroken.fit()
    cut = start(tmp_path, [Stop(6, lambda control: setattr(control, "should_training_stop", True))], **plan)
    report = cut.fit()
    assert (report["stopped_by"], report["steps"]) == ("callback", 6)
    assert report["checkpoint"] == f"{tmp_path}/run.model.ep1"
    assert report["eval_loss"] == pytest.approx(cut.test(0)["loss"])
    resumed = start(tmp_path, **plan, resume_from_checkpoint="last")
    assert resumed.fit()["steps"] == 8
    assert same_tensors(whole_state(resumed), whole_state(unbroken))


def test_the_best_of_a_run_cut_short_in_a_folder_may_be_its_end(tmp_path):
    trainer = start(tmp_path, max_steps=100_000, max_minutes=0.02, metric_for_best_model="loss", load_best_model_at_end=True)
    report = trainer.fit()
    evaluations = [entry for entry in history(tmp_path) if "eval_loss" in entry]
    assert evaluations[-1]["step"] == report["steps"]
    assert report["eval_loss"] == evaluations[-1]["eval_loss"]
    best = min(evaluations, key=lambda entry: entry["eval_loss"])
    assert report["best_model_checkpoint"] == f"checkpoint-{best['step']}"


def test_short_memory_is_met_by_parts_of_the_same_step(tmp_path):
    fails = []

    def compute_loss(model, batch, n_targets):
        if len(batch["bert_input"]) > 2:
            fails.append(len(batch["bert_input"]))
            raise RuntimeError("CUDA out of memory.")
        _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
        targets = batch["bert_label"][batch["bert_label"] != 0]
        return torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets

    trainer = start(tmp_path, num_train_epochs=1, compute_loss=compute_loss, held_out=False)
    with pytest.warns(UserWarning, match="computed in 2 parts"):
        trainer.fit()
    assert fails == [3]
    assert trainer.optim_schedule.n_current_steps == 4


def test_metrics_of_ones_own_are_reported(tmp_path):
    def compute_metrics(prediction):
        assert prediction.predictions.shape == prediction.label_ids.shape
        return {"right": float((prediction.predictions == prediction.label_ids).double().mean())}

    trainer = start(tmp_path, num_train_epochs=1, compute_metrics=compute_metrics)
    report = trainer.fit()
    assert report["eval_right"] == pytest.approx(report["eval_mlm_accuracy"])


@pytest.mark.parametrize("on_save_error", ["stop", "continue"])
def test_a_checkpoint_that_cannot_be_written_stops_the_run_or_not(tmp_path, on_save_error, monkeypatch):
    trainer = start(tmp_path, max_steps=4, save_strategy="steps", save_steps=2, on_save_error=on_save_error)
    monkeypatch.setattr("bert_pytorch.trainer.run_folder._SPARE_BYTES", 1 << 62)
    if on_save_error == "stop":
        with pytest.raises(SaveError, match="E-SAVE"):
            trainer.fit()
    else:
        with pytest.warns(UserWarning, match="training goes on"):
            trainer.fit()
        assert trainer.optim_schedule.n_current_steps == 4
    assert checkpoints(tmp_path) == []


def test_a_dataset_and_a_collator_of_ones_own_are_enough(tmp_path):
    seen = []

    def collate(rows):
        seen.append(len(rows))
        return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}

    train, test = loaders(tmp_path)
    args = TrainingArguments(num_train_epochs=1, per_device_train_batch_size=5, per_device_eval_batch_size=4)
    bert = make_bert(len(VOCAB), n_layers=1)
    trainer = BERTTrainer(bert, len(VOCAB), train.dataset, test.dataset, with_cuda=False, args=args, data_collator=collate)
    trainer.fit()
    assert seen == [5, 5, 1, 4, 4, 3]
    with pytest.raises(InputError, match="data_collator has no effect"):
        BERTTrainer(bert, len(VOCAB), train, with_cuda=False, data_collator=collate)
    with pytest.raises(InputError, match="batch size has no effect"):
        BERTTrainer(bert, len(VOCAB), train, with_cuda=False, args=args)


@pytest.mark.parametrize("parts", [(1, 12), (3, 4), (12, 1)])
def test_accumulated_steps_are_those_of_the_one_big_batch(tmp_path, parts):
    """11 pairs with unequal numbers of targets: one batch, or several added up, with the small last one."""
    accumulation, batch_size = parts
    (tmp_path / "big").mkdir()
    settings = {"num_train_epochs": 1, "save_strategy": "no", "held_out": False, "dropout": 0.0}
    big = start(tmp_path / "big", batch_size=12, **settings)
    some = start(tmp_path, batch_size=batch_size, gradient_accumulation_steps=accumulation, **settings)
    for trainer in (big, some):
        trainer.language_model.to(torch.float64)
        trainer.fit()
    assert some.optim_schedule.n_current_steps == big.optim_schedule.n_current_steps == 1
    gradients = [{name: value.grad for name, value in trainer.language_model.named_parameters()} for trainer in (big, some)]
    for name, value in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], value, rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize("logging_steps", [1, 3, 5, 50])
def test_logs_tell_of_every_step_once_also_across_passes(tmp_path, logging_steps):
    seen = []

    class Count:
        def on_log(self, args, state, control, logs):
            if "loss" in logs:
                seen.append((state.global_step, state.num_input_tokens_seen))

    trainer = start(tmp_path, num_train_epochs=3, logging_steps=logging_steps, callbacks=[Count()], held_out=False)
    trainer.fit()
    trainer.train_data.set_epoch(0)
    tokens = []
    for epoch in range(3):
        trainer.train_data.set_epoch(epoch)
        tokens += [int((batch["bert_input"] != 0).sum()) for batch in trainer.train_data]
    assert seen == [(step, sum(tokens[:step])) for step in range(logging_steps, 13, logging_steps)]
