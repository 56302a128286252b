"""Where the models differ from 0.0.1a4 on purpose: its answer, then ours (clients/modelling_faults.py)."""

import pytest


@pytest.fixture
def sides(run_both):
    return run_both("modelling", part="faults")


def test_a_hidden_size_no_multiple_of_the_heads_is_named(sides):
    assert sides.theirs["no multiple"] == {"raised": ["AssertionError", "Exception", "BaseException", "object"], "message": ""}
    assert "ValueError" in sides.ours["no multiple"]["raised"]
    assert "hidden 10 is not a multiple of attn_heads 3" in sides.ours["no multiple"]["message"]


def test_an_odd_hidden_size_works(sides):
    assert sides.theirs["odd"]["raised"][0] == "RuntimeError"
    assert sides.ours["odd"] == [1, 7, 15]


def test_dropout_0_means_none(sides):
    assert sides.theirs["dropout=0.0"] is False
    assert sides.ours["dropout=0.0"] is True


def test_dropout_1_is_an_error(sides):
    assert sides.theirs["dropout=1.0"] == 6
    assert "dropout is 1.0, expected at least 0 and below 1" in sides.ours["dropout=1.0"]["message"]


def test_half_precision_does_not_overflow(sides):
    assert "without overflow" in sides.theirs["half precision"]["message"]
    assert sides.ours["half precision"] is True


def test_too_long_a_sequence_is_named(sides):
    assert sides.theirs["too long"]["raised"][0] == "RuntimeError"
    assert "ValueError" in sides.ours["too long"]["raised"]
    assert "sequences of 521 tokens, expected at most 512" in sides.ours["too long"]["message"]


def test_segments_of_another_shape_are_an_error(sides):
    assert sides.theirs["one row of segments"] == [5, 7, 6]
    assert "expected two tensors of one shape [B, L], got [5, 7] and [1, 7]" in sides.ours["one row of segments"]["message"]


def test_the_encoder_is_that_of_the_paper(sides):
    assert sides.theirs["start"]["learned positions"] == 0
    assert sides.theirs["start"]["normed outputs"] is False
    assert sides.ours["start"]["learned positions"] == 1
    assert sides.ours["start"]["normed outputs"] is True


def test_weights_start_as_narrow_as_in_the_released_code(sides):
    assert sides.theirs["start"]["embedding width"] == pytest.approx(1.0, rel=0.05)
    # A normal of width 0.02 cut off at two widths has a width of 0.0176.
    assert sides.ours["start"]["embedding width"] == pytest.approx(0.0176, rel=0.05)


def test_the_heads_are_those_of_the_released_code(sides):
    linear = ["linear.bias", "linear.weight"]
    assert sides.theirs["heads"]["state"] == [f"{head}.{name}" for head in ("mask_lm", "next_sentence") for name in linear]
    assert sides.theirs["heads"]["tied"] is False
    assert [name for name in sides.ours["heads"]["state"] if name.startswith("mask_lm.")] == [
        *("mask_lm.decoder.bias", "mask_lm.decoder.weight", "mask_lm.norm.bias", "mask_lm.norm.weight"),
        *("mask_lm.transform.bias", "mask_lm.transform.weight"),
    ]
    assert [name for name in sides.ours["heads"]["state"] if name.startswith("next_sentence.")] == [
        *("next_sentence.linear.bias", "next_sentence.linear.weight"),
        *("next_sentence.pooler.bias", "next_sentence.pooler.weight"),
    ]
    assert sides.ours["heads"]["tied"] is True


def test_encoder_and_language_model_have_one_vocabulary(sides):
    assert sides.theirs["two vocabularies"] == [1, 7, 29]
    assert "vocab_size is 29, but the BERT was built with 23" in sides.ours["two vocabularies"]["message"]
