"""Callbacks: which events come, in what order, with what."""

import pytest

from bert_pytorch.errors import InputError
from bert_pytorch.trainer.callbacks import EVENTS

from .runs import start


class Recorder:
    """Has every event, and writes down those that come."""

    def __init__(self):
        self.seen = []

    def __getattr__(self, name):
        if name not in EVENTS:
            raise AttributeError(name)
        return lambda args, state, control: self.seen.append((name, state.global_step))


def test_the_events_of_a_run_in_their_order(tmp_path):
    """One pass of two steps of two batches each, the second of them with a log, an evaluation of 4 batches and a save."""
    recorder = Recorder()
    trainer = start(tmp_path, callbacks=[recorder], num_train_epochs=1, gradient_accumulation_steps=2)
    trainer.fit()
    step = ["on_step_begin", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step", "on_step_end"]
    evaluation = [*["on_prediction_step"] * 4, "on_log", "on_evaluate"]
    begin, end = ["on_init_end", "on_train_begin", "on_epoch_begin"], ["on_train_end", "on_run_end"]
    assert [name for name, _ in recorder.seen] == [*begin, *step, *step, "on_log", "on_epoch_end", *evaluation, "on_save", *end]
    assert {name for name, _ in recorder.seen} == set(EVENTS)
    assert [at for name, at in recorder.seen if name == "on_step_end"] == [1, 2]


def test_an_event_gets_what_it_names(tmp_path):
    got = {}

    class Named:
        def on_log(self, args, state, control, logs, lr_scheduler):
            got["log"] = logs["step"], lr_scheduler

        def on_train_begin(self, args, state, control, **things):
            got["all"] = sorted(things)

        def on_pre_optimizer_step(self, args, state, control, model, optimizer):
            got["gradient"] = all(each.grad is not None for each in model.bert.parameters())
            got["optimizer"] = optimizer

    trainer = start(tmp_path, callbacks=[Named()], max_steps=2, held_out=False)
    trainer.fit()
    assert got["log"] == (2, trainer.optim_schedule)
    assert got["gradient"]
    assert got["optimizer"] is trainer.optim
    loaders = ["eval_dataloader", "train_dataloader"]
    assert got["all"] == sorted([*loaders, "lr_scheduler", "model", "optimizer", "trainer"])


@pytest.mark.parametrize("wrong", [object(), Recorder, 3])
def test_what_has_no_event_is_refused(tmp_path, wrong):
    with pytest.raises(InputError, match=r"has no event.*E-CALLBACK-EVENTS"):
        start(tmp_path, callbacks=[wrong]).fit()


def test_smoothing_beside_a_loss_of_ones_own_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"label_smoothing_factor has no effect.*E-SETTING-CONFLICT"):
        start(tmp_path, compute_loss=lambda model, batch, n: 0.0, label_smoothing_factor=0.1)
