"""make_pairs.py says when what it made is too little for figures to mean anything."""

import subprocess
import sys

import pytest

from .examples import ROOT, SHARED

SCRIPT = ROOT / "skills" / "data-preparation" / "scripts" / "make_pairs.py"
LOG = SHARED / "hdfs_2k.log"


def warnings_of(tmp_path, text, *flags):
    """The warnings on stderr."""
    (tmp_path / "input.txt").write_text(text)
    for path in tmp_path.glob("made.*"):
        path.unlink()
    command = [sys.executable, str(SCRIPT), "--input", "input.txt", "--output", "made", "--json", *flags]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("warning: ")]


def story(n_documents, n_sentences=11):
    return "\n".join("".join(f"sentence {i} of {j}\n" for i in range(n_sentences)) for j in range(n_documents))


def test_enough_is_no_reason_to_speak(tmp_path):
    assert warnings_of(tmp_path, story(300)) == []
    assert warnings_of(tmp_path, story(3), "--valid_share", "0") == []


def test_few_held_out_pairs(tmp_path):
    (warning,) = warnings_of(tmp_path, story(40))
    assert warning.startswith("warning: 20 valid pairs tell little, expected 50")
    assert "--valid_share" in warning
    tests = warnings_of(tmp_path, story(200), "--test_share", "0.01")
    assert len(tests) == 1
    assert "--test_share" in tests[0]


@pytest.mark.parametrize(
    ("flags", "advice"), [((), "--single"), (("--log", "--session", r"sentence (\d+)"), "leave --session out")]
)
def test_documents_without_a_pair(tmp_path, flags, advice):
    sessions = "".join(f"sentence {i} x\n" for i in range(100)) + "sentence 7 again\n"
    (warning,) = warnings_of(tmp_path, sessions if flags else story(99, 1) + "\n" + story(1), "--valid_share", "0", *flags)
    assert "99 of 100 documents are too short" in warning
    assert advice in warning
    assert warnings_of(tmp_path, story(9, 1) + "\n" + story(9), "--valid_share", "0") == []


@pytest.mark.skipif(not LOG.exists(), reason="needs the real log")
def test_a_small_log_without_repeats_leaves_nothing_to_measure_and_says_what_else_to_do(tmp_path):
    (warning,) = warnings_of(tmp_path, LOG.read_text(), "--log", "--drop_seen")
    assert "keep those seen in training and say their share with the loss" in warning
    (kept,) = warnings_of(tmp_path, LOG.read_text(), "--log")
    assert "measures memory" in kept
