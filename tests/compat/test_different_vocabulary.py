"""Where vocabularies differ from 0.0.1a4 on purpose: its answer, then ours (clients/vocabulary_faults.py)."""

import pytest

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]


@pytest.fixture
def sides(run_both):
    return run_both("vocabulary", part="faults")


def test_a_tab_parts_words(sides):
    assert sides.theirs["tab"] == ["foxblue", "sky", "the"]
    assert sides.ours["tab"] == ["blue", "fox", "sky", "the"]


def test_a_byte_order_mark_is_no_part_of_a_word(sides):
    assert sides.theirs["byte-order mark"] == ["runs", "\ufefffox"]
    assert sides.ours["byte-order mark"] == ["fox", "runs"]


def test_with_pad_means_with_padding(sides):
    assert sides.theirs["with_pad=False"] == ["a", "<pad>", "<pad>"]
    assert sides.ours["with_pad=False"] == ["a"]
    assert sides.theirs["with_pad=True"] == ["a"]
    assert sides.ours["with_pad=True"] == ["a", "<pad>", "<pad>"]
    assert sides.theirs["default with_pad"] == "a <pad> <pad>"
    assert sides.ours["default with_pad"] == "a"


def test_a_negative_id_is_no_word(sides):
    assert sides.theirs["negative id"] == ["the"]
    assert sides.ours["negative id"] == ["<-1>"]


def test_to_seq_cuts_words_and_keeps_the_end_marker(sides):
    assert sides.theirs["cut before the end"] == [3, 9, 7, 8, 5]
    assert sides.ours["cut before the end"] == [3, 9, 7, 8, 2]


def test_to_seq_without_room_for_the_markers_is_an_error(sides):
    assert sides.theirs["cut to no room"] == [3]
    assert "ValueError" in sides.ours["cut to no room"]["raised"]
    assert "seq_len 1 has no room for 2 markers" in sides.ours["cut to no room"]["message"]


def test_a_vocabulary_is_not_equal_to_another_type(sides):
    assert sides.theirs["other type"]["raised"][0] == "AttributeError"
    assert sides.ours["other type"] is False


def test_a_vocabulary_file_is_text(sides):
    assert sides.theirs["file starts"] == "80"
    assert sides.ours["file starts"] == "7b"


def test_a_hostile_vocabulary_file_is_not_executed(sides):
    assert sides.theirs["hostile"]["executed"] is True
    assert sides.ours["hostile"]["executed"] is False
    assert "ValueError" in sides.ours["hostile"]["outcome"]["raised"]
    assert "hostile.vocab" in sides.ours["hostile"]["outcome"]["message"]


def test_a_list_of_words_is_read(sides):
    assert sides.theirs["vocab.txt"]["raised"][0] == "UnpicklingError"
    assert sides.ours["vocab.txt"] == [*SPECIALS, "fox", "the"]


def test_a_missing_vocabulary_is_named_and_what_to_do(sides):
    assert sides.theirs["missing file"]["raised"][0] == "FileNotFoundError"
    assert "missing.vocab: cannot be read" in sides.ours["missing file"]["message"]
    assert "[E-FILE-READ]" in sides.ours["missing file"]["message"]


def test_save_vocab_makes_the_folder(sides):
    assert sides.theirs["folder is made"]["raised"][0] == "FileNotFoundError"
    assert sides.ours["folder is made"] == [None, True]


def test_a_negative_max_size_is_an_error(sides):
    assert sides.theirs["max_size=-1"] == 8
    assert "ValueError" in sides.ours["max_size=-1"]["raised"]


def test_torch_vocab_takes_no_vectors(sides):
    assert sides.theirs["vectors"] is None
    assert sides.ours["vectors"]["raised"][0] == "TypeError"


def test_every_vocabulary_has_a_to_seq_that_returns_ids(sides):
    assert sides.theirs["abstract to_seq"] is None
    assert len(sides.ours["abstract to_seq"]) == 3
    assert all(isinstance(index, int) for index in sides.ours["abstract to_seq"])


def test_building_a_vocabulary_prints_nothing_on_stdout(sides):
    assert sides.theirs["printed"] == "Building Vocab\n"
    assert sides.ours["printed"] == ""
