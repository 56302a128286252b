"""Training, evaluation and everything a caller may hand to the trainer."""

import inspect

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from bert_pytorch import BERTLM, BERTTrainer
from bert_pytorch.dataset.loader import BatchLoader

from .examples import (
    V,
    make_batch,
    make_batches,
    make_bert,
    make_dataset,
    make_trainer,
    same_tensors,
    story_pairs,
    weights,
    write_pairs,
)

ANCESTOR_ARGUMENTS = {
    "bert": inspect.Parameter.empty,
    "vocab_size": inspect.Parameter.empty,
    "train_dataloader": inspect.Parameter.empty,
    "test_dataloader": None,
    "lr": 1e-4,
    "betas": (0.9, 0.999),
    "weight_decay": 0.01,
    "warmup_steps": None,
    "with_cuda": True,
    "cuda_devices": None,
    "log_freq": 10,
}


class Again:
    """Batches anew at each pass, of unknown number."""

    def __init__(self, n_batches):
        self.n_batches = n_batches

    def __iter__(self):
        return (make_batch(seed) for seed in range(self.n_batches))


class Examples(IterableDataset):
    def __iter__(self):
        for seed in range(7):
            yield {key: value[0] for key, value in make_batch(seed, n_sequences=1).items()}


def test_arguments_are_those_of_the_ancestor_and_new_ones_are_by_keyword_only():
    arguments = list(inspect.signature(BERTTrainer).parameters.values())
    old = [argument for argument in arguments if argument.kind is argument.POSITIONAL_OR_KEYWORD]
    assert {argument.name: argument.default for argument in old} == ANCESTOR_ARGUMENTS
    assert {argument.kind for argument in arguments[len(old) :]} == {inspect.Parameter.KEYWORD_ONLY}


def test_attributes_are_those_of_the_ancestor():
    bert, train_data, test_data = make_bert(), make_batches(), make_batches(2)
    trainer = BERTTrainer(bert, V, train_data, test_data, with_cuda=False, log_freq=7)
    assert trainer.bert is bert
    assert isinstance(trainer.model, BERTLM)
    assert trainer.model.bert is bert
    assert trainer.device == torch.device("cpu")
    assert (trainer.train_data, trainer.test_data) == (train_data, test_data)
    assert isinstance(trainer.optim, torch.optim.Optimizer)
    assert callable(trainer.optim_schedule.step_and_update_lr)
    assert callable(trainer.criterion)
    assert trainer.log_freq == 7


@pytest.mark.parametrize(("there", "asked", "device"), [(False, True, "cpu"), (False, False, "cpu"), (True, False, "cpu")])
def test_cuda_is_used_only_when_it_is_there_and_asked_for(monkeypatch, there, asked, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    trainer = BERTTrainer(make_bert(), V, make_batches(), with_cuda=asked)
    assert trainer.device == torch.device(device)
    assert {value.device.type for value in trainer.model.parameters()} == {"cpu"}


def test_training_learns_what_can_be_learned():
    trainer = make_trainer(make_batches(2), lr=0.01, warmup_steps=0, dropout=0.0)
    reports = [trainer.train(epoch) for epoch in range(60)]
    assert reports[-1]["mlm_loss"] < 0.1 < 2.0 < reports[0]["mlm_loss"]
    assert reports[-1]["nsp_loss"] < 0.1 < 0.5 < reports[0]["nsp_loss"]
    assert reports[-1]["mlm_accuracy"] == reports[-1]["nsp_accuracy"] == 1.0


def test_a_hand_written_loop_of_the_ancestor_does_what_train_does():
    by_hand = make_trainer(dropout=0.0, lr=0.01, warmup_steps=2, max_grad_norm=None)
    for batch in by_hand.train_data:
        data = {key: value.to(by_hand.device) for key, value in batch.items()}
        next_sentence, words = by_hand.model.forward(data["bert_input"], data["segment_label"])
        next_loss = by_hand.criterion(next_sentence, data["is_next"])
        mask_loss = by_hand.criterion(words.transpose(1, 2), data["bert_label"])
        by_hand.optim_schedule.zero_grad()
        (next_loss + mask_loss).backward()
        by_hand.optim_schedule.step_and_update_lr()
    trainer = make_trainer(dropout=0.0, lr=0.01, warmup_steps=2, max_grad_norm=None)
    start = weights(trainer)
    trainer.train(0)
    ours, theirs = weights(trainer), weights(by_hand)
    for name in ours:
        assert torch.allclose(ours[name], theirs[name], atol=1e-6), name
    assert not torch.allclose(ours["bert.embedding.token.weight"], start["bert.embedding.token.weight"], atol=1e-3)


@pytest.mark.parametrize(
    "loader",
    [
        make_batches(3),
        tuple(make_batches(3)),
        Again(3),
        [{**batch, "note": "kept aside"} for batch in make_batches(3)],
        [{**batch, "extra": torch.ones(1)} for batch in make_batches(3)],
        [{key: value.to(torch.int32) for key, value in batch.items()} for batch in make_batches(3)],
        [{**batch, "is_next": batch["is_next"].bool()} for batch in make_batches(3)],
    ],
)
def test_any_loader_that_yields_the_four_keys_trains_alike(loader):
    expected = make_trainer(make_batches(3), dropout=0.0)
    trainer = make_trainer(loader, dropout=0.0, warmup_steps=3)
    assert [trainer.train(epoch)["steps"] for epoch in (0, 1)] == [3.0, 3.0]
    for epoch in (0, 1):
        expected.train(epoch)
    assert same_tensors(weights(trainer), weights(expected))


def test_a_loader_over_a_stream_can_be_used():
    trainer = make_trainer(DataLoader(Examples(), batch_size=2), warmup_steps=0)
    assert [trainer.train(epoch)["n_items"] for epoch in (0, 1)] == [7.0, 7.0]


def test_a_loader_that_gives_nothing_is_an_error_and_not_a_pass():
    trainer = make_trainer(iter(make_batches(3)), [], warmup_steps=0)
    trainer.train(0)
    with pytest.raises(ValueError, match=r"\[E-TRAINER-NO-DATA\]$"):
        trainer.train(1)
    with pytest.raises(ValueError, match=r"\[E-TRAINER-NO-DATA\]$"):
        trainer.test(0)


def test_evaluation_without_test_data_is_an_error():
    with pytest.raises(ValueError, match=r"test_dataloader.*\[E-TRAINER-NO-TEST\]$"):
        make_trainer().test(0)


@pytest.mark.parametrize("place", ["dataset", "sampler", "batch_sampler"])
def test_the_loader_is_told_which_pass_it_is(place):
    class Told:
        epochs: list[int]

        def __init__(self):
            self.epochs = []

        def set_epoch(self, epoch):
            self.epochs.append(epoch)

    loader = Again(1)
    setattr(loader, place, Told())
    trainer = make_trainer(loader, warmup_steps=0)
    for epoch in (0, 1, 5):
        trainer.train(epoch)
    assert getattr(loader, place).epochs == [0, 1, 5]


def test_each_pass_has_masks_of_its_own_without_the_callers_doing(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt")
    trainer = make_trainer(BatchLoader(dataset, 4, shuffle=True), vocab_size=len(dataset.vocab))
    seen = []
    for epoch in (0, 1):
        trainer.train(epoch)
        seen.append([dataset[i]["bert_input"].tolist() for i in range(11)])
    assert seen[0] != seen[1]


def test_evaluation_has_neither_gradients_nor_dropout():
    trainer = make_trainer(test_data=make_batches(2), dropout=0.9)
    seen = []

    def look(module, inputs, output):
        seen.append((module.training, torch.is_grad_enabled(), output.requires_grad))

    trainer.bert.register_forward_hook(look)
    first, second = ({**trainer.test(0), "seconds": None} for _ in range(2))
    assert first == second
    assert set(seen) == {(False, False, False)}
    assert [value.grad for value in trainer.model.parameters() if value.grad is not None] == []
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("mode", [True, False])
@pytest.mark.parametrize("work", ["train", "test"])
def test_the_mode_of_the_model_is_restored(mode, work):
    trainer = make_trainer(test_data=make_batches(2))
    trainer.model.train(mode)
    getattr(trainer, work)(0)
    assert {module.training for module in trainer.model.modules()} == {mode}


def test_the_mode_is_restored_when_a_loader_fails():
    def broken():
        yield make_batch()
        raise RuntimeError("broken loader")

    trainer = make_trainer(test_data=broken())
    with pytest.raises(RuntimeError, match="broken loader"):
        trainer.test(0)
    assert trainer.model.training
    assert torch.is_grad_enabled()


def test_evaluation_does_not_change_later_training(tmp_path):
    final = []
    for n_tests in (0, 2):
        dataset = make_dataset(tmp_path / "corpus.txt")
        test_data = DataLoader(dataset, batch_size=3, shuffle=True)
        loader = DataLoader(dataset, batch_size=3, shuffle=True)
        trainer = make_trainer(loader, test_data, dropout=0.3, vocab_size=len(dataset.vocab))
        for epoch in range(3):
            for _ in range(n_tests):
                trainer.test(epoch)
            trainer.train(epoch)
        final.append((weights(trainer), trainer.optim.state_dict(), torch.get_rng_state()))
    assert same_tensors(final[0], final[1])


def test_max_steps_stops_within_a_pass_and_later_passes_do_nothing():
    trainer = make_trainer(make_batches(4), max_steps=6)
    assert [trainer.train(epoch)["steps"] for epoch in (0, 1)] == [4.0, 2.0]
    before = weights(trainer)
    assert trainer.train(2)["steps"] == 0.0
    assert trainer.optim_schedule.n_current_steps == 6
    assert same_tensors(weights(trainer), before)


def test_nothing_goes_to_stdout(tmp_path, capsys):
    trainer = make_trainer(test_data=make_batches(2), log_freq=1)
    trainer.train(0)
    trainer.test(0)
    trainer.save(0, str(tmp_path / "model"))
    assert capsys.readouterr().out == ""


def test_progress_names_the_loss_at_each_log_freq_steps(capsys):
    trainer = make_trainer(make_batches(7), log_freq=3)
    trainer.train(0)
    lines = [line for line in capsys.readouterr().err.splitlines() if "loss" in line]
    assert len(lines) == 2


def test_a_user_error_within_a_worker_is_still_one_line(tmp_path):
    path = tmp_path / "corpus.txt"
    dataset = make_dataset(path, on_memory=False)
    trainer = make_trainer(BatchLoader(dataset, 4, 1, shuffle=False), vocab_size=len(dataset.vocab))
    write_pairs(path, story_pairs(12))
    with pytest.raises(ValueError) as caught:
        trainer.train(0)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("[E-CORPUS-CHANGED]")
