"""Where the two commands differ from 0.0.1a4 on purpose: its answer, then ours (clients/commands_faults.py)."""

import json

import pytest

USAGE = {"raised": ["SystemExit", "BaseException", "object"], "message": "2"}


@pytest.fixture
def sides(run_both):
    return run_both("commands", part="faults")


@pytest.mark.parametrize(("word", "ours"), [("True", True), ("False", False), ("no", False), ("0", False)])
def test_a_boolean_is_read_as_one(sides, word, ours):
    assert sides.theirs["booleans"][word] == [True, True]
    assert sides.ours["booleans"][word] == [ours, ours]


def test_junk_for_a_boolean_is_wrong_usage(sides):
    assert sides.theirs["junk"] == [True, True]
    assert sides.ours["junk"] == USAGE


def test_examples_are_shuffled(sides):
    assert sides.theirs["order"] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert sorted(sides.ours["order"]) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    assert sides.ours["order"] != sides.theirs["order"]


def test_the_same_command_line_gives_the_same_model(sides):
    assert sides.theirs["same run twice"] == [False, 1]
    assert sides.ours["same run twice"] == [True, 1]


def test_the_default_number_of_workers_is_chosen_by_the_machine(run_both):
    sides = run_both("commands")
    assert sides.theirs["parsers"]["bert"]["least"]["num_workers"] == 5
    assert sides.ours["parsers"]["bert"]["least"]["num_workers"] is None


def test_the_output_folder_is_made(sides):
    assert sides.theirs["folder is made"][0]["raised"][0] == "RuntimeError"
    assert sides.theirs["folder is made"][1] is False
    assert sides.ours["folder is made"] == [0, True]


@pytest.mark.parametrize(
    ("case", "theirs"),
    [("vocabulary missing", "FileNotFoundError"), ("corpus missing", "FileNotFoundError"), ("bad line", "IndexError")],
)
def test_a_fault_of_the_input_is_a_status_and_no_traceback(sides, case, theirs):
    assert sides.theirs[case]["raised"][0] == theirs
    assert sides.ours[case] == 1


def test_a_flag_without_effect_is_wrong_usage(sides):
    assert sides.theirs["no effect"] is None
    assert sides.ours["no effect"] == 2


@pytest.mark.parametrize("case", ["seq_len 3", "min_freq 0", "vocab_size 0"])
def test_a_number_out_of_its_range_is_wrong_usage(sides, case):
    assert sides.theirs[case] is None
    assert sides.ours[case] == USAGE


def test_a_vocabulary_of_specials_alone_is_an_error(sides):
    assert sides.theirs["no word left"] is None
    assert sides.ours["no word left"] == 1


def test_a_beginning_that_new_flags_share_is_wrong_usage(sides):
    assert sides.theirs["beginning"] is None
    assert sides.ours["beginning"] == USAGE


def test_a_command_ends_with_json(sides):
    assert sides.theirs["last words"] == "VOCAB SIZE: 23"
    report = json.loads(sides.ours["last words"])
    assert report["ok"] is True
    assert report["vocab_size"] == 23


def test_the_package_runs_as_a_module(sides):
    assert sides.theirs["module"] == {"outcome": "no help", "help": False}
    assert sides.ours["module"]["outcome"]["raised"][0] == "SystemExit"
    assert sides.ours["module"]["help"] is True
