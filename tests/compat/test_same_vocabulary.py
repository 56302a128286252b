"""Vocabularies are word for word those of 0.0.1a4, on texts where it is right (clients/vocabulary.py)."""

import pytest

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
WORDS = ["fox", "the", "a", "dog", "runs", "answers", "barks", "it", "river", "sees", "sleeps", "to"]
CORPUS = {
    "itos": SPECIALS + WORDS,
    "stoi": {
        **{"<pad>": 0, "<unk>": 1, "<eos>": 2, "<sos>": 3, "<mask>": 4, "fox": 5, "the": 6, "a": 7, "dog": 8, "runs": 9},
        **{"answers": 10, "barks": 11, "it": 12, "river": 13, "sees": 14, "sleeps": 15, "to": 16},
    },
    "freqs": {
        **{"fox": 4, "the": 4, "a": 3, "dog": 2, "runs": 2, "answers": 1, "barks": 1, "it": 1, "river": 1, "sees": 1},
        **{"sleeps": 1, "to": 1, "<mask>": 1},
    },
    "len": 17,
}


@pytest.fixture
def sides(run_both):
    return run_both("vocabulary")


def test_words_ids_and_counts_of_a_corpus_file(sides):
    assert sides.theirs["corpus"] == CORPUS
    assert sides.ours["corpus"] == CORPUS


def test_special_ids(sides):
    for side in sides:
        assert side["specials"] == [0, 1, 2, 3, 4]


def test_lists_of_words_and_generators_of_lines(sides):
    for side in sides:
        assert side["lists"]["itos"] == [*SPECIALS, "c", "a b"]
        assert side["lists"]["freqs"] == {"a b": 1, "c": 2}
        assert side["generator"]["itos"] == [*SPECIALS, "b", "a"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("max_size", [*SPECIALS, "fox", "the", "a"]),
        ("max_size=0", SPECIALS),
        ("max_size above", 17),
        ("min_freq", [*SPECIALS, "fox", "the", "a"]),
        ("positional", [*SPECIALS, "fox", "the", "a", "dog", "runs"]),
        ("both", [*SPECIALS, "fox", "the"]),
        ("min_freq=0", True),
    ],
)
def test_max_size_and_min_freq(sides, limit, expected):
    assert sides.theirs["limits"][limit] == expected
    assert sides.ours["limits"][limit] == expected


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("text", [6, 5, 1, 7, 8]),
        ("words", [6, 5, 1, 7, 8]),
        ("empty", []),
        ("eos", [6, 5, 1, 7, 8, 2]),
        ("sos", [3, 6, 5, 1, 7, 8]),
        ("both", [3, 6, 5, 1, 7, 8, 2]),
        ("len", [[6, 5, 1, 7, 8], 5]),
        ("padded", [3, 6, 5, 1, 7, 8, 2, 0, 0, 0, 0]),
        ("exact", [3, 6, 5, 1, 7, 8, 2]),
        ("cut", [6, 5, 1]),
        ("cut sos", [3, 6, 5]),
        ("cut len", [[3, 6, 5], 6]),
        ("positional", [[3, 6, 5, 1, 7, 8, 2, 0, 0, 0, 0], 7]),
    ],
)
def test_to_seq(sides, flags, expected):
    assert sides.theirs["to_seq"][flags] == expected
    assert sides.ours["to_seq"][flags] == expected


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ("words", ["<sos>", "the", "fox", "<eos>"]),
        ("joined", "<sos> the fox <eos>"),
        ("outside", ["the", "<1009>"]),
        ("tensor", "the a"),
        ("numpy", "the a"),
        ("empty", []),
        ("there and back", "a fox runs to the river"),
    ],
)
def test_from_seq_without_padding(sides, ids, expected):
    assert sides.theirs["from_seq"][ids] == expected
    assert sides.ours["from_seq"][ids] == expected


@pytest.mark.parametrize("way", ["load_vocab", "pickle", "deepcopy"])
def test_a_kept_vocabulary_is_the_same(sides, way):
    for side in sides:
        assert side["kept"][way] == CORPUS


def test_a_loaded_vocabulary_is_equal_and_of_its_class(sides):
    for side in sides:
        assert side["kept"]["equal"] is True
        assert side["kept"]["same class"] is True


def test_equality_of_vocabularies(sides):
    for side in sides:
        assert side["equality"] == {"same": True, "other counts": False, "other words": False, "not equal": True}
        assert side["unhashable"]["raised"][0] == "TypeError"


def test_extend_and_vocab_rerank(sides):
    for side in sides:
        assert side["grown"]["extend"]["itos"] == [*SPECIALS, "b", "a", "z", "c"]
        assert side["grown"]["extend"]["stoi"]["z"] == 7
        assert side["grown"]["extend"]["freqs"] == {"a": 1, "b": 2}
        assert side["grown"]["sort"] == [*SPECIALS, "b", "a", "c", "z"]
        assert side["grown"]["rerank"] == {"<pad>": 0, "<unk>": 1, "<eos>": 2, "<sos>": 3, "<mask>": 4, "a": 5, "b": 6, "q": 7}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("positional", ["<s>", "y"]),
        ("no specials", ["<s>", "y", "w", "x", "z"]),
        ("min_freq=0", ["<pad>", "<oov>", "<s>", "y", "w", "x", "z"]),
        ("counter kept", {"x": 3, "y": 5, "w": 3, "<s>": 7, "z": 1, "never": 0}),
        ("equal", True),
    ],
)
def test_torch_vocab(sides, case, expected):
    assert sides.theirs["torch_vocab"][case] == expected
    assert sides.ours["torch_vocab"][case] == expected


def test_torch_vocab_with_default_and_own_specials(sides):
    for side in sides:
        assert side["torch_vocab"]["default"]["itos"] == ["<pad>", "<oov>", "<s>", "y", "w", "x", "z"]
        assert side["torch_vocab"]["default"]["len"] == 7
        assert side["torch_vocab"]["specials"]["itos"] == ["<s>", "</s>", "<unk>", "y", "w"]
        assert side["torch_vocab"]["specials"]["stoi"] == {"<s>": 0, "</s>": 1, "<unk>": 2, "y": 3, "w": 4}


def test_a_vocabulary_class_of_the_users_own(sides):
    for side in sides:
        assert side["letters"] == [[*SPECIALS, "a", "b"], [1, 5], [0, 1, 2, 3, 4]]


def test_vocab_has_load_vocab_as_word_vocab_has(sides):
    assert sides.theirs["Vocab.load_vocab"] == CORPUS
    assert sides.ours["Vocab.load_vocab"] == CORPUS
