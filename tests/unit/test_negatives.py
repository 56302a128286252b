"""Partners for "not next" examples: never the true one, evenly drawn, as often as true ones."""

import math
from collections import Counter

import pytest

from bert_pytorch import BERTDataset

from .examples import make_dataset, make_vocab, write_pairs

on_both = pytest.mark.parametrize("on_memory", [True, False])


def sentences(dataset, index, n_epochs):
    """The texts and answers of one index over many passes."""
    found = []
    for epoch in range(n_epochs):
        dataset.set_epoch(epoch)
        found.append(dataset.random_sent(index))
    return found


@on_both
def test_a_not_next_partner_never_has_the_text_of_the_true_one(tmp_path, on_memory):
    same = ["x y", "x  y", " x y ", "x\u00a0y", "x\u2003 y", "x y"]
    pairs = [(f"first{i}", second) for i, second in enumerate([*same, "other", "x", "y x", "other"])]
    dataset = make_dataset(tmp_path / "corpus.txt", pairs, on_memory=on_memory)
    for index, (first, second) in enumerate(pairs):
        for got_first, got_second, is_next in sentences(dataset, index, 60):
            assert got_first == first
            assert (got_second.split() == second.split()) == (is_next == 1)


@on_both
def test_examples_carry_the_partner_that_their_answer_says(tmp_path, on_memory):
    pairs = [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")]
    dataset = make_dataset(tmp_path / "corpus.txt", pairs, seq_len=5, on_memory=on_memory)
    x, y = dataset.vocab.stoi["x"], dataset.vocab.stoi["y"]
    seen = set()
    for epoch in range(60):
        dataset.set_epoch(epoch)
        for index in range(4):
            example = dataset[index]
            word = (example["bert_label"] + (example["bert_label"] == 0) * example["bert_input"])[3].item()
            true = y if index == 3 else x
            assert word in (x, y)
            assert (word == true) == (example["is_next"].item() == 1)
            seen.add((index, example["is_next"].item()))
    assert len(seen) == 8


@on_both
@pytest.mark.parametrize("pairs", [[("a", "b")], [("a", "b"), ("c", "b")], [("a", "b c"), ("d", "b  c"), ("e", " b c")]])
def test_a_corpus_without_another_partner_has_no_negatives(tmp_path, on_memory, pairs):
    dataset = make_dataset(tmp_path / "corpus.txt", pairs, on_memory=on_memory)
    for index in range(len(pairs)):
        assert {is_next for _, _, is_next in sentences(dataset, index, 60)} == {1}
        assert dataset[index]["is_next"].item() == 1


def test_half_of_the_examples_are_negatives(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt")
    answers = [is_next for index in range(11) for _, _, is_next in sentences(dataset, index, 400)]
    n = len(answers)
    assert abs(sum(answers) / n - 0.5) <= 4 * math.sqrt(0.25 / n)


def test_one_rare_partner_is_enough_for_half_negatives(tmp_path):
    pairs = [(f"a{i}", "same") for i in range(30)] + [("z", "rare")]
    dataset = make_dataset(tmp_path / "corpus.txt", pairs)
    found = [sentence for index in range(30) for sentence in sentences(dataset, index, 40)]
    assert {(second, is_next) for _, second, is_next in found} == {("same", 1), ("rare", 0)}
    share = sum(is_next for _, _, is_next in found) / len(found)
    assert abs(share - 0.5) <= 4 * math.sqrt(0.25 / len(found))


def test_each_other_line_is_drawn_alike(tmp_path):
    pairs = [(f"a{i}", f"b{i}") for i in range(7)]
    dataset = make_dataset(tmp_path / "corpus.txt", pairs)
    for index in range(7):
        drawn = Counter(second for _, second, is_next in sentences(dataset, index, 1500) if is_next == 0)
        assert set(drawn) == {f"b{i}" for i in range(7) if i != index}
        expected = sum(drawn.values()) / 6
        chi_square = sum((n - expected) ** 2 / expected for n in drawn.values())
        assert chi_square < 5 + 4 * math.sqrt(2 * 5)


def test_negatives_change_from_pass_to_pass_and_from_seed_to_seed(tmp_path):
    pairs = [(f"a{i}", f"b{i}") for i in range(50)]
    path = write_pairs(tmp_path / "corpus.txt", pairs)
    draws = set()
    for seed in (0, 1):
        dataset = BERTDataset(path, make_vocab(pairs), 5, seed=seed)
        for epoch in (0, 1, 2):
            dataset.set_epoch(epoch)
            draws.add(tuple(dataset.random_sent(i)[1:] for i in range(50)))
    assert len(draws) == 6


def restored(example):
    """The ids before masking."""
    labels = example["bert_label"]
    return (labels + (labels == 0) * example["bert_input"]).tolist()


@pytest.mark.parametrize("kind", ["cut alike", "unknown alike"])
def test_no_example_is_both_next_and_not_next(tmp_path, kind):
    """Second texts may differ only in words that are cut off, or only in words the vocabulary does not hold."""
    if kind == "cut alike":
        pairs = [(f"a{i}", f"the same long beginning and {i}") for i in range(5)] + [("z", "something else")]
        vocab, seq_len = make_vocab(pairs), 8
    else:
        pairs = [(f"a{i}", f"served block b{i}") for i in range(5)] + [("z", "something else")]
        vocab, seq_len = make_vocab([(first, second.split(" b")[0]) for first, second in pairs]), 12
    dataset = BERTDataset(write_pairs(tmp_path / "corpus.txt", pairs), vocab, seq_len)
    answers = {}
    for epoch in range(60):
        dataset.set_epoch(epoch)
        for index in range(len(pairs)):
            example = dataset[index]
            answers.setdefault((index, *restored(example)), set()).add(example["is_next"].item())
    assert [ids for ids, found in answers.items() if found == {0, 1}] == []
    assert {0, 1} == set().union(*answers.values())
