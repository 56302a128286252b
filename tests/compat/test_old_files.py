"""Files that 0.0.1a4 wrote: its vocabularies load here, its whole-object models are refused (clients/old_files.py)."""

import pytest


@pytest.fixture
def sides(run_both):
    """What both libraries make of the files that the ancestor's commands wrote."""
    return run_both("old_files", run_both("commands").theirs["folder"])


def test_an_old_vocabulary_loads_with_its_ids_and_counts(sides):
    words = ["the", "dog", "fox", "a", "birds", "runs", "barks", "sleeps", "it", "now", "river", "sees", "sing", "there", "no"]
    for side in sides:
        assert side["vocabulary"]["itos"] == ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>", *words, "swims", "to", "cold"]
        assert side["vocabulary"]["stoi"] is True
        assert side["vocabulary"]["freqs"] == [13, 1, 0]
        assert side["vocabulary"]["to_seq"] == [3, 5, 22, 7, 2]


def test_an_old_vocabulary_can_be_saved_again(sides):
    for side in sides:
        assert side["vocabulary"]["again"] is True


def test_bert_trains_with_an_old_vocabulary(sides):
    for side in sides:
        assert side["trained with"] == [0, True]


def test_an_old_model_is_refused_with_a_reason(sides):
    assert sides.theirs["torch.load"] == 6
    assert sides.ours["torch.load"]["raised"][0] == "ModuleNotFoundError"
    assert "ValueError" in sides.ours["load_model"]["raised"]
    assert "as the whole-model files of bert-pytorch 0.0.1a4 do; nothing was executed" in sides.ours["load_model"]["message"]
