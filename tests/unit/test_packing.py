"""Rows that hold several examples: each is encoded, predicted and counted as if it stood alone."""

import pytest
import torch

from bert_pytorch import BERTLM
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.model.bert import positions_within, starts_of

from .examples import make_bert, make_dataset, make_trainer, same_tensors, weights

PAIRS = [(f"id{i}" + " a" * (i * 7 % 5), "b" + f" c{i % 13}" * (i * 5 % 7)) for i in range(61)]


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "corpus.txt", PAIRS, seq_len=17, seed=5)


def test_positions_begin_anew_with_each_example():
    example = torch.tensor([[1, 1, 1, 2, 2, 3, 0, 0], [1, 2, 2, 2, 2, 2, 2, 2]])
    assert positions_within(example)[0, :6].tolist() == [0, 1, 2, 0, 1, 0]
    assert positions_within(example)[1].tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    assert (starts_of(example) & (example != 0)).nonzero().tolist() == [[0, 0], [0, 3], [0, 5], [1, 0], [1, 1]]


def alone(batch):
    """The examples of a packed batch, one a row, padded at the end."""
    rows = {key: [] for key in ("bert_input", "bert_label", "segment_label")}
    for row, numbers in enumerate(batch["example"]):
        for number in range(1, int(numbers.max()) + 1):
            for key, values in rows.items():
                values.append(batch[key][row][numbers == number])
    padded = {key: torch.nn.utils.rnn.pad_sequence(values, batch_first=True) for key, values in rows.items()}
    return {**padded, "is_next": batch["is_next"]}


def test_predictions_and_gradients_are_those_of_examples_that_stand_alone(dataset):
    model = BERTLM(make_bert(len(dataset.vocab)), len(dataset.vocab)).eval()
    batch = next(iter(BatchLoader(dataset, 8, shuffle=True, packing=True)))
    assert batch["example"].max() > 1
    apart = alone(batch)
    results = []
    for given in (batch, apart):
        next_sentence, words = model(given["bert_input"], given["segment_label"], given["bert_label"], given.get("example"))
        loss = -next_sentence.gather(1, given["is_next"][:, None]).sum() - words[:, 7].sum()
        model.zero_grad()
        loss.backward()
        results.append((next_sentence, words, *(p.grad for p in model.parameters() if p.grad is not None)))
    for packed, single in zip(*results, strict=True):
        torch.testing.assert_close(packed, single, rtol=1e-4, atol=1e-5)


def test_what_stands_beside_an_example_does_not_reach_it(dataset):
    model = BERTLM(make_bert(len(dataset.vocab)), len(dataset.vocab)).eval()
    batch = next(iter(BatchLoader(dataset, 8, packing=True)))
    changed = batch["bert_input"].clone()
    changed[batch["example"] == 2] = 9
    hidden, other = (model.bert(ids, batch["segment_label"], batch["example"]) for ids in (batch["bert_input"], changed))
    beside = (batch["example"] != 2) & (batch["example"] != 0)
    assert torch.equal(hidden[beside], other[beside])
    assert not torch.equal(hidden[batch["example"] == 2], other[batch["example"] == 2])


def test_a_pass_over_packed_batches_measures_what_one_over_plain_batches_does(dataset):
    reports = []
    for packing in (False, True):
        loader = BatchLoader(dataset, 8, shuffle=True, packing=packing)
        trainer = make_trainer(loader, loader, dropout=0.0, vocab_size=len(dataset.vocab), word_counts=dataset.word_counts)
        reports.append(trainer.test(0))
    for name in ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy", "unigram_loss"):
        assert reports[0][name] == pytest.approx(reports[1][name], abs=1e-6)
    for name in ("n_targets", "n_items", "real_tokens"):
        assert reports[0][name] == reports[1][name]
    assert reports[0]["n_items"] == 61


def test_one_step_on_a_packed_batch_is_that_on_the_same_examples_apart(dataset):
    batch = next(iter(BatchLoader(dataset, 8, shuffle=True, packing=True)))
    after = []
    for given in (batch, alone(batch)):
        trainer = make_trainer([given], dropout=0.0, vocab_size=len(dataset.vocab), warmup_steps=0)
        trainer.train(0)
        after.append(weights(trainer))
    for name, value in after[0].items():
        torch.testing.assert_close(value, after[1][name], rtol=1e-3, atol=2e-5)


def packed_batch():
    example = torch.tensor([[1, 1, 1, 2, 2, 2, 2], [1, 1, 1, 1, 0, 0, 0]])
    inputs = torch.tensor([[3, 7, 2, 3, 4, 9, 2], [3, 4, 8, 2, 0, 0, 0]])
    labels = torch.tensor([[0, 0, 0, 0, 6, 0, 0], [0, 5, 0, 0, 0, 0, 0]])
    segments = (inputs != 0).long()
    answers = torch.tensor([1, 0, 1])
    return {"bert_input": inputs, "bert_label": labels, "segment_label": segments, "example": example, "is_next": answers}


def test_a_batch_by_hand_is_taken():
    report = make_trainer([packed_batch()], warmup_steps=0).train(0)
    assert (report["n_items"], report["n_targets"], report["real_tokens"]) == (3, 2, 11)


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("is_next", torch.tensor([1, 0]), "E-BATCH-SHAPE"),
        ("example", torch.ones(2, 7, dtype=torch.int64), "E-BATCH-RANGE"),
        ("example", torch.ones(2, 6, dtype=torch.int64), "E-BATCH-SHAPE"),
        ("example", packed_batch()["example"].float(), "E-BATCH-DTYPE"),
        ("example", packed_batch()["example"] - 3 * (packed_batch()["example"] == 2), "E-BATCH-RANGE"),
    ],
)
def test_numbers_of_examples_that_cannot_be_are_refused(key, value, code):
    trainer = make_trainer([{**packed_batch(), key: value}])
    before = weights(trainer)
    with pytest.raises(ValueError, match=rf"{key}.*\[{code}\]$"):
        trainer.train(0)
    assert same_tensors(weights(trainer), before)
