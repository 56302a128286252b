"""What make_pairs.py refuses, and that it leaves the files as they were."""

import sys

import pytest

from bert_pytorch.preparation.parts import PARTS

from .examples import load_script

# Warnings go to stderr, as they do for the user.
pytestmark = pytest.mark.filterwarnings("default")
STORY = "one a\ntwo b\nthree c\n\nfour d\nfive e\n\nsix f\nseven g\n"


@pytest.mark.parametrize(
    ("flags", "code", "status"),
    [
        (["--field", "x"], "E-SETTING-CONFLICT", 2),
        (["--stride", "2"], "E-SETTING-CONFLICT", 2),
        (["--short_prob", "0.2"], "E-SETTING-CONFLICT", 2),
        (["--window", "3"], "E-SETTING-CONFLICT", 2),
        (["--max_open_sessions", "3"], "E-SETTING-CONFLICT", 2),
        (["--log", "--split_sentences", "en"], "E-SETTING-CONFLICT", 2),
        (["--log", "--session", "(x)", "--window", "3"], "E-SETTING-CONFLICT", 2),
        (["--format", "csv", "--row_pairs"], "E-SETTING-CONFLICT", 2),
        (["--kmer", "2", "--split_characters"], "E-SETTING-CONFLICT", 2),
        (["--split_characters", "--split_punctuation"], "E-SETTING-CONFLICT", 2),
        (["--valid_share", "0", "--drop_seen"], "E-SETTING-CONFLICT", 2),
        (["--valid_share", "0.3", "--test_share", "0.3"], "E-SETTING-CONFLICT", 2),
        (["--log", "--session", "x"], "E-USAGE", 2),
        (["--log", "--session", "("], "E-USAGE", 2),
        (["--log", "--mask", "x=y"], "E-USAGE", 2),
        (["--log", "--mask", "X=y*"], "E-USAGE", 2),
        (["--split_sentences", "english"], "E-USAGE", 2),
        (["--encoding", "klingon"], "E-ENCODING-NAME", 1),
        (["--encoding", "utf-16"], "E-CORPUS-ENCODING", 1),
        (["--valid_share", "0.1", "--document_per_file"], "E-PAIRS-PARTS", 1),
        (["--log", "--session", "(zzz)"], "E-PAIRS-NONE", 1),
    ],
)
def test_what_cannot_be_done_or_has_no_effect_is_refused(make_pairs, flags, code, status):
    content = STORY.encode() + b"\xd8\xd8\xd8" if code == "E-CORPUS-ENCODING" else STORY
    report = make_pairs(content, *flags)
    assert (report["code"], report["status"]) == (code, status)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "an empty input"), (b"a\n\nb\n", "2 documents of at most one"), (b"\0\n", "without a sentence"), (b"\xff\n", "")],
)
def test_no_pair_at_all_is_an_error_that_says_why(make_pairs, content, words):
    report = make_pairs(content, "--skip_bad_lines")
    assert report["code"] == "E-PAIRS-NONE"
    assert words in report["error"]


def test_an_input_is_never_overwritten_nor_a_stale_part_left_beside(make_pairs, tmp_path):
    assert make_pairs(STORY, "--test_share", "0.2")["test_pairs"] > 0
    before = (tmp_path / "out.train.txt").read_bytes()
    script = load_script("data-preparation", "make_pairs")
    assert script.main(["--input", str(tmp_path / "input.txt"), "--output", str(tmp_path / "out"), "--json"]) == 1
    assert script.main(["--input", str(tmp_path / "out.train.txt"), "--output", str(tmp_path / "out"), "--json"]) == 2
    assert (tmp_path / "out.train.txt").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", *(f"out.{n}.txt" for n in sorted(PARTS))]


def test_a_bad_line_is_named_or_parts_its_neighbours(make_pairs):
    report = make_pairs(b"a\nb\n\xff\nc\nd\n")
    assert report["code"] == "E-CORPUS-ENCODING"
    assert "input.txt:3: byte 0xff" in report["error"]
    report = make_pairs(b"a\nb\n\xff\nc\nd\n", "--skip_bad_lines")
    assert set(report["lines_made"]) == {("a", "b"), ("c", "d")}
    assert report["skipped_lines"] == 1


@pytest.mark.parametrize(
    ("package", "flags", "name"),
    [("zstandard", [], "a.zst"), ("sentencex", ["--split_sentences", "en"], "a.txt"), ("drain3", [], "a.log")],
)
def test_an_absent_package_is_3_with_its_install_line(make_pairs, monkeypatch, package, flags, name):
    for module in [module for module in sys.modules if module.split(".")[0] == package] + [package]:
        monkeypatch.setitem(sys.modules, module, None)
    report = make_pairs(STORY, *flags, name=name)
    assert (report["status"], report["code"]) == (3, "E-DEPENDENCY")
    assert f"python -m pip install {package}" in report["error"]
