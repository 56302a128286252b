"""Where corpora and examples differ from 0.0.1a4 on purpose: its answer, then ours (clients/data_faults.py)."""

import pytest


@pytest.fixture
def sides(run_both):
    return run_both("data", part="faults")


def test_the_last_line_keeps_its_last_letter(sides):
    assert sides.theirs["read whole"]["no final newline"] == ["the fox", "a do"]
    assert sides.ours["read whole"]["no final newline"] == ["the fox", "a dog"]


def test_a_byte_order_mark_is_no_part_of_the_first_text(sides):
    assert sides.theirs["read whole"]["byte-order mark"] == ["\ufeffthe fox", "a dog"]
    assert sides.ours["read whole"]["byte-order mark"] == ["the fox", "a dog"]


def test_corpus_lines_has_an_effect(sides):
    assert sides.theirs["read whole"]["corpus_lines"] == 7
    assert sides.ours["read whole"]["corpus_lines"] == 3


def test_more_corpus_lines_than_lines_is_an_error(sides):
    assert sides.theirs["read whole"]["too many corpus_lines"] == 7
    assert "corpus_lines is 11, but the file has 7 lines" in sides.ours["read whole"]["too many corpus_lines"]["message"]


def test_a_lone_carriage_return_ends_no_line(sides):
    assert sides.theirs["read whole"]["lone CR"] == 2
    assert sides.ours["read whole"]["lone CR"]["message"].startswith("bytes.txt:1: ")


@pytest.mark.parametrize(
    ("line", "theirs", "ours"),
    [
        ("third column", ["the fox", "a dog"], "bytes.txt:2: expected two texts separated by one tab, got 3 fields"),
        ("empty second", ["the fox", ""], "bytes.txt:2: expected two texts separated by one tab, the second is empty"),
    ],
)
def test_a_line_that_passed_in_silence_is_named(sides, line, theirs, ours):
    assert sides.theirs["bad lines"][line] == theirs
    assert sides.ours["bad lines"][line]["message"].startswith(ours)
    assert "ValueError" in sides.ours["bad lines"][line]["raised"]


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("blank", "bytes.txt:2: expected two texts separated by one tab, got a blank line"),
        ("no tab", "bytes.txt:2: expected two texts separated by one tab, got 1 field"),
        ("backslash t", "bytes.txt:2: the line has a backslash and a t where a tab belongs"),
        ("empty file", "bytes.txt: no pair of texts, got an empty file"),
    ],
)
def test_a_line_that_crashed_in_training_is_found_at_the_start(sides, line, ours):
    assert sides.theirs["bad lines"][line]["late"]["raised"][0] == "IndexError"
    assert sides.ours["bad lines"][line]["message"].startswith(ours)
    assert "ValueError" in sides.ours["bad lines"][line]["raised"]


def test_all_bad_lines_are_counted(sides):
    assert sides.theirs["bad lines"]["two at once"]["late"]["message"] == "list index out of range"
    assert "(2 bad lines in all, next: 4 E-CORPUS-BLANK)" in sides.ours["bad lines"]["two at once"]["message"]


def test_a_byte_of_another_encoding_is_named_with_its_line(sides):
    assert sides.theirs["bad lines"]["not utf-8"]["raised"][0] == "UnicodeDecodeError"
    assert "bytes.txt" not in sides.theirs["bad lines"]["not utf-8"]["message"]
    assert sides.ours["bad lines"]["not utf-8"]["message"].startswith("bytes.txt:2: byte 0xe9")


def test_a_missing_corpus_is_named_and_what_to_do(sides):
    assert sides.theirs["bad lines"]["missing file"]["raised"][0] == "FileNotFoundError"
    assert "missing.txt: cannot be read" in sides.ours["bad lines"]["missing file"]["message"]
    assert "[E-FILE-READ]" in sides.ours["bad lines"]["missing file"]["message"]


@pytest.mark.parametrize("lines", ["counted", "told"])
def test_a_corpus_can_stay_on_disk(sides, lines):
    assert sides.theirs["from file"][lines]["raised"][0] == "TypeError"
    assert sides.ours["from file"][lines] == {"line": ["blue fox", "the dog"], "as in memory": True, "len": 3}


def test_a_swapped_word_is_never_a_special(sides):
    assert sides.theirs["targets"]["swapped for specials"] > 0
    assert sides.ours["targets"]["swapped for specials"] == 0
    assert sides.ours["targets"]["swapped for words"] > 0


def test_unknown_words_are_not_taught(sides):
    assert sides.theirs["targets"]["unknown words taught"] > 0
    assert sides.ours["targets"]["unknown words taught"] == 0


def test_every_example_has_something_to_predict(sides):
    assert sides.theirs["targets"]["nothing to predict"] > 0
    assert sides.ours["targets"]["nothing to predict"] == 0


def test_a_wrong_partner_is_never_the_true_one(sides):
    assert sides.theirs["negatives"]["two texts"] > 0
    assert sides.ours["negatives"]["two texts"] == 0
    assert sides.ours["negatives"]["two texts, others"] > 0


def test_a_corpus_without_another_partner_has_no_wrong_ones(sides):
    assert sides.theirs["negatives"]["one text"] > 0
    assert sides.ours["negatives"]["one text"] == 0
    assert sides.ours["negatives"]["one text, others"] == 0


def test_wrong_partners_do_not_come_from_get_random_line(sides):
    assert sides.theirs["own partners"] == ["blue blue"]
    assert sides.ours["own partners"] == ["a dog", "a fox"]


def test_a_long_first_text_leaves_room_for_the_second(sides):
    assert sides.theirs["cut"] == {"eos": 0, "segments": [1, 1, 1, 1, 1, 1, 1]}
    assert sides.ours["cut"] == {"eos": 2, "segments": [1, 1, 1, 1, 2, 2, 2]}


def test_an_example_is_the_same_when_asked_for_again_within_a_pass(sides):
    assert sides.theirs["repeated"] == {"several": True, "same with workers": False, "set_epoch": False}
    assert sides.ours["repeated"] == {"several": False, "same with workers": True, "set_epoch": True}


def test_a_length_without_room_for_two_words_is_an_error(sides):
    assert sides.theirs["seq_len=3"] == 3
    assert "seq_len is 3, expected at least 5" in sides.ours["seq_len=3"]["message"]


def test_a_vocabulary_that_knows_no_word_of_the_corpus_is_an_error(sides):
    assert sides.theirs["foreign words"] == 1
    assert "no word of it is in the vocabulary" in sides.ours["foreign words"]["message"]
