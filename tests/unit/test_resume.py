"""A resumed run equals an unbroken one to the bit: at the end of a pass and within one, with our loader and with others."""

import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from bert_pytorch import BERTDataset
from bert_pytorch.dataset.loader import BatchLoader

from .examples import make_batches, make_trainer, make_vocab, same_tensors, story_pairs, whole_state, write_pairs

N_EPOCHS = 3
N_STEPS = 4 * N_EPOCHS
KINDS = ("list", "own order", "ours", "plain")
HELPED = ("ours, workers", "plain, workers")


class Fused:
    """A loader that is interrupted when so many batches have been asked for."""

    fuse = None

    def __iter__(self):
        for batch in super().__iter__():
            if self.fuse is not None:
                self.fuse -= 1
                if self.fuse < 0:
                    raise KeyboardInterrupt
            yield batch


class OurLoader(Fused, BatchLoader):
    """This library's."""


class PlainLoader(Fused, DataLoader):
    """That of torch."""


class Told(list):
    """A loader of another make: batches in a list, in a new order each pass, drawn from torch's global generator."""

    def __iter__(self):
        return iter([self[i] for i in torch.randperm(len(self)).tolist()])


def loader_of(kind, path):
    if kind == "list":
        return make_batches(4)
    if kind == "own order":
        return Told(make_batches(4))
    dataset = BERTDataset(path, make_vocab(story_pairs()), 13, seed=5)
    n_workers = 2 if "workers" in kind else 0
    if kind.startswith("ours"):
        return OurLoader(dataset, 3, n_workers, shuffle=True)
    return PlainLoader(dataset, batch_size=3, shuffle=True, num_workers=n_workers)


def start(kind, path, max_steps=N_STEPS):
    """A new trainer as a new process would build it, whatever was drawn before."""
    loader = loader_of(kind, path)
    vocab_size = len(make_vocab(story_pairs())) if isinstance(loader, Fused) else 23
    return make_trainer(loader, dropout=0.3, lr=0.01, vocab_size=vocab_size, max_steps=max_steps, warmup_steps=3)


def measured(report):
    return {name: value for name, value in report.items() if name != "seconds"}


@pytest.fixture
def path(tmp_path):
    return write_pairs(tmp_path / "corpus.txt", story_pairs())


def unbroken(kind, path):
    trainer = start(kind, path)
    reports = [measured(trainer.train(epoch)) for epoch in range(N_EPOCHS)]
    return whole_state(trainer), reports


def go_on(kind, path, checkpoint):
    """Resume in a trainer whose surroundings have drawn other numbers, and train to the end."""
    trainer = start(kind, path)
    torch.manual_seed(999)
    first = trainer.resume(checkpoint)
    reports = [measured(trainer.train(epoch)) for epoch in range(first, N_EPOCHS)]
    return whole_state(trainer), reports


@pytest.mark.parametrize(("kind", "n_done"), [*((kind, n) for kind in KINDS for n in (1, 2)), *((kind, 1) for kind in HELPED)])
def test_a_run_resumed_at_the_end_of_a_pass_equals_the_unbroken_one(kind, path, tmp_path, n_done):
    expected, reports = unbroken(kind, path)
    broken = start(kind, path)
    for epoch in range(n_done):
        broken.train(epoch)
    checkpoint = broken.save(n_done - 1, str(tmp_path / "model"))
    state, later = go_on(kind, path, checkpoint)
    assert later == reports[n_done:]
    assert same_tensors(state, expected)


@pytest.mark.parametrize("kind", ["ours", "plain"])
@pytest.mark.parametrize("n_batches", [0, 1, 2, 3, 5, 11])
def test_a_run_interrupted_within_a_pass_goes_on_where_it_was(kind, path, tmp_path, n_batches):
    expected, _ = unbroken(kind, path)
    broken = start(kind, path)
    epoch, within = divmod(n_batches, 4)
    for done in range(epoch):
        broken.train(done)
    broken.train_data.fuse = within
    with pytest.raises(KeyboardInterrupt):
        broken.train(epoch)
    assert broken.optim_schedule.n_current_steps == n_batches
    checkpoint = broken.save(epoch, str(tmp_path / "model"))
    state, _ = go_on(kind, path, checkpoint)
    assert state["schedule"]["n_current_steps"] == N_STEPS
    assert same_tensors(state, expected)


@pytest.mark.parametrize(
    ("kind", "n_batches"), [*((kind, n) for kind in KINDS for n in (1, 6)), *((kind, 6) for kind in HELPED)]
)
def test_a_run_stopped_by_its_steps_within_a_pass_goes_on_where_it_was(kind, path, tmp_path, n_batches):
    expected, _ = unbroken(kind, path)
    broken = start(kind, path)
    broken.max_steps = n_batches
    for epoch in range(n_batches // 4 + 1):
        broken.train(epoch)
    checkpoint = broken.save(n_batches // 4, str(tmp_path / "model"))
    state, _ = go_on(kind, path, checkpoint)
    assert same_tensors(state, expected)


@pytest.mark.parametrize("kind", ["ours", "plain"])
def test_a_run_interrupted_within_a_step_repeats_that_step(kind, path, tmp_path):
    expected, _ = unbroken(kind, path)
    broken = start(kind, path)
    seen = []

    def interrupt(module, inputs, output):
        seen.append(output)
        if len(seen) == 3:
            raise KeyboardInterrupt

    broken.bert.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        broken.train(0)
    assert broken.optim_schedule.n_current_steps == 2
    checkpoint = broken.save(0, str(tmp_path / "model"))
    state, _ = go_on(kind, path, checkpoint)
    assert same_tensors(state, expected)


@pytest.mark.parametrize("kind", ["ours", "plain"])
def test_a_checkpoint_of_a_resumed_run_is_as_good_as_the_first(kind, path, tmp_path):
    """Saved again right after resuming, before any training."""
    expected, _ = unbroken(kind, path)
    broken = start(kind, path)
    broken.max_steps = 2
    broken.train(0)
    first = broken.save(0, str(tmp_path / "first"))
    between = start(kind, path)
    between.resume(first)
    second = between.save(0, str(tmp_path / "second"))
    state, _ = go_on(kind, path, second)
    assert same_tensors(state, expected)


@pytest.mark.parametrize("kind", ["ours", "plain"])
def test_evaluation_between_resuming_and_training_changes_nothing(kind, path, tmp_path):
    expected, _ = unbroken(kind, path)
    broken = start(kind, path)
    broken.max_steps = 6
    for epoch in (0, 1):
        broken.train(epoch)
    checkpoint = broken.save(1, str(tmp_path / "model"))
    trainer = start(kind, path)
    trainer.test_data = loader_of(kind, path)
    trainer.resume(checkpoint)
    trainer.test(1)
    for epoch in (1, 2):
        trainer.train(epoch)
    assert same_tensors(whole_state(trainer), expected)


def test_resume_returns_the_pass_to_go_on_with(path, tmp_path):
    broken = start("ours", path)
    broken.train(0)
    at_end = broken.save(0, str(tmp_path / "end"))
    broken.max_steps = 6
    broken.train(1)
    within = broken.save(1, str(tmp_path / "within"))
    assert start("ours", path).resume(at_end) == 1
    assert start("ours", path).resume(within) == 1


@pytest.mark.parametrize("wrong", [0, 2])
def test_going_on_with_another_pass_is_an_error_and_spoils_nothing(path, tmp_path, wrong):
    expected, _ = unbroken("ours", path)
    broken = start("ours", path)
    broken.max_steps = 6
    for epoch in (0, 1):
        broken.train(epoch)
    checkpoint = broken.save(1, str(tmp_path / "model"))
    trainer = start("ours", path)
    trainer.resume(checkpoint)
    with pytest.raises(ValueError, match=rf"{wrong}.*\b1\b.*\[E-RESUME-EPOCH\]$"):
        trainer.train(wrong)
    for epoch in (1, 2):
        trainer.train(epoch)
    assert same_tensors(whole_state(trainer), expected)


class Stream:
    """A loader of unknown length."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


def stopped(batches, n_steps, tmp_path):
    trainer = make_trainer(Stream(batches), dropout=0.3, lr=0.01, warmup_steps=0)
    trainer.max_steps = n_steps
    trainer.train(0)
    return trainer.save(0, str(tmp_path / "model"))


def test_a_stream_that_ended_with_the_last_step_goes_on_with_its_next_pass(tmp_path):
    checkpoint = stopped(make_batches(4), 4, tmp_path)
    trainer = make_trainer(Stream(make_batches(4)), dropout=0.3, lr=0.01, warmup_steps=0)
    first = trainer.resume(checkpoint)
    for epoch in range(first, 2):
        trainer.train(epoch)
    expected = make_trainer(Stream(make_batches(4)), dropout=0.3, lr=0.01, warmup_steps=0)
    for epoch in (0, 1):
        expected.train(epoch)
    assert same_tensors(whole_state(trainer), whole_state(expected))


def test_a_loader_that_ends_before_the_place_to_go_on_is_an_error(tmp_path):
    checkpoint = stopped(make_batches(6), 5, tmp_path)
    trainer = make_trainer(Stream(make_batches(2)), lr=0.01, dropout=0.3, warmup_steps=0)
    trainer.resume(checkpoint)
    with pytest.raises(ValueError, match=r"\[E-[A-Z-]+\]$"):
        trainer.train(0)


@pytest.mark.parametrize(
    ("options", "name", "values"),
    [
        ({"max_steps": 20}, "total_steps", ("12", "20")),
        ({"warmup_steps": 5}, "warmup_steps", ("3", "5")),
        ({"settings": {"batch_size": 7}}, "batch_size", ("3", "7")),
    ],
)
def test_a_changed_plan_is_said(path, tmp_path, options, name, values):
    common = {"max_steps": 12, "warmup_steps": 3, "settings": {"batch_size": 3}}
    trainer = make_trainer(make_batches(4), **common)
    trainer.train(0)
    checkpoint = trainer.save(0, str(tmp_path / "model"))
    with pytest.warns(UserWarning, match=rf"{name} was {values[0]}, is now {values[1]}"):
        make_trainer(make_batches(4), **{**common, **options}).resume(checkpoint)


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"lr": 0.5}, lambda trainer: trainer.optim.param_groups[0]["lr"] == 0.5),
        ({"weight_decay": 0.5}, lambda trainer: trainer.optim.param_groups[0]["weight_decay"] == 0.5),
        ({"betas": (0.5, 0.6)}, lambda trainer: tuple(trainer.optim.param_groups[0]["betas"]) == (0.5, 0.6)),
    ],
)
def test_a_setting_given_anew_has_its_effect_or_is_refused(tmp_path, options, read):
    trainer = make_trainer(warmup_steps=0)
    trainer.train(0)
    checkpoint = trainer.save(0, str(tmp_path / "model"))
    resumed = make_trainer(warmup_steps=0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            resumed.resume(checkpoint)
        except ValueError as error:
            assert str(error).endswith("]")
        else:
            assert read(resumed)
