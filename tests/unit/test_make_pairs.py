"""make_pairs.py as its user runs it: every format, and what is refused."""

import csv
import gzip
import io
import json
import random
import re
import subprocess
import sys
from itertools import pairwise

import pytest
import zstandard

from .examples import ROOT, SHARED, load_script, read_part

# Warnings go to stderr, as they do for the user.
pytestmark = pytest.mark.filterwarnings("default")

SCRIPT = ROOT / "skills" / "data-preparation" / "scripts" / "make_pairs.py"
STORY = "one a\ntwo b\nthree c\n\nfour d\nfive e\n\nsix f\nseven g\n"
PAIRS = {("one a", "two b"), ("two b", "three c"), ("four d", "five e"), ("six f", "seven g")}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32-be", "cp037", "utf-7"])
def test_blank_lines_part_documents_in_any_encoding(make_pairs, line_end, encoding):
    report = make_pairs(STORY.replace("\n", line_end).encode(encoding), "--encoding", encoding)
    assert set(report["lines_made"]) == PAIRS
    assert (report["documents"], report["sentences"], report["lines"]) == (3, 7, 9)
    assert report["valid_documents"] == 1


def test_form_feeds_part_documents_and_files_do_where_they_are_documents(make_pairs, tmp_path):
    assert set(make_pairs(STORY.replace("\n\n", "\n\f"))["lines_made"]) == PAIRS
    (tmp_path / "second.txt").write_text("eight\nnine\n")
    script = load_script("data-preparation", "make_pairs")
    flags = ["--document_per_file", "--json", "--output", str(tmp_path / "two")]
    assert script.main(["--input", str(tmp_path / "input.txt"), str(tmp_path / "second.txt"), *flags]) == 0
    pairs = [*read_part(tmp_path / "two.train.txt"), *read_part(tmp_path / "two.valid.txt")]
    assert set(pairs) >= {("eight", "nine"), ("one a", "two b")}
    assert not any("nine" in first for first, _ in pairs)


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_compressed_files_are_read_whole_or_refused(make_pairs, kind):
    # Two members, or frames, after each other are one file.
    half = len(STORY) // 2
    parts = [STORY[:half].encode(), STORY[half:].encode()]
    pack = gzip.compress if kind == "gz" else zstandard.ZstdCompressor().compress
    packed = b"".join(map(pack, parts))
    assert set(make_pairs(packed, name=f"input.txt.{kind}")["lines_made"]) == PAIRS


@pytest.mark.parametrize("kind", ["gz", "zst"])
@pytest.mark.parametrize("damage", [lambda packed: packed[:-3], lambda packed: packed[:9] + b"\xff" * 9 + packed[18:]])
def test_damaged_compressed_files_are_refused(make_pairs, kind, damage):
    content = random.Random(1).randbytes(997).hex().encode()
    packed = gzip.compress(content) if kind == "gz" else zstandard.ZstdCompressor(write_checksum=True).compress(content)
    report = make_pairs(damage(packed), name=f"input.txt.{kind}")
    assert report["code"] == "E-FILE-READ"
    assert "damaged or cut short" in report["error"] or "CRC" in report["error"]


def test_standard_input_is_read_decompressed(tmp_path):
    command = [sys.executable, SCRIPT, "--input", "-", "--compression", "gz", "--output", tmp_path / "out", "--json"]
    done = subprocess.run(command, input=gzip.compress(STORY.encode()), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert set(read_part(tmp_path / "out.train.txt") + read_part(tmp_path / "out.valid.txt")) == PAIRS


def test_json_lines_hold_texts_or_lists_nested_or_grouped(make_pairs):
    rows = [
        {"a": {"b": "x1\nx2\n\nx3"}, "who": "p"},
        {"a": {"b": ["y1\tz", "y2\nz"]}, "who": "q"},
        {"a": {"b": "x4"}, "who": "p"},
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows)
    alone = make_pairs(content, "--field", "a.b", name="input.jsonl")
    assert set(alone["lines_made"]) == {("x1", "x2"), ("x2", "x3"), ("y1 z", "y2 z")}
    assert alone["dropped_documents"] == 1
    grouped = make_pairs(content, "--field", "a.b", "--group_by", "who", name="input.ndjson")
    assert set(grouped["lines_made"]) == {("x1", "x2"), ("x2", "x3"), ("x3", "x4"), ("y1 z", "y2 z")}
    assert grouped["documents"] == 2


@pytest.mark.parametrize(
    "line", ["{", "[1]", "3", '{"text": 3}', '{"text": [1]}', '{"other": "x"}', '{"text": "\\ud800"}', "[" * 9999, "9" * 9999]
)
def test_a_bad_record_is_refused_by_line_or_left_out_and_counted(make_pairs, line):
    good = '{"text": "a\\nb"}\n{"text": "c\\nd"}\n'
    report = make_pairs(f"{good}{line}\n", name="input.jsonl")
    assert report["code"] == "E-PAIRS-RECORD"
    assert "input.jsonl:3: expected" in report["error"]
    assert make_pairs(f"{good}{line}\n", "--skip_bad_lines", name="input.jsonl")["skipped_lines"] == 1


@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_tables_with_quotes_line_ends_and_delimiters_in_cells(make_pairs, kind, delimiter):
    rows = [["id", "b", "a"], ["1", 'say "x"', "two\r\nlines\there"], ["2", "c, d", "e"], ["2", "f", "g"], ["3", "", "h"]]
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(rows)
    by_name = make_pairs(file.getvalue(), "--columns", "a", "b", "--row_pairs", name=f"input.{kind}")
    assert set(by_name["lines_made"]) == {("two lines here", 'say "x"'), ("e", "c, d"), ("g", "f")}
    assert by_name["dropped_documents"] == 1
    by_number = make_pairs(file.getvalue(), "--columns", "3", "--no_header", "--format", kind, "--valid_share", "0")
    assert by_number["lines_made"] == [("two", "lines here")]
    grouped = make_pairs(file.getvalue(), "--columns", "a", "b", "--group_by", "id", name=f"input.{kind}")
    assert set(grouped["lines_made"]) >= {("e", "c, d"), ("c, d", "g"), ("g", "f"), ("lines here", 'say "x"')}
    assert grouped["documents"] == 3


@pytest.mark.parametrize("row", ["one", "a,b,c", '"open,x', 'a,"b"c', "a,b\rc"])
def test_a_bad_row_is_refused_by_line_or_left_out_and_counted(make_pairs, row):
    good = "h,k\n1,2\n3,4\n"
    report = make_pairs(f"{good}{row}\n", "--columns", "h", "k", "--row_pairs", name="input.csv")
    assert report["code"] == "E-PAIRS-RECORD"
    assert re.search(r"input\.csv:\d: expected", report["error"])
    report = make_pairs(f"{good}{row}\n", "--columns", "h", "k", "--row_pairs", "--skip_bad_lines", name="input.csv")
    assert report["skipped_lines"] == 1
    assert set(report["lines_made"]) == {("1", "2"), ("3", "4")}


def test_fasta_records_become_windows_of_kmers(make_pairs):
    fasta = ">one\nACGTA\nCGT\n>two\nGGGCCCA\n>short\nA\n"
    report = make_pairs(fasta, "--kmer", "3", "--stride", "3", "--window", "1", name="input.fa")
    assert set(report["lines_made"]) == {("ACG", "TAC"), ("GGG", "CCC")}
    assert report["dropped_letters"] == 2 + 1 + 1
    letters = make_pairs(fasta, "--window", "5", "--lowercase", name="input.fasta")
    assert set(letters["lines_made"]) == {("a c g t a", "c g t"), ("g g g c c", "c a")}
    lines = make_pairs("ACGTA\nCCC\nGGGG\n", "--kmer", "2", "--window", "2")
    assert set(lines["lines_made"]) == {("AC CG", "GT TA"), ("GG GG", "GG")}
    assert lines["dropped_documents"] == 1


@pytest.mark.parametrize(("k", "stride", "window"), [(1, 1, 7), (3, 1, 5), (3, 2, 2), (3, 3, 3), (2, 5, 3), (5, 7, 1)])
def test_kmers_are_those_of_the_whole_sequence_however_its_lines_end(make_pairs, k, stride, window):
    draw = random.Random(k)
    sequences = ["".join(draw.choices("ACGT", k=draw.randrange(3 * k + 40, 199))) for _ in range(5)]
    fasta = "".join(f">s{i}\n" + re.sub(f"(.{{{i + 2}}})", r"\1\n", s) + "\n" for i, s in enumerate(sequences))
    flags = ["--kmer", str(k), "--stride", str(stride), "--window", str(window), "--single", "--valid_share", "0"]
    report = make_pairs(fasta, *flags, name="input.fasta")
    expected, n_dropped = [], 0
    for sequence in sequences:
        starts = range(0, len(sequence) - k + 1, stride)
        words = [sequence[start : start + k] for start in starts]
        expected += [" ".join(words[i : i + window]) for i in range(0, len(words), window)]
        n_dropped += len(set(range(len(sequence))) - {start + i for start in starts for i in range(k)})
    assert report["lines_made"] == expected
    assert report["dropped_letters"] == n_dropped


def test_no_pair_of_the_bible_crosses_a_chapter(make_pairs):
    if not SHARED.is_dir():
        pytest.skip("the shared data are not here")
    content = (SHARED / "kjv.train.txt").read_text(encoding="utf-8")
    chapters = [chapter.split("\n") for chapter in content.strip("\n").split("\n\n")]
    report = make_pairs(content)
    assert sorted(report["lines_made"]) == sorted(pair for chapter in chapters for pair in pairwise(chapter))
    assert report["documents"] == len(chapters)
