"""What is learnt beside masked words: nothing, the next sentence, or the order of two texts."""

import math

import pytest
import torch

from bert_pytorch import BERTDataset, WordVocab
from bert_pytorch.dataset.loader import BatchLoader

from .examples import make_dataset, make_trainer, make_vocab, weights, write_pairs

PAIRS = [(f"a{i}" + " x" * (i % 4), f"b{i}" + " y" * (i % 3)) for i in range(31)]


def restored(example):
    """The ids before masking, without padding."""
    labels = example["bert_label"]
    ids = labels + (labels == 0) * example["bert_input"]
    return ids[example["bert_input"] != 0].tolist()


def encoded(vocab, first, second):
    return [3, *vocab.to_seq(first), 2, *vocab.to_seq(second), 2]


def test_pairs_without_a_second_task_are_as_they_stand(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt", PAIRS, objective="mlm", seed=3)
    for epoch in range(3):
        dataset.set_epoch(epoch)
        for index, (first, second) in enumerate(PAIRS):
            item = dataset[index]
            assert restored(item) == encoded(dataset.vocab, first, second)
            assert "is_next" not in item


def test_order_prediction_swaps_half_of_the_pairs_and_says_so(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt", PAIRS, objective="mlm+sop", seed=3)
    answers = []
    for epoch in range(40):
        dataset.set_epoch(epoch)
        for index, (first, second) in enumerate(PAIRS):
            item = dataset[index]
            texts = (first, second) if item["is_next"] == 1 else (second, first)
            assert restored(item) == encoded(dataset.vocab, *texts)
            assert dataset.random_sent(index) == (*texts, int(item["is_next"]))
            answers.append(int(item["is_next"]))
    assert abs(sum(answers) / len(answers) - 0.5) < 4 * math.sqrt(0.25 / len(answers))


def test_a_swapped_pair_has_its_segments_in_the_new_order(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt", [("a b c", "d")], objective="mlm+sop", seed=3)
    segments = set()
    for epoch in range(20):
        dataset.set_epoch(epoch)
        item = dataset[0]
        segments.add((int(item["is_next"]), tuple(item["segment_label"].tolist())))
    assert segments == {(1, (1, 1, 1, 1, 1, 2, 2, *[0] * 6)), (0, (1, 1, 1, 2, 2, 2, 2, *[0] * 6))}


@pytest.mark.parametrize("pair", [("a b", "a  b"), ("a b c d e f", "a b c d e g")])
def test_two_texts_that_look_alike_have_one_order_only(tmp_path, pair):
    dataset = make_dataset(tmp_path / "corpus.txt", [pair, ("x", "y")], seq_len=9, objective="mlm+sop")
    for epoch in range(40):
        dataset.set_epoch(epoch)
        assert dataset[0]["is_next"] == 1


def test_single_texts_are_trained_and_measured_by_their_words_alone(tmp_path):
    path = tmp_path / "single.txt"
    path.write_text("".join(f"{first} {second}\n" for first, second in PAIRS))
    vocab = make_vocab(PAIRS)
    dataset = BERTDataset(path, vocab, 13, objective="mlm", seed=1)
    loader = BatchLoader(dataset, 8, shuffle=True)
    trainer = make_trainer(loader, loader, vocab_size=len(vocab), warmup_steps=0)
    before = weights(trainer)
    trained, measured = trainer.train(0), trainer.test(0)
    for report in (trained, measured):
        assert math.isnan(report["nsp_loss"])
        assert math.isnan(report["nsp_accuracy"])
        assert report["loss"] == report["mlm_loss"] > 0
        assert report["n_items"] == 31
    after = weights(trainer)
    moved = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert not any(name.startswith("next_sentence") for name in moved)
    assert "mask_lm.transform.weight" in moved


def test_a_long_single_text_keeps_its_beginning(tmp_path):
    path = tmp_path / "single.txt"
    path.write_text("a b c d e f g\nh\n")
    dataset = BERTDataset(path, WordVocab(["a b c d e f g h"]), 5, objective="mlm")
    assert restored(dataset[0]) == [3, *dataset.vocab.to_seq("a b c"), 2]
    assert (dataset.n_trimmed, len(dataset)) == (1, 2)


def test_single_texts_of_one_word_are_enough(tmp_path):
    path = tmp_path / "single.txt"
    path.write_text("a\nb\n")
    dataset = BERTDataset(path, WordVocab(["a b"]), 3, objective="mlm")
    assert [restored(dataset[i]) for i in (0, 1)] == [[3, 5, 2], [3, 6, 2]]
    with pytest.raises(ValueError, match=r"\b2\b.*\b3\b.*\[E-DATA-LENGTH\]$"):
        BERTDataset(path, WordVocab(["a b"]), 2, objective="mlm")


def test_a_subclass_makes_single_texts_one_by_one(tmp_path):
    class Upper(BERTDataset):
        def get_corpus_line(self, item):
            first, second = super().get_corpus_line(item)
            return first.replace("a", "b"), second

    path = tmp_path / "single.txt"
    path.write_text("a a\nb\n")
    dataset = Upper(path, WordVocab(["a b"]), 7, objective="mlm", seed=2)
    assert restored(dataset[0]) == [3, 6, 6, 2]
    batch = next(iter(BatchLoader(dataset, 2)))
    assert sorted(batch) == ["bert_input", "bert_label", "segment_label"]


def test_the_held_out_column_count_follows_its_file(tmp_path):
    path = write_pairs(tmp_path / "pairs.txt", PAIRS)
    assert BERTDataset(path, make_vocab(PAIRS), 13, objective="mlm").encoded.n_columns == 2
