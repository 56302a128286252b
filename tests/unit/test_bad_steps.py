"""Steps whose numbers are not finite: what is said, what is kept, and what follows."""

import json

import pytest
import torch

from bert_pytorch.errors import InputError, TrainingError

from .examples import same_tensors
from .runs import VOCAB, checkpoints, history, start


def nan_at(word):
    """A loss that is no number where a batch has a word."""

    def compute_loss(model, batch, n_targets):
        _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
        targets = batch["bert_label"][batch["bert_label"] != 0]
        loss = torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets
        is_there = ((batch["bert_input"] == VOCAB.stoi[word]) | (batch["bert_label"] == VOCAB.stoi[word])).any()
        return loss * (float("nan") if is_there else 1.0)

    return compute_loss


def test_a_bad_line_is_named_its_batch_kept_and_the_run_goes_on(tmp_path):
    trainer = start(tmp_path, num_train_epochs=1, compute_loss=nan_at("a7"), held_out=False)
    with pytest.warns(UserWarning, match=r"update is skipped: pass 0, batch \d, .*corpus.txt line 8; the batch is in"):
        trainer.fit()
    assert trainer.optim_schedule.n_current_steps == 4
    assert all(bool(value.isfinite().all()) for value in trainer.model.state_dict().values())
    assert len(list((tmp_path / "run").glob("bad-step-*.safetensors"))) == 1


def test_bad_steps_in_a_row_end_the_run(tmp_path):
    trainer = start(tmp_path, compute_loss=nan_at("c"), max_bad_steps=1, held_out=False)
    with pytest.raises(TrainingError, match=r"1 in a row.*E-LOSS-NONFINITE"):
        trainer.fit()


def test_raise_ends_the_run_at_the_first(tmp_path):
    trainer = start(tmp_path, compute_loss=nan_at("a7"), nan_policy="raise", held_out=False)
    with pytest.raises(TrainingError, match=r"corpus.txt line 8; .*1 in a row.*E-LOSS-NONFINITE"):
        trainer.fit()


@pytest.mark.parametrize("is_deferred", [False, True])
def test_a_step_left_out_moves_nothing_but_the_plan(tmp_path, is_deferred):
    """On a GPU the fused optimiser leaves it out by itself; the same tensor tells it here."""
    seen = {}

    class Look:
        def on_step_end(self, args, state, control, model, optimizer):
            values = [each.clone() for each in model.state_dict().values()]
            moments = [each.clone() for one in optimizer.state.values() for each in one.values()]
            seen[state.global_step] = values + moments, optimizer.param_groups[0]["lr"]

    def compute_loss(model, batch, n_targets):
        _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
        targets = batch["bert_label"][batch["bert_label"] != 0]
        loss = torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets
        return loss * (float("nan") if len(seen) == 2 else 1.0)

    trainer = start(tmp_path, max_steps=6, warmup_steps=1, callbacks=[Look()], compute_loss=compute_loss, held_out=False)
    trainer.step.is_deferred = is_deferred
    with pytest.warns(UserWarning, match="step 3: the loss is nan, the update is skipped: pass 0, batch 2, "):
        trainer.fit()
    (two, rate_2), (three, rate_3), (four, _) = seen[2], seen[3], seen[4]
    assert all(map(torch.equal, two, three))
    assert not all(map(torch.equal, three, four))
    assert rate_3 < rate_2
    logs = [entry for entry in history(tmp_path) if "loss" in entry]
    assert [entry["step"] for entry in logs] == [2, 4, 6]
    assert all(entry["loss"] > 0 for entry in logs)


@pytest.mark.parametrize("is_deferred", [False, True])
def test_deferred_and_not_are_the_same_run(tmp_path, is_deferred):
    """To the bit, also where the run is cut right behind the bad step."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = {"num_train_epochs": 2, "save_strategy": "steps", "save_steps": 1, "held_out": False}
    trainers = []
    for folder in (whole, cut):
        folder.mkdir()
        trainer = start(folder, compute_loss=nan_at("a7"), **settings)
        trainer.step.is_deferred = is_deferred
        with pytest.warns(UserWarning, match="update is skipped"):
            trainer.fit()
        trainers.append(trainer)
    bad = min(int(path.stem.split("-")[2]) for path in (whole / "run").glob("bad-step-*"))
    again = start(cut, compute_loss=nan_at("a7"), resume_from_checkpoint=str(cut / "run" / f"checkpoint-{bad}"), **settings)
    again.step.is_deferred = is_deferred
    with pytest.warns(UserWarning, match="update is skipped"):
        again.fit()
    assert same_tensors(again.model.state_dict(), trainers[0].model.state_dict())
    assert history(cut) == history(whole)


def test_rollback_takes_the_last_checkpoint_once(tmp_path):
    """From step 4 on the loss is no number: back to step 3, and where that does not help, the end."""
    seen = []

    class Count:
        def on_step_begin(self, args, state, control):
            seen.append(state.global_step)

    def from_step(first, last):
        def compute_loss(model, batch, n_targets):
            _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
            targets = batch["bert_label"][batch["bert_label"] != 0]
            loss = torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets
            return loss * (float("nan") if first <= len(seen) <= last else 1.0)

        return compute_loss

    settings = {
        **{"max_steps": 9, "save_strategy": "steps", "save_steps": 3, "nan_policy": "rollback", "max_bad_steps": 2},
        **{"held_out": False, "callbacks": [Count()]},
    }
    trainer = start(tmp_path, compute_loss=from_step(4, 5), **settings)
    with pytest.warns(UserWarning) as said:
        trainer.fit()
    assert "update is skipped" in str(said[0].message)
    assert "checkpoint-3; the data go on" in str(said[1].message)
    assert len(said) == 2
    assert checkpoints(tmp_path) == [3, 6, 9]
    assert len(seen) == 9
    assert "went back" in " ".join(json.loads((tmp_path / "run" / "report.json").read_text())["warnings"])

    seen.clear()
    (tmp_path / "other").mkdir()
    trainer = start(tmp_path / "other", compute_loss=from_step(4, 99), **settings)
    with pytest.warns(UserWarning) as said, pytest.raises(TrainingError, match=r"step 7.*E-LOSS-NONFINITE"):
        trainer.fit()
    assert ["went back" in str(each.message) for each in said] == [False, True, False]


def test_rollback_restores_weights_and_moments(tmp_path):
    class Spoil:
        """Weights that have gone bad, as a spike leaves them."""

        def on_step_end(self, args, state, control, model, optimizer):
            if state.global_step == 3:
                with torch.no_grad():
                    model.mask_lm.decoder.bias.fill_(float("nan"))
                for each in optimizer.state.values():
                    each["exp_avg"].fill_(float("nan"))

    trainer = start(
        tmp_path,
        callbacks=[Spoil()],
        held_out=False,
        max_steps=8,
        save_strategy="steps",
        save_steps=2,
        nan_policy="rollback",
        max_bad_steps=1,
    )
    with pytest.warns(UserWarning, match="step 4: .*went back to the weights of .*checkpoint-2"):
        trainer.fit()
    assert all(bool(value.isfinite().all()) for value in trainer.model.state_dict().values())
    assert trainer.optim_schedule.n_current_steps == 8


def test_rollback_needs_checkpoints(tmp_path):
    with pytest.raises(InputError, match="rollback needs checkpoints"):
        start(tmp_path, nan_policy="rollback", save_strategy="no")


def test_a_spike_of_the_loss_is_said(tmp_path):
    class Spoil:
        def on_step_end(self, args, state, control, model):
            if state.global_step == 25:
                with torch.no_grad():
                    model.mask_lm.decoder.bias.add_(torch.linspace(-9, 9, len(VOCAB)))

    trainer = start(tmp_path, callbacks=[Spoil()], max_steps=28, held_out=False, save_strategy="no", learning_rate=1e-4)
    with pytest.warns(UserWarning, match=r"step 26: the loss is \d+\.\d+, that of the last 10 logs .*: a spike; "):
        trainer.fit()
    assert any("a spike" in each for each in json.loads((tmp_path / "run" / "report.json").read_text())["warnings"])
