"""The two losses and what is measured beside them."""

import math

import pytest
import torch

from .examples import L, V, make_batch, make_batches, make_trainer, weights

PROMISED = {"loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy"}


@pytest.fixture
def criterion():
    return make_trainer().criterion


def rebatched(batches, size):
    """The same rows in batches of another size; the last may be ragged."""
    rows = {key: torch.cat([batch[key] for batch in batches]) for key in batches[0]}
    return [{key: value[start : start + size] for key, value in rows.items()} for start in range(0, 11, size)]


def eleven_rows():
    """Eleven rows with different numbers of targets, the first with none."""
    batches = make_batches(11, n_sequences=1)
    for i, batch in enumerate(batches):
        batch["bert_label"] = torch.where(torch.arange(L) < i % 6, batch["bert_input"], 0)
    return batches


def test_next_sentence_loss_counts_both_answers(criterion):
    log_probabilities = torch.tensor([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]]).log()
    loss = criterion(log_probabilities, torch.tensor([0, 1, 0]))
    assert loss.item() == pytest.approx((math.log(4) + math.log(2) + math.log(8)) / 3)


def test_an_all_negative_batch_has_a_loss_and_gradients(criterion):
    logits = torch.zeros(5, 2, requires_grad=True)
    loss = criterion(logits.log_softmax(-1), torch.zeros(5, dtype=torch.int64))
    loss.backward()
    assert loss.item() == pytest.approx(math.log(2))
    assert logits.grad.tolist() == [pytest.approx([-0.1, 0.1])] * 5


@pytest.mark.parametrize("flat", [True, False])
def test_masked_word_loss_is_the_mean_over_targets_alone(criterion, flat):
    torch.manual_seed(3)
    log_probabilities = torch.randn(2, L, V).log_softmax(-1)
    target = torch.zeros(2, L, dtype=torch.int64)
    target[0, 1], target[0, 5], target[1, 2] = 7, 22, 1
    expected = -(log_probabilities[0, 1, 7] + log_probabilities[0, 5, 22] + log_probabilities[1, 2, 1]) / 3
    if flat:
        loss = criterion(log_probabilities[target != 0], target[target != 0])
    else:
        loss = criterion(log_probabilities.transpose(1, 2), target)
    assert loss.item() == pytest.approx(expected.item())


@pytest.mark.parametrize("shape", [(2, V, L), (0, V)])
def test_without_a_target_the_masked_word_loss_is_zero_and_differentiable(criterion, shape):
    logits = torch.zeros(shape, requires_grad=True)
    target = torch.zeros((2, L) if len(shape) == 3 else (0,), dtype=torch.int64)
    loss = criterion(logits.log_softmax(1), target)
    loss.backward()
    assert loss.item() == 0.0
    assert not logits.grad.any()


def test_reports_are_floats_with_the_promised_names():
    trainer = make_trainer(test_data=make_batches(2))
    for report in (trainer.train(0), trainer.test(0)):
        assert report.keys() >= PROMISED
        assert {type(value) for value in report.values()} == {float}
        assert report["loss"] == pytest.approx(report["mlm_loss"] + report["nsp_loss"])
        assert 0 <= report["mlm_accuracy"] <= 1
        assert 0 <= report["nsp_accuracy"] <= 1


def test_a_report_is_what_the_model_says_about_the_data():
    batches = eleven_rows()
    trainer = make_trainer(test_data=rebatched(batches, 4))
    rows = rebatched(batches, 11)[0]
    trainer.model.eval()
    with torch.no_grad():
        next_sentence, words = trainer.model(rows["bert_input"], rows["segment_label"])
    is_target = rows["bert_label"] != 0
    picked = words[is_target].gather(1, rows["bert_label"][is_target][:, None])
    report = trainer.test(0)
    assert report["n_targets"] == is_target.sum().item() == 25
    assert report["n_items"] == 11
    assert report["real_tokens"] == 77
    assert report["mlm_loss"] == pytest.approx(-picked.mean().item(), abs=1e-5)
    assert report["nsp_loss"] == pytest.approx(-next_sentence.gather(1, rows["is_next"][:, None]).mean().item(), abs=1e-5)
    right = (words.argmax(-1) == rows["bert_label"])[is_target]
    assert report["mlm_accuracy"] == pytest.approx(right.double().mean().item())
    assert report["nsp_accuracy"] == pytest.approx((next_sentence.argmax(-1) == rows["is_next"]).double().mean().item())


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10])
def test_a_report_does_not_depend_on_the_batch_size(size):
    batches = eleven_rows()
    whole = make_trainer(test_data=rebatched(batches, 11)).test(0)
    split = make_trainer(test_data=rebatched(batches, size)).test(0)
    for name in sorted(PROMISED | {"n_targets", "n_items", "real_tokens"}):
        assert split[name] == pytest.approx(whole[name], abs=1e-6), name


def test_a_training_report_is_weighted_by_targets_and_items_too():
    batches = eleven_rows()
    reports = {}
    for size in (2, 11):
        # So small a rate that the weights do not move: only the averaging is left.
        trainer = make_trainer(rebatched(batches, size), lr=1e-12, warmup_steps=0, dropout=0.0)
        reports[size] = trainer.train(0)
    for name in sorted(PROMISED):
        assert reports[2][name] == pytest.approx(reports[11][name], abs=1e-5), name


def test_real_tokens_are_those_that_are_not_padding():
    assert make_trainer(test_data=make_batches(2, n_padding=5)).test(0)["real_tokens"] == 28


def test_an_all_negative_run_learns_not_next():
    batch = make_batch(n_sequences=5, is_next=torch.zeros(5, dtype=torch.int64))
    trainer = make_trainer([batch], lr=0.01, warmup_steps=0, dropout=0.0)
    reports = [trainer.train(epoch) for epoch in range(20)]
    assert reports[0]["nsp_loss"] == pytest.approx(math.log(2), abs=0.1)
    assert reports[-1]["nsp_loss"] < 0.05
    assert reports[-1]["nsp_accuracy"] == 1.0


def test_a_batch_without_masked_words_trains_the_next_sentence_alone():
    batch = make_batch(n_sequences=5)
    batch["bert_label"][:] = 0
    trainer = make_trainer([batch], lr=0.01, warmup_steps=0)
    report = trainer.train(0)
    assert report["n_targets"] == 0
    assert math.isfinite(report["loss"])
    assert report["loss"] == report["nsp_loss"]
    assert {value.isfinite().all().item() for value in weights(trainer).values()} == {True}


def test_a_batch_of_padding_alone_does_no_harm():
    batch = {key: torch.zeros_like(value) for key, value in make_batch().items()}
    trainer = make_trainer([batch, make_batch()], lr=0.01, warmup_steps=0)
    assert math.isfinite(trainer.train(0)["loss"])
    assert {value.isfinite().all().item() for value in weights(trainer).values()} == {True}


def test_word_counts_start_the_model_at_the_unigram_distribution():
    counts = [0] * 5 + list(range(1, V - 4))
    batch = make_batch(n_sequences=40)
    plain = make_trainer(test_data=[batch]).test(0)
    informed = make_trainer(test_data=[batch], word_counts=counts).test(0)
    frequency = {word: (n + 1) / (sum(counts) + V) for word, n in enumerate(counts)}
    targets = batch["bert_label"][batch["bert_label"] != 0].tolist()
    unigram = -sum(math.log(frequency[word]) for word in targets) / len(targets)
    assert informed["unigram_loss"] == pytest.approx(unigram, abs=1e-5)
    assert informed["unigram_accuracy"] == pytest.approx(targets.count(V - 1) / len(targets))
    assert informed["mlm_loss"] == pytest.approx(unigram, abs=0.1)
    assert plain["mlm_loss"] == pytest.approx(math.log(V), abs=0.1)
