"""Words and sentences of any script: nothing is lost, clusters stay whole, and no input gives a traceback."""

import contextlib
import io
import json
import tempfile
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_pytorch.preparation.layout import FORMATS
from bert_pytorch.preparation.sentences import in_sentences
from bert_pytorch.preparation.words import plain, word_former

from .examples import load_script, read_part

SCRIPT = load_script("data-preparation", "make_pairs")
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
WAVE = "\U0001f44b\U0001f3fd"
FLAG = "\U0001f1e9\U0001f1ea"
HINDI = "\u0939\u093f\u0928\u094d\u0926\u0940"
TIED = "\u0915\u094d\u200d\u0937"
ARABIC = ("\u0645\u0631\u062d\u0628\u0627", "\u0643\u064a\u0641")
PARTED = {
    "Don't stop, he said: 'go_on'!": "Don ' t stop , he said : ' go _ on ' !",
    f"hi{FAMILY}you {WAVE}{WAVE} {FLAG}{FLAG} 3\u20ac": f"hi {FAMILY} you {WAVE} {WAVE} {FLAG} {FLAG} 3 \u20ac",
    "cafe\u0301, na\u00efve.": "cafe\u0301 , na\u00efve .",
    f"{HINDI}\u0964 {TIED}": f"{HINDI} \u0964 {TIED}",
    f"{ARABIC[0]}\u060c {ARABIC[1]}\u061f": f"{ARABIC[0]} \u060c {ARABIC[1]} \u061f",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002": "\u4f60\u597d \uff0c \u4e16\u754c \u3002",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
}
CHARACTERS = {
    "\u4f60\u597d a": "\u4f60 \u597d a",
    f"{FAMILY}{FLAG}x": f"{FAMILY} {FLAG} x",
    "\u0915\u094d\u0937\u093f\u0939": "\u0915\u094d\u0937\u093f \u0939",
    "e\u0301a": "e\u0301 a",
    "\u1112\u1161\u11ab\u1100": "\u1112\u1161\u11ab \u1100",
}


@pytest.mark.parametrize("text", PARTED)
def test_punctuation_is_parted_and_clusters_stay_whole(text):
    assert word_former(punctuation=True)(text) == PARTED[text]


@pytest.mark.parametrize("text", CHARACTERS)
def test_characters_are_those_that_a_reader_counts(text):
    assert word_former(characters=True)(text) == CHARACTERS[text]
    assert [c for word in text.split() for c in regex.findall(r"\X", word)] == CHARACTERS[text].split(" ")


def test_controls_tabs_and_line_ends_part_words_and_joiners_do_not():
    assert plain("\ufeff a\tb\x00c\x07\x85d\u3000e\u00a0f\u2028g\rh \n") == "a b c d e f g h"
    assert plain("a\u200db\u200c \u200bc") == "a\u200db\u200c \u200bc"
    assert plain("\x00\x01\t") == ""
    assert word_former(lowercase=True)("\u00c4B \u0130") == "\u00e4b i\u0307"


@settings(deadline=None, max_examples=300)
@given(st.text(), st.booleans())
def test_parting_neither_loses_nor_adds_a_character(text, characters):
    form = word_former(characters=characters, punctuation=not characters)
    assert form(text).replace(" ", "") == plain(text).replace(" ", "")
    assert form(text) == plain(form(text))
    assert form(form(text)) == form(text)


@settings(deadline=None, max_examples=200)
@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_the_short_way_for_ascii_finds_the_same(text):
    # A letter of another script takes the long way.
    assert (
        word_former(punctuation=True)(text) + " \u00e9" == word_former(punctuation=True)(f"{text} \u00e9").strip() or not text
    )


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.text(alphabet="ab. !?\"'()\n\u3002\uff01\u0964Mr1"), max_size=9),
    st.sampled_from(["en", "zh", "hi", "ar", "de"]),
)
def test_splitting_sentences_keeps_every_character(texts, language):
    lines = [line for text in texts for line in text.split("\n")]
    found = list(in_sentences(iter([*lines, None]), language))
    assert found[-1] is None
    assert "".join("".join(found[:-1]).split()) == "".join("".join(lines).split())


def test_sentences_go_over_line_ends_and_never_over_a_document(monkeypatch):
    lines = ["Dr. Ada went", "home. She", "slept. And", None, "then? Yes", None]
    assert [plain(line) for line in in_sentences(iter(lines), "en") if line] == [
        *("Dr. Ada went home.", "She slept.", "And"),
        *("then?", "Yes"),
    ]
    assert list(in_sentences(iter(["\u6211\u6765", "\u4e86\u3002\u4f60", None]), "zh")) == [
        "\u6211\u6765\u4e86\u3002",
        "\u4f60",
        None,
    ]
    story = [f"It was day {i} when the ship came in. All saw it!" for i in range(997)]
    whole = list(in_sentences(iter([*story, None]), "en"))
    monkeypatch.setattr("bert_pytorch.preparation.sentences._LEAST_CHARACTERS", 101)
    assert list(map(plain, list(in_sentences(iter([*story, None]), "en"))[:-1])) == list(map(plain, whole[:-1]))
    assert len(whole) == 2 * 997 + 1


def run(content, *flags):
    """The script on one file of these bytes: it ends with a report, and the library reads what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "input"
        path.write_bytes(content)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = SCRIPT.main(["--input", str(path), "--output", f"{folder}/out", "--json", *flags])
        report = json.loads(out.getvalue())
        assert "Traceback" not in err.getvalue()
        assert status == (0 if report["ok"] else 1)
        assert report["ok"] or report["code"] not in (None, "E-UNEXPECTED")
        report["lines_made"] = []
        for part in report.get("outputs", {}).values():
            report["lines_made"] += read_part(part, "--single" in flags)
        return report


FLAGS = {
    "text": st.sampled_from([[], ["--split_sentences", "en"], ["--target_len", "5"], ["--split_punctuation"], ["--kmer", "2"]]),
    "jsonl": st.sampled_from([[], ["--group_by", "g"], ["--split_characters"]]),
    "csv": st.sampled_from([[], ["--no_header"], ["--no_quotes"], ["--columns", "1", "2", "--row_pairs"]]),
    "tsv": st.sampled_from([[], ["--no_header"], ["--columns", "2", "1", "--row_pairs"]]),
    "log": st.sampled_from([[], ["--session", r"(\w)"], ["--window", "2", "--lowercase"]]),
    "fasta": st.sampled_from([[], ["--kmer", "3", "--stride", "2", "--window", "2"]]),
}
FRAGMENTS = st.sampled_from(
    [
        *(
            b"\n",
            b"\r\n",
            b"\t",
            b",",
            b'"',
            b"\0",
            b"\x0c",
            b"\xc2\xa0",
            b"\x85",
            b"\\t",
            b"a",
            b"b c. ",
            b"> x\n",
            b"1.2.3.4 ",
        ),
        *(b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", "\U0001f468\u200d".encode()),
        *(b'{"text": "x\\ny", "g": 1}\n', b'{"text": ["\\ud800"]}\n'),
    ]
)
ENCODINGS = st.sampled_from(["utf-8", "utf-16", "utf-7", "latin-1", "gb18030", "cp037"])
CONTENT = st.one_of(st.lists(FRAGMENTS, max_size=40).map(b"".join), st.binary(max_size=200))


@pytest.mark.filterwarnings("default")
@settings(deadline=None, max_examples=120)
@given(st.sampled_from(FORMATS).flatmap(lambda kind: st.tuples(st.just(kind), FLAGS[kind])), CONTENT, ENCODINGS, st.data())
def test_no_bytes_give_a_traceback_and_what_is_written_is_always_a_corpus(kind_and_flags, content, encoding, data):
    kind, flags = kind_and_flags
    more = data.draw(st.sampled_from([[], ["--skip_bad_lines"], ["--skip_bad_lines", "--valid_share", "0"], ["--single"]]))
    if more == ["--single"] and "--row_pairs" in flags:
        more = []
    run(content, "--format", kind, "--encoding", encoding, *flags, *more)


@pytest.mark.filterwarnings("default")
@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.text(max_size=9), min_size=1, max_size=5), min_size=1, max_size=5))
def test_every_word_is_in_the_pairs_where_it_stood_and_pairs_are_neighbours(documents):
    documents = [[sentence.replace("\n", " ") for sentence in document] for document in documents]
    content = "".join(json.dumps({"text": document}) + "\n" for document in documents).encode()
    expected = []
    for document in documents:
        sentences = [plain(sentence) for sentence in document if plain(sentence)]
        expected += [(sentences[i], sentences[i + 1]) for i in range(len(sentences) - 1)]
    report = run(content, "--format", "jsonl", "--valid_share", "0")
    assert report["lines_made"] == expected
    assert report["ok"] is bool(expected)


@pytest.mark.parametrize("word", ["\u4f60\u597d", ARABIC[0], HINDI, FAMILY, "e\u0301\u0323"])
def test_a_line_of_a_megabyte_in_any_script_is_whole(word):
    n = 1_000_000 // len((word + " ").encode())
    long = " ".join([word] * n)
    report = run(f"start\0ed\n{long}\nend\n".encode(), "--valid_share", "0")
    assert report["lines_made"] == [("start ed", long), (long, "end")]
    packed = run(f"{long}\n".encode(), "--valid_share", "0", "--target_len", "125")
    assert sum(len(text.split()) for pair in packed["lines_made"] for text in pair) in range(n, n + 63)
    row = json.dumps({"text": [long, "end"]}).encode()
    assert run(row, "--format", "jsonl", "--valid_share", "0")["lines_made"] == [(long, "end")]
    assert (
        run(f"{long},end\n".encode(), *"--format csv --no_header --columns 1 2 --row_pairs --valid_share 0".split())["pairs"]
        == 1
    )
