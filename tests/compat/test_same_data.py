"""Examples have the keys, types, shapes and ids of 0.0.1a4, on a corpus where it is right (clients/data.py)."""

import runpy
from pathlib import Path

import pytest

PAIRS = runpy.run_path(str(Path(__file__).with_name("clients") / "corpus.py"))["PAIRS"]
ITOS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", "the", "dog", "fox", "a", "birds", "runs", "barks", "sleeps", "it", "now"]
ITOS += ["river", "sees", "sing", "there", "no", "swims", "to", "cold"]


def ids_of(text):
    return [ITOS.index(word) for word in text.split()]


def example_of(first, second):
    """`<sos> A <eos> B <eos>` and its segments, padded to L = 17."""
    ids = [3, *ids_of(first), 2, *ids_of(second), 2]
    segments = [1] * (len(first.split()) + 2) + [2] * (len(second.split()) + 1)
    padding = [0] * (17 - len(ids))
    return ids + padding, segments + padding


@pytest.fixture
def sides(run_both):
    return run_both("data")


def test_an_example_is_what_the_tests_take_it_for():
    assert example_of("the fox runs ", " the fox sleeps") == (
        [3, 5, 7, 10, 2, 5, 7, 12, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    )


def test_vocabulary_and_length(sides):
    for side in sides:
        assert side["itos"] == ITOS
        assert side["len"] == 13


def test_keys_dtypes_and_shapes_of_examples(sides):
    for side in sides:
        for example in side["examples"]:
            assert example["keys"] == ["bert_input", "bert_label", "is_next", "segment_label"]
            assert example["dtypes"] == ["torch.int64"] * 4
            assert example["shapes"] == [[17], [17], [17], []]


def test_examples_of_true_pairs_are_the_same_once_unmasked(sides):
    for side in sides:
        true = [index for index, example in enumerate(side["examples"]) if example["is_next"] == 1]
        assert 0 < len(true) < 13
        for index in true:
            ids, segments = example_of(*PAIRS[index])
            assert side["examples"][index]["original"] == ids
            assert side["examples"][index]["segments"] == segments


def test_examples_of_other_pairs_have_a_partner_from_the_corpus(sides):
    for side in sides:
        others = [index for index, example in enumerate(side["examples"]) if example["is_next"] == 0]
        assert 0 < len(others) < 13
        for index in others:
            seen = side["examples"][index]["original"], side["examples"][index]["segments"]
            assert seen in [example_of(PAIRS[index][0], second) for _, second in PAIRS]


def test_words_are_hidden(sides):
    for side in sides:
        masked = sum(example["input"].count(4) for example in side["examples"])
        assert 0 < masked < 13 * 7


def test_get_corpus_line(sides):
    first, last = ["the fox runs ", " the fox sleeps"], ["now birds sing ", " the fox sees birds"]
    for side in sides:
        assert side["methods"]["get_corpus_line"] == [first, last, last]


def test_random_word(sides):
    for side in sides:
        assert side["methods"]["random_word types"] == ["list", "list", "int"]
        assert side["methods"]["random_word lengths"] == [7, 7]
        assert side["methods"]["random_word original"] == [5, 7, 10, 21, 5, 1, 15]


def test_random_sent_and_get_random_line(sides):
    for side in sides:
        assert side["methods"]["random_sent first"] == "a dog sees the fox "
        assert side["methods"]["random_sent"] == [True, True]
        assert side["methods"]["get_random_line"] is True


def test_half_of_the_pairs_are_true_and_told_so(sides):
    for side in sides:
        assert side["both answers"]["n"] == 997
        assert side["both answers"]["true partners"] is True
        # Five standard errors of a fair coin on either side.
        assert abs(side["both answers"]["is_next"] - 997 / 2) < 5 * 997**0.5 / 2


def test_attributes(sides):
    for side in sides:
        assert side["attributes"] == [17, True, 13, "corpus.txt", "utf-8"]
        assert side["vocab is kept"] is True
        assert side["lines"] == [["the fox runs ", " the fox sleeps"], ["a dog sees the fox ", " it runs to a river"]]
        assert side["is a Dataset"] is True


@pytest.mark.parametrize(("loader", "sizes"), [("loader", [5, 5, 3]), ("shuffled", [5, 5]), ("workers", [5, 5, 3])])
def test_batches_of_a_data_loader(sides, loader, sizes):
    for side in sides:
        assert side[loader] == [
            {
                "bert_input": ["torch.int64", n, 17],
                "bert_label": ["torch.int64", n, 17],
                "segment_label": ["torch.int64", n, 17],
                "is_next": ["torch.int64", n],
            }
            for n in sizes
        ]


def test_encoding_by_position_and_every_argument_by_keyword(sides):
    for side in sides:
        assert side["latin-1"] == [["the caf\xe9 fox", "a dog"]] * 2


def test_windows_line_ends(sides):
    for side in sides:
        assert side["windows"] == [["the fox", "a dog"], ["the dog", "a fox"]]


def test_indexing_and_iteration(sides):
    for side in sides:
        assert side["subset"] == [True, True, True]
        assert side["for loop"] == 13
        assert side["last by -1"] == 17
        assert side["outside"] == "IndexError"


def test_a_dataset_class_of_the_users_own(sides):
    for side in sides:
        assert side["own texts"] == {
            "bert_input": [3, 4, 4, 4, 2, 4, 4, 4, 2, 0, 0],
            "bert_label": [0, 5, 6, 10, 0, 5, 7, 12, 0, 0, 0],
            "segment_label": [1, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0],
            "is_next": 1,
        }


def test_a_dataset_class_whose_tokens_are_letters_is_cut_to_seq_len(sides):
    shapes = {"bert_input": [17], "bert_label": [17], "segment_label": [17], "is_next": []}
    assert sides.theirs["letters"] == shapes
    assert sides.ours["letters"] == shapes
