"""The encoder and the language model have the sizes, shapes and manners of 0.0.1a4 (clients/modelling.py)."""

import pytest


@pytest.fixture
def sides(run_both):
    return run_both("modelling")


def test_sizes_by_position_and_by_keyword(sides):
    for side in sides:
        assert side["positional"] == [6, 2, 3, 2, 24]
        assert side["keywords"] == [10, 3, 5, 3, 40]


def test_bert_is_one_torch_module_under_both_names(sides):
    for side in sides:
        assert side["is a module"] is True
        assert side["imported"] is True


def test_encoder_output(sides):
    for side in sides:
        assert side["encoder"]["shape"] == [5, 7, 6]
        assert side["encoder"]["dtype"] == "torch.float32"
        assert side["encoder"]["has gradient"] is True
        assert side["encoder"]["eval repeats"] is True
        assert side["double"] == "torch.float64"


def test_padding_and_the_rest_of_the_batch_are_not_attended_to(sides):
    for side in sides:
        assert side["encoder"]["padding unseen"] is True
        assert side["encoder"]["batch unseen"] is True
        assert side["encoder"]["texts seen"] is True
        assert side["encoder"]["only padding"] is True


def test_embedding_and_blocks_called_one_by_one(sides):
    for side in sides:
        assert side["parts"] == {
            "embedding": [5, 7, 6],
            "blocks": [5, 7, 6],
            "same as whole": True,
            "token": [23, 6],
            "segment": [3, 6],
            "padding row": 0.0,
            "padding_idx": 0,
        }


def test_language_model_gives_log_probabilities(sides):
    for side in sides:
        seen = side["language model"]
        assert seen["shapes"] == [[5, 2], [5, 7, 23]]
        assert seen["sums"] == [True, True]
        assert seen["negative"] == [True, True]
        assert seen["by name"] == [True, True]


def test_language_model_holds_the_encoder_and_two_heads(sides):
    for side in sides:
        seen = side["language model"]
        assert seen["bert"] is True
        assert seen["heads"] == [[5, 2], [5, 7, 23]]
        assert seen["keywords"] == [5, 7, 23]
        assert seen["bert first in state"] is True


def test_a_head_of_the_users_own_learns_with_the_encoder(sides):
    for side in sides:
        assert side["fine-tuned"] == {"output": [5, 11], "embedding learns": True, "padding row": 0.0, "head learns": True}


@pytest.mark.parametrize("way", ["state dict", "whole", "deepcopy"])
def test_a_kept_model_gives_the_same_outputs(sides, way):
    assert sides.theirs["kept"][way] is True
    assert sides.ours["kept"][way] is True


def test_an_id_outside_the_vocabulary_is_an_index_error(sides):
    for side in sides:
        assert side["id outside"] == "IndexError"
