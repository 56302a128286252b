"""Training examples: their form, trimming, and what they are a function of."""

import pickle
import random
import warnings

import pytest
import torch
from torch.utils.data import DataLoader

from bert_pytorch import BERTDataset, WordVocab

from .examples import make_dataset, make_vocab, same_tensors, story_pairs, write_pairs

KEYS = ["bert_input", "bert_label", "segment_label", "is_next"]


def restored(example):
    """The ids before masking."""
    return torch.where(example["bert_label"] != 0, example["bert_label"], example["bert_input"]).tolist()


def words(prefix, n):
    return " ".join(f"{prefix}{i}" for i in range(n))


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "corpus.txt", seed=3)


def all_items(dataset, order=None):
    return [dataset[i] for i in (range(len(dataset)) if order is None else order)]


def test_an_example_has_four_int64_tensors(dataset):
    example = dataset[5]
    assert list(example) == KEYS
    assert [list(example[key].shape) for key in KEYS] == [[13], [13], [13], []]
    assert {value.dtype for value in example.values()} == {torch.int64}


def test_an_example_is_sos_a_eos_b_eos_with_segments_and_padding(dataset):
    true_pairs = {i: dataset.get_corpus_line(i) for i in range(len(dataset))}
    seconds = {second for _, second in true_pairs.values()}
    for epoch in range(7):
        dataset.set_epoch(epoch)
        for i, (first, second) in true_pairs.items():
            example = dataset[i]
            ids = restored(example)
            first_ids = dataset.vocab.to_seq(first)
            assert ids[:6] == [3, *first_ids, 2]
            assert ids[10:] == [2, 0, 0]
            partner = dataset.vocab.from_seq(ids[6:10], join=True)
            assert partner in seconds
            assert (partner == second) == (example["is_next"].item() == 1)
            assert example["segment_label"].tolist() == [1] * 6 + [2] * 5 + [0] * 2


def test_labels_are_the_hidden_words_and_zero_elsewhere(dataset):
    for epoch in range(20):
        dataset.set_epoch(epoch)
        for example in all_items(dataset):
            labels = example["bert_label"]
            assert ((labels == 0) | (labels >= 5)).all()
            assert labels[[0, 5, 10, 11, 12]].tolist() == [0, 0, 0, 0, 0]
            assert (labels != 0).any()


def test_an_index_from_the_end_is_the_same_example(dataset):
    assert same_tensors(dataset[-1], dataset[10])
    assert dataset.get_corpus_line(-11) == dataset.get_corpus_line(0) == story_pairs()[0]


@pytest.mark.parametrize("index", [11, 12, -12])
def test_an_index_outside_is_an_index_error(dataset, index):
    with pytest.raises(IndexError, match=str(index)):
        dataset[index]


@pytest.mark.parametrize("n_first", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("n_second", [1, 2, 3, 8, 40])
@pytest.mark.parametrize("seq_len", [5, 6, 11])
def test_long_pairs_lose_words_of_the_longer_text_only(tmp_path, n_first, n_second, seq_len):
    pairs = [(words("a", n_first), words("b", n_second))]
    dataset = make_dataset(tmp_path / "corpus.txt", pairs, seq_len)
    ids = restored(dataset[0])
    ends = [i for i, word in enumerate(ids) if word == 2]
    assert ids[0] == 3
    assert len(ends) == 2
    n_a, n_b = ends[0] - 1, ends[1] - ends[0] - 1
    assert ids[1 : ends[0]] == dataset.vocab.to_seq(words("a", n_a))
    assert ids[ends[0] + 1 : ends[1]] == dataset.vocab.to_seq(words("b", n_b))
    assert n_a + n_b == min(n_first + n_second, seq_len - 3)
    assert min(n_a, n_b) >= 1
    assert n_a == n_first or n_a >= n_b - 1
    assert n_b == n_second or n_b >= n_a - 1
    assert dataset[0]["segment_label"].tolist() == [1] * (n_a + 2) + [2] * (n_b + 1) + [0] * (seq_len - ends[1] - 1)
    assert dataset.n_trimmed == (n_first + n_second > seq_len - 3)


@pytest.mark.parametrize("seq_len", [4, 3, 0, -1])
def test_a_length_without_room_for_two_words_is_refused(tmp_path, seq_len):
    with pytest.raises(ValueError, match=rf"{seq_len}.*\[E-DATA-LENGTH\]$"):
        make_dataset(tmp_path / "corpus.txt", seq_len=seq_len)


def test_a_corpus_without_a_known_word_is_refused(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", [("x y", "z")])
    with pytest.raises(ValueError, match=r"corpus\.txt.*\[E-DATA-VOCAB\]$"):
        BERTDataset(path, make_vocab([("a", "b")]), 7)


@pytest.mark.parametrize("on_memory", [True, False])
def test_bad_lines_are_found_before_the_first_example(tmp_path, on_memory):
    (tmp_path / "corpus.txt").write_text("a\tb\n" * 5 + "one field\n" + "a\tb\n")
    with pytest.raises(ValueError, match=r"corpus\.txt:6: .*\[E-CORPUS-TAB\]$"):
        BERTDataset(tmp_path / "corpus.txt", make_vocab([("a", "b")]), 7, on_memory=on_memory)


def test_skipped_lines_are_counted(tmp_path):
    (tmp_path / "corpus.txt").write_text("a\tb\n\nc\td\none field\n")
    dataset = BERTDataset(tmp_path / "corpus.txt", make_vocab([("a", "b")]), 7, skip_bad_lines=True)
    assert (len(dataset), dataset.n_skipped) == (2, 2)
    assert (dataset.n_words, dataset.n_unknown) == (4, 2)


def test_the_arguments_of_the_ancestor_by_position(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", story_pairs(5))
    dataset = BERTDataset(str(path), make_vocab(story_pairs(5)), 9, "utf-8", 3, False)
    assert len(dataset) == 3
    assert (dataset.seq_len, dataset.encoding, dataset.corpus_lines, dataset.on_memory) == (9, "utf-8", 3, False)
    assert dataset.corpus_path == str(path)


def test_text_methods_give_the_texts_of_the_file(dataset):
    pairs = story_pairs()
    assert [tuple(dataset.get_corpus_line(i)) for i in range(11)] == pairs
    drawn = {dataset.get_random_line() for _ in range(300)}
    assert drawn == {second for _, second in pairs}


def test_random_word_returns_ids_and_labels(dataset):
    seen = set()
    for _ in range(300):
        ids, labels = dataset.random_word("a1 nowhere c")
        assert (len(ids), len(labels)) == (3, 3)
        assert labels[1] == 0
        assert ids[1] == 1
        assert labels[0] in (0, dataset.vocab.stoi["a1"])
        seen.add(tuple(ids))
    assert len(seen) > 3


def test_items_do_not_depend_on_the_order_of_access(dataset):
    straight = all_items(dataset)
    backwards = all_items(dataset, range(10, -1, -1))[::-1]
    shuffled = random.Random(5).sample(range(11), 11)
    mixed = dict(zip(shuffled, all_items(dataset, shuffled), strict=True))
    assert same_tensors(straight, backwards)
    assert same_tensors(straight, [mixed[i] for i in range(11)])


def test_items_do_not_depend_on_other_calls_between(dataset):
    straight = all_items(dataset)
    for i in range(11):
        dataset.random_word("c d e")
        dataset.random_sent(3)
        dataset.get_random_line()
        assert same_tensors(dataset[i], straight[i])


def test_items_neither_depend_on_global_random_state_nor_touch_it(dataset):
    random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), torch.get_rng_state()
    straight = all_items(dataset)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    random.seed(2)
    torch.manual_seed(2)
    assert same_tensors(all_items(dataset), straight)


def test_items_are_the_same_from_memory_from_file_and_from_a_pickled_copy(dataset, tmp_path):
    straight = all_items(dataset)
    from_file = make_dataset(tmp_path / "corpus.txt", seed=3, on_memory=False)
    assert same_tensors(all_items(from_file), straight)
    assert same_tensors(all_items(pickle.loads(pickle.dumps(dataset))), straight)
    assert same_tensors(all_items(pickle.loads(pickle.dumps(from_file))), straight)


def test_each_pass_and_each_seed_has_draws_of_its_own(dataset, tmp_path):
    passes = []
    for epoch in (0, 1, 2):
        dataset.set_epoch(epoch)
        passes.append(all_items(dataset))
    dataset.set_epoch(1)
    assert same_tensors(all_items(dataset), passes[1])
    assert not same_tensors(passes[0], passes[1])
    assert not same_tensors(passes[1], passes[2])
    assert not same_tensors(all_items(make_dataset(tmp_path / "corpus.txt", seed=4)), passes[0])


@pytest.mark.parametrize("on_memory", [True, False])
@pytest.mark.parametrize("persistent", [True, False])
def test_workers_give_the_same_items_and_see_the_next_pass(tmp_path, on_memory, persistent):
    dataset = make_dataset(tmp_path / "corpus.txt", seed=3, on_memory=on_memory)
    loader = DataLoader(dataset, batch_size=3, num_workers=2, persistent_workers=persistent)
    for epoch in (0, 1, 0):
        dataset.set_epoch(epoch)
        batches = list(loader)
        alone = list(DataLoader(dataset, batch_size=3))
        assert same_tensors(batches, alone)


def test_much_trimming_is_said(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", [("a b c", "d e f")] * 2 + [("a", "d")] * 5)
    vocab = WordVocab(["a b c d e f"])
    with pytest.warns(UserWarning, match=r"corpus\.txt: 2 of 7 pairs are longer than seq_len 7 and are trimmed"):
        BERTDataset(path, vocab, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BERTDataset(path, vocab, 9)
