"""Any bytes give a right report or an error of one line, and a clean corpus that is clean."""

import contextlib
import os

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bert_pytorch.dataset.corpus import PairCorpus, split_line
from bert_pytorch.errors import InputError
from bert_pytorch.preparation.checking import CheckOptions, check_corpus
from bert_pytorch.preparation.faults import KINDS, READABLE_KINDS, Rules, excerpt

from .examples import assert_one_line

ENCODINGS = (
    "utf-8",
    "utf-8-sig",
    "utf-16",
    "utf-16-le",
    "utf-32",
    "latin-1",
    "cp1252",
    "shift_jis",
    "gb18030",
    "utf-7",
    "cp500",
)
# Whatever has a part in some kind of fault, so that its kinds meet in one line.
PIECES = (
    *(b"a", b"b", b"ab", b"x" * 9, b" ", b"  ", b"\t", b"\n", b"\r", b"\r\n", b"\\t", b"\\", b"t", b"<mask>", b"<", b"+AAo-"),
    *(b"\x00", b"\x07", b"\x0b", b"\xc2\xa0", b"\xc2\x85", b"\xff\xfe", b"\xe9"),
    *(b"\xef\xbb\xbf", b"\xe2\x80\x8b", b"\xe2\x80\x8d", b"\xe8\xaf\xad", b"e\xcc\x81"),
    *("\u0928\u092e\u0938\u094d\u0924\u0947".encode(), "\U0001f469\u200d\U0001f52c".encode()),
)
contents = st.binary(max_size=60) | st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)
lines = contents.map(lambda content: content.replace(b"\n", b""))
bounded = settings(deadline=None, max_examples=250)


@bounded
@given(lines)
def test_check_and_training_refuse_the_same_lines(line):
    finding = Rules().examine(line, "utf-8")
    is_refused = False
    try:
        texts = split_line(line, "utf-8")
        assert finding.words == tuple(text.split() for text in texts)
    except InputError:
        is_refused = True
        assert finding.words == ()
    assert is_refused == any(KINDS[kind].is_refused for kind in finding.places)
    for kind, place in finding.places.items():
        shown = excerpt(line if kind == "encoding" else finding.text, place)
        assert shown.isascii()
        assert shown.isprintable()
        assert len(shown) <= 60


@bounded
@given(
    st.lists(st.one_of(lines, st.sampled_from([b"a b\tc", b"d\te f", b"g"])), min_size=1, max_size=5), st.sampled_from([1, 2])
)
def test_lines_looked_at_together_have_what_each_has_alone(group, columns):
    rules = Rules(columns, max_chars=11)
    plain = rules.examine_together(group, "utf-8")
    if plain is not None:
        findings = [rules.examine(line, "utf-8") for line in group]
        assert [finding.places for finding in findings] == [{}] * len(group)
        assert plain.texts == [line.decode() for line in group]
        assert plain.words == [word for finding in findings for text in finding.words for word in text]
        assert plain.lengths == [tuple(map(len, finding.words)) for finding in findings]
        assert plain.texts == ["\t".join(map(" ".join, finding.words)) for finding in findings]


def check_and_fix(content, other, encoding, allowed, columns):
    for path in ("clean.txt", "clean.txt.changes.tsv"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    for path, written in (("corpus.txt", content), ("other.txt", other)):
        with open(path, "wb") as file:
            file.write(written)
    rules = Rules(columns, 40, allowed)
    try:
        report = check_corpus("corpus.txt", rules, CheckOptions(encoding, other="other.txt", fix="clean.txt"))
    except InputError as error:
        assert error.code in ("E-CORPUS-NO-PAIRS", "E-CORPUS-ENCODING")
        assert_one_line(error, "other.txt" if "other.txt" in str(error) else "corpus.txt", error.code)
        assert not os.path.exists("clean.txt")
        return None
    assert report["ok"] == (not report["faults"])
    return report


@bounded
@given(contents, contents, st.sampled_from(ENCODINGS), st.sets(st.sampled_from(READABLE_KINDS)), st.sampled_from([1, 2]))
@example(b"a\xe2\x80\x8b\tb\na\tb\n", b"a\tb\n", "utf-8", {"duplicate"}, 2)
@example(b"x\n\xef\xbb\xbf\tb\na\tb\r\x00\r\n", b"", "utf-8", {"bom", "crlf"}, 2)
@example(b"a+AAo-b\tc\n", b"", "utf-7", {"control"}, 2)
def test_a_clean_corpus_is_clean(tmp_path, content, other, encoding, allowed, columns):
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        report = check_and_fix(content, other, encoding, allowed, columns)
        if report is None:
            return
        written = report["fixed"]["output"]
        if written is None:
            assert not os.path.exists("clean.txt")
            return
        with open("other.txt", "wb") as file:
            file.write(b"" if "overlap" in allowed else other.decode(encoding, "ignore").encode("utf-8", "ignore"))
        rules = Rules(columns, 40, allowed)
        again = check_corpus(written, rules, CheckOptions())
        assert again["faults"] == {}
        assert again["pairs"] == again["lines"] == report["fixed"]["pairs"]
        assert report["fixed"]["pairs"] + report["fixed"]["left_out"] == report["lines"]
        if encoding == "utf-8" and "overlap" not in allowed:
            assert check_corpus(written, rules, CheckOptions(other="other.txt"))["faults"] == {}
        if columns == 2:
            assert len(PairCorpus(written)) == again["pairs"]
        with open("clean.txt.changes.tsv", "rb") as file:
            rows = file.read().decode("ascii").splitlines()[1:]
        assert len(rows) == report["fixed"]["changed"] + report["fixed"]["left_out"]
        assert all(len(row.split("\t")) == 4 for row in rows)
    finally:
        os.chdir(before)
