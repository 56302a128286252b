"""Words, ids and the two directions between them."""

import pickle
import unicodedata
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_pytorch import WordVocab
from bert_pytorch.dataset.vocab import TorchVocab, Vocab

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
ANCESTOR_MEMBERS = {
    TorchVocab: ("vocab_rerank", "extend"),
    Vocab: ("vocab_rerank", "extend", "load_vocab", "save_vocab"),
    WordVocab: ("vocab_rerank", "extend", "to_seq", "from_seq", "load_vocab", "save_vocab"),
}


@pytest.fixture
def vocab():
    """Ids: c 5, a 6, b 7, d 8."""
    return WordVocab(["c c c a a", "b b d"])


def test_specials_take_the_first_ids_whatever_the_text_is():
    vocab = WordVocab([])
    assert vocab.itos == SPECIALS
    assert (vocab.pad_index, vocab.unk_index, vocab.eos_index, vocab.sos_index, vocab.mask_index) == (0, 1, 2, 3, 4)
    assert len(vocab) == 5


def test_words_follow_by_frequency_then_alphabet(vocab):
    assert vocab.itos == [*SPECIALS, "c", "a", "b", "d"]
    assert vocab.stoi == {word: i for i, word in enumerate(vocab.itos)}
    assert vocab.freqs == Counter(c=3, a=2, b=2, d=1)


def test_ties_at_the_size_limit_are_decided_by_alphabet_not_by_order_of_appearance():
    assert WordVocab(["z y x w"], max_size=2).itos[5:] == ["w", "x"]


@pytest.mark.parametrize(("size", "words"), [(0, []), (1, ["c"]), (3, ["c", "a", "b"]), (99, ["c", "a", "b", "d"])])
def test_max_size_counts_the_words_beside_the_specials(size, words):
    assert WordVocab(["c c c a a b b d"], max_size=size).itos[5:] == words


@pytest.mark.parametrize(("least", "words"), [(1, ["c", "a", "b", "d"]), (2, ["c", "a", "b"]), (3, ["c"]), (4, [])])
def test_min_freq_leaves_rarer_words_out(least, words):
    assert WordVocab(["c c c a a b b d"], min_freq=least).itos[5:] == words


@pytest.mark.parametrize("least", [0, -3])
def test_min_freq_below_one_means_one(least):
    assert Vocab(Counter({"seen": 2, "never": 0, "taken": -1}), min_freq=least).itos[5:] == ["seen"]


def test_special_words_in_the_text_are_not_numbered_again():
    vocab = WordVocab(["<mask> <mask> <pad> a"])
    assert vocab.itos == [*SPECIALS, "a"]
    assert vocab.stoi["<mask>"] == 4


@pytest.mark.parametrize(
    "texts",
    [
        ["quick fox\tblue dog\n"],
        ["quick\tfox blue dog"],
        ["quick fox\tblue dog\r\n"],
        ["\tquick  fox \t blue dog\t\n"],
        ["\ufeffquick fox\tblue dog\n"],
        ["quick fox\n", "\n", "blue dog"],
        [["quick", "fox", "blue", "dog"]],
        [["quick", "fox"], "blue dog"],
        ["quick\u00a0fox\u2003blue\u3000dog"],
    ],
)
def test_any_white_space_parts_words_and_nothing_is_lost(texts):
    assert WordVocab(texts).freqs == Counter(quick=1, fox=1, blue=1, dog=1)


def test_words_of_an_open_file_are_the_same_with_and_without_last_newline(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(b"\xef\xbb\xbfred fox\tblue dog\r\nlast word")
    with open(tmp_path / "corpus.txt", encoding="utf-8") as lines:
        assert set(WordVocab(lines).freqs) == {"red", "fox", "blue", "dog", "last", "word"}


def test_counting_prints_nothing_on_stdout(capsys):
    WordVocab(["a b"] * 7)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("options", "ids", "length"),
    [
        ({}, [5, 1, 6], 3),
        ({"with_eos": True}, [5, 1, 6, 2], 4),
        ({"with_sos": True}, [3, 5, 1, 6], 4),
        ({"with_sos": True, "with_eos": True}, [3, 5, 1, 6, 2], 5),
        ({"seq_len": 5}, [5, 1, 6, 0, 0], 3),
        ({"seq_len": 7, "with_sos": True, "with_eos": True}, [3, 5, 1, 6, 2, 0, 0], 5),
        ({"seq_len": 2}, [5, 1], 3),
        ({"seq_len": 3, "with_eos": True}, [5, 1, 2], 4),
        ({"seq_len": 3, "with_sos": True}, [3, 5, 1], 4),
        ({"seq_len": 3, "with_sos": True, "with_eos": True}, [3, 5, 2], 5),
        ({"seq_len": 5, "with_sos": True, "with_eos": True}, [3, 5, 1, 6, 2], 5),
        ({"seq_len": 2, "with_sos": True, "with_eos": True}, [3, 2], 5),
    ],
)
def test_to_seq_cuts_words_and_never_the_markers(vocab, options, ids, length):
    assert vocab.to_seq("c nowhere a", **options) == ids
    assert vocab.to_seq(["c", "nowhere", "a"], **options) == ids
    assert vocab.to_seq("c nowhere a", with_len=True, **options) == (ids, length)


def test_to_seq_without_room_for_its_markers_says_so(vocab):
    with pytest.raises(ValueError, match=r"seq_len\D*\b1\b.*\b2\b.*\[E-VOCAB-LENGTH\]$"):
        vocab.to_seq("c", seq_len=1, with_sos=True, with_eos=True)


def test_to_seq_takes_the_arguments_of_the_ancestor_by_position(vocab):
    assert vocab.to_seq("c a", 5, True, True, True) == ([3, 5, 6, 2, 0], 4)


def test_from_seq_leaves_padding_out_unless_it_is_asked_for(vocab):
    assert vocab.from_seq([3, 5, 0, 6, 2, 0, 0]) == ["<sos>", "c", "a", "<eos>"]
    assert vocab.from_seq([3, 5, 0, 6, 2, 0], with_pad=True) == ["<sos>", "c", "<pad>", "a", "<eos>", "<pad>"]
    assert vocab.from_seq([5, 0, 6, 0], join=True) == "c a"
    assert vocab.from_seq([5, 0, 6, 0], True, True) == "c <pad> a <pad>"


@pytest.mark.parametrize("index", [9, 1000, -1])
def test_from_seq_writes_an_id_outside_the_vocabulary_as_a_number(vocab, index):
    assert vocab.from_seq([5, index]) == ["c", f"<{index}>"]


def test_from_seq_takes_a_tensor(vocab):
    assert vocab.from_seq(torch.tensor([5, 0, 8]), join=True) == "c d"


@pytest.mark.parametrize("other", [None, 5, "c", [], {}, object()])
def test_a_vocabulary_is_unequal_to_any_other_type(vocab, other):
    assert (vocab == other) is False
    assert (vocab != other) is True


def test_vocabularies_are_equal_by_words_ids_and_counts(vocab):
    assert vocab == WordVocab(["b b d c", "a a c c"])
    assert vocab != WordVocab(["c c c a a", "b b d d"])
    assert vocab != WordVocab(["c c c a a", "b b"])


@pytest.mark.parametrize(("sort", "words"), [(False, ["c", "a", "b", "d", "z", "y"]), (True, ["c", "a", "b", "d", "y", "z"])])
def test_extend_appends_only_new_words(vocab, sort, words):
    vocab.extend(WordVocab(["z z a y"]), sort=sort)
    assert vocab.itos == [*SPECIALS, *words]
    assert vocab.stoi == {word: i for i, word in enumerate(vocab.itos)}
    assert len(vocab) == 11


def test_vocab_rerank_gives_each_word_the_id_of_its_place(vocab):
    vocab.itos[5], vocab.itos[8] = vocab.itos[8], vocab.itos[5]
    vocab.vocab_rerank()
    assert (vocab.stoi["d"], vocab.stoi["c"]) == (5, 8)


def test_a_torch_vocabulary_has_the_specials_it_is_given():
    assert TorchVocab(Counter(a=1)).itos == ["<pad>", "<oov>", "a"]
    assert TorchVocab(Counter(a=1, x=5), specials=["x", "y"]).itos == ["x", "y", "a"]


def test_the_counter_given_is_kept_and_not_changed():
    counter = Counter({"a": 2, "<pad>": 3})
    assert Vocab(counter).freqs == Counter({"a": 2, "<pad>": 3})
    assert counter == Counter({"a": 2, "<pad>": 3})


@pytest.mark.parametrize("kind", ANCESTOR_MEMBERS)
def test_every_member_of_the_ancestor_is_there(kind):
    assert [name for name in ANCESTOR_MEMBERS[kind] if not callable(getattr(kind, name, None))] == []


@pytest.mark.parametrize(
    ("options", "words", "text"),
    [
        ({"lowercase": True}, ["hello", "\uff28\uff49".lower(), "stra\u00dfe"], "HELLO \uff28\uff29 Stra\u00dfe"),
        ({"normalize": True}, ["Hello", "Hi", "fin", "A"], "Hello \uff28\uff49 \ufb01n\u3000\uff21"),
        ({"lowercase": True, "normalize": True}, ["hello", "hi", "fin"], "HeLLo \uff28\uff49 \ufb01n hi"),
    ],
)
def test_texts_are_treated_as_the_vocabulary_was(tmp_path, options, words, text):
    built = WordVocab([text, *words, "other"], **options)
    assert set(built.itos[5:]) == {*words, "other"}
    built.save_vocab(tmp_path / "vocab.json")
    for vocab in (built, WordVocab.load_vocab(tmp_path / "vocab.json"), pickle.loads(pickle.dumps(built))):
        ids = vocab.to_seq(text)
        assert vocab.from_seq(ids) == vocab.from_seq(vocab.to_seqs([text])[0]) == vocab.from_seq(vocab.to_seq(text.split()))
        assert set(words) == set(vocab.from_seq(ids))
        assert vocab == built
        assert vocab.fingerprint == built.fingerprint
    plain = WordVocab([" ".join([*vocab.from_seq(ids), *words, "other"])])
    assert plain.itos == built.itos
    assert plain != built
    assert plain.fingerprint != built.fingerprint
    assert plain.to_seq(text) != ids


@given(texts=st.lists(st.text(st.sampled_from("aA\u00c9e\u0301\u03a3 \u00a8\ufdfa\u3000\uff21\u0130.") | st.characters())))
@settings(deadline=None, max_examples=100)
def test_words_counted_one_by_one_are_those_of_the_whole_texts(texts):
    whole = Counter(word for text in texts for word in unicodedata.normalize("NFKC", text).lower().split())
    vocab = WordVocab.of_counts(Counter(word for text in texts for word in text.split()), lowercase=True, normalize=True)
    assert vocab.freqs == whole
    for text, ids in zip(texts, vocab.to_seqs(texts), strict=True):
        assert ids == vocab.to_seq(text) == [vocab.stoi[word] for word in vocab.from_seq(ids)]
        assert vocab.unk_index not in ids or "<unk>" in text


def test_a_vocabulary_of_counted_words_is_that_of_the_texts():
    texts = ["c c c a a", "b b d"]
    assert WordVocab.of_counts(Counter(" ".join(texts).split()), 3, 2) == WordVocab(texts, 3, 2)
