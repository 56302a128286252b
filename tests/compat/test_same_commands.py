"""`bert` and `bert-vocab` take every flag of 0.0.1a4 and do with it what it did (clients/commands.py)."""

import re
from pathlib import Path

import pytest

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
OTHER_DEFAULTS = {"bert": {"num_workers": (5, None)}, "bert-vocab": {}}
"""Flag: the default of 0.0.1a4, and ours on purpose (references/provenance.md)."""
SEVERAL = {"bert": set(), "bert-vocab": {"corpus_path"}}
"""Flags that took one value and take several now."""


@pytest.fixture
def sides(run_both):
    return run_both("commands")


@pytest.mark.parametrize("run", ["build least", "build short", "build long", "train short", "train long"])
def test_a_command_line_runs_to_its_end(sides, run):
    assert sides.theirs["done"][run] == 0
    assert sides.ours["done"][run] == 0


def test_vocabularies_that_bert_vocab_wrote(sides):
    words = ["the", "dog", "fox", "a", "birds", "runs", "barks", "sleeps", "it", "now", "river", "sees", "sing", "there", "no"]
    for side in sides:
        assert side["vocabularies"]["word"] == [*SPECIALS, *words, "swims", "to", "cold"]
        assert side["vocabularies"]["short"] == [*SPECIALS, "fox", "caf\xe9"]
        assert side["vocabularies"]["long"] == [*SPECIALS, "fox", "caf\xe9"]


def test_files_that_bert_wrote(sides):
    for side in sides:
        assert side["files"] == ["short.model.ep0", "long.model.ep0", "long.model.ep1"]


@pytest.mark.parametrize(("command", "n_flags"), [("bert", 20), ("bert-vocab", 5)])
def test_every_flag_short_form_and_default_is_kept(sides, command, n_flags):
    theirs, ours = (side["parsers"][command]["flags"] for side in sides)
    assert len(theirs) == n_flags
    # Names of Transformers stand behind those that were there.
    kept = {name: ours[name]["flags"][: len(flag["flags"])] for name, flag in theirs.items()}
    assert kept == {name: flag["flags"] for name, flag in theirs.items()}
    nargs = {name: "+" if name in SEVERAL[command] else flag["nargs"] for name, flag in theirs.items()}
    assert {name: ours[name]["nargs"] for name in theirs} == nargs
    defaults = {name: (theirs[name]["default"], ours[name]["default"]) for name in theirs}
    assert {name: pair for name, pair in defaults.items() if pair[0] != pair[1]} == OTHER_DEFAULTS[command]


@pytest.mark.parametrize(("command", "required"), [("bert", 3), ("bert-vocab", 2)])
def test_no_new_flag_is_required(sides, command, required):
    theirs, ours = ([name for name, flag in side["parsers"][command]["flags"].items() if flag["required"]] for side in sides)
    assert len(theirs) == required
    # In place of --output_path a run may have an --output_dir.
    assert ours == [name for name in theirs if (command, name) != ("bert", "output_path")]


@pytest.mark.parametrize("style", ["least", "short", "long"])
@pytest.mark.parametrize("command", ["bert", "bert-vocab"])
def test_a_command_line_is_read_alike(sides, command, style):
    theirs, ours = (side["parsers"][command][style] for side in sides)
    several = SEVERAL[command]
    same = {name: [value] if name in several else value for name, value in theirs.items() if name != "num_workers"}
    assert len(same) in (19, 5)
    assert {name: ours[name] for name in same} == same


def test_values_of_the_long_command_line(sides):
    for side in sides:
        read = side["parsers"]["bert"]["long"]
        assert [read["hidden"], read["layers"], read["attn_heads"], read["seq_len"]] == [6, 2, 3, 17]
        assert [read["batch_size"], read["epochs"], read["num_workers"], read["log_freq"]] == [5, 2, 0, 3]
        assert [read["corpus_lines"], read["cuda_devices"], read["with_cuda"], read["on_memory"]] == [13, [0], True, True]
        assert [read["lr"], read["adam_weight_decay"], read["adam_beta1"], read["adam_beta2"]] == [0.005, 0.02, 0.8, 0.99]


def test_console_scripts_have_the_same_names(sides):
    declared = re.findall(r'^(bert[a-z-]*) = "bert_pytorch\.', PYPROJECT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(sides.theirs["console scripts"]) == ["bert", "bert-vocab"]
    assert set(sides.theirs["console scripts"]) <= set(declared)


@pytest.mark.parametrize("fault", ["flag missing", "flag unknown", "no number"])
def test_wrong_usage_exits_with_2(sides, fault):
    for side in sides:
        assert side[fault]["raised"][0] == "SystemExit"
        assert side[fault]["message"] == "2"
