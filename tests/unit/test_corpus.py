"""A corpus file: its encodings and line ends, its bad lines, and access by index."""

import codecs
import os

import pytest

from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.lines import read_text

GOOD = [("a b", "c d"), ("é f", "g ü"), ("h", "i j k")]
TEXT = "".join(f"{first}\t{second}\n" for first, second in GOOD)
BAD_LINES = {
    b"": "E-CORPUS-BLANK",
    b"   ": "E-CORPUS-BLANK",
    b"\t": "E-CORPUS-BLANK",
    b"\r": "E-CORPUS-BLANK",
    b"only one text": "E-CORPUS-TAB",
    b"one\ttwo\tthree": "E-CORPUS-TAB",
    b"one\ttwo\t": "E-CORPUS-TAB",
    b"one\t\ttwo": "E-CORPUS-TAB",
    b"\tone\ttwo": "E-CORPUS-TAB",
    b"one\t": "E-CORPUS-EMPTY-TEXT",
    b"\ttwo": "E-CORPUS-EMPTY-TEXT",
    b"one\t \xc2\xa0 ": "E-CORPUS-EMPTY-TEXT",
    b"one\\ttwo": "E-CORPUS-BACKSLASH-T",
    b"one \\t two": "E-CORPUS-BACKSLASH-T",
    b"caf\xe9\ttwo": "E-CORPUS-ENCODING",
    b"one\ttwo\xc3": "E-CORPUS-ENCODING",
    b"\xed\xa0\x80\tlone surrogate": "E-CORPUS-ENCODING",
}
ENCODINGS = (
    *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be", "utf-7"),
    *("latin-1", "cp1252", "cp437", "gb18030", "cp037", "cp500"),
)

both_places = pytest.mark.parametrize("on_memory", [True, False])


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "corpus.txt")


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


@both_places
@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends_and_byte_order_mark_are_no_part_of_the_texts(path, on_memory, mark, line_end, last):
    text = TEXT.replace("\n", line_end) if last else TEXT.replace("\n", line_end).removesuffix(line_end)
    corpus = PairCorpus(write(path, mark + text.encode()), on_memory=on_memory)
    assert list(corpus) == GOOD
    assert [corpus[i] for i in (2, 0, 1)] == [GOOD[2], GOOD[0], GOOD[1]]
    assert len(corpus) == 3


@both_places
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_text_encoding_of_python_is_read(path, on_memory, encoding, line_end):
    corpus = PairCorpus(write(path, TEXT.replace("\n", line_end).encode(encoding)), encoding, on_memory=on_memory)
    assert list(corpus) == GOOD
    assert corpus[2] == GOOD[2]


@both_places
@pytest.mark.parametrize(
    ("encoding", "codec"),
    [("utf-16", "utf-16-be"), ("utf-32", "utf-32-be")]
    + [(name, name) for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "gb18030")],
)
def test_a_byte_order_mark_is_skipped_whatever_the_encoding_is_called(path, on_memory, encoding, codec):
    corpus = PairCorpus(write(path, ("\ufeff" + TEXT).encode(codec)), encoding, on_memory=on_memory)
    assert list(corpus) == GOOD


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "cp1252"])
def test_text_for_a_vocabulary_is_read_the_same_way(path, encoding):
    write(path, ("\ufeff" * (encoding == "utf-16-le") + TEXT).encode(encoding))
    assert " ".join(read_text(path, encoding)).split() == "a b c d é f g ü h i j k".split()


@both_places
def test_characters_that_only_look_like_line_ends_stay_within_the_line(path, on_memory):
    text = "a\u2028b\x0bc\td\x0ce\x85f\x00g\n"
    corpus = PairCorpus(write(path, text.encode()), on_memory=on_memory)
    assert list(corpus) == [("a\u2028b\x0bc", "d\x0ce\x85f\x00g")]


@both_places
@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_the_bytes_of_a_line_feed_across_two_characters_are_no_line_end(path, on_memory, codec):
    first, second = "\u0a00\u0100 x", "\u0100\u0a01"
    corpus = PairCorpus(write(path, f"{first}\t{second}\nz\tw\n".encode(codec)), codec, on_memory=on_memory)
    assert list(corpus) == [(first, second), ("z", "w")]


@both_places
def test_a_line_of_megabytes_is_read_whole(path, on_memory):
    corpus = PairCorpus(write(path, b"a " * 1_500_000 + b"\tb\nc\td\n"), on_memory=on_memory)
    assert (len(corpus), len(corpus[0][0]), corpus[0][1], corpus[1]) == (2, 3_000_000, "b", ("c", "d"))


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_refused_with_file_and_number(path, line):
    write(path, b"a\tb\nc\td\n" + line + b"\ne\tf\n")
    with pytest.raises(ValueError) as caught:
        PairCorpus(path)
    message = str(caught.value)
    assert message.startswith(f"{path}:3: ")
    assert message.endswith(f"[{BAD_LINES[line]}]")
    assert "\n" not in message


@both_places
@pytest.mark.parametrize("line", BAD_LINES)
def test_skipped_bad_lines_are_counted_and_the_others_keep_their_places(path, on_memory, line):
    write(path, line + b"\na\tb\n" + line + b"\nc\td\n" + line + b"\n")
    corpus = PairCorpus(path, on_memory=on_memory, skip_bad_lines=True)
    assert corpus.n_skipped == 3
    assert [corpus[0], corpus[1]] == [("a", "b"), ("c", "d")] == list(corpus)


def test_all_bad_lines_are_counted_and_the_first_of_them_named(path):
    write(path, b"a\tb\nbad\nc\td\n\nc\td\nx\\ty\nc\td\n" + b"bad\nc\td\n" * 4)
    others = "4 E-CORPUS-BLANK, 6 E-CORPUS-BACKSLASH-T, 8 E-CORPUS-TAB, 10 E-CORPUS-TAB ..."
    with pytest.raises(ValueError, match=rf"corpus\.txt:2: .*\(7 bad lines in all, next: {others}\) \[E-CORPUS-TAB\]$"):
        PairCorpus(path)


def test_a_good_corpus_skips_nothing(path):
    assert PairCorpus(write(path, TEXT.encode()), skip_bad_lines=True).n_skipped == 0


@both_places
@pytest.mark.parametrize("n", [1, 2, 3])
def test_corpus_lines_uses_the_first_lines_and_looks_at_no_other(path, on_memory, n):
    write(path, TEXT.encode() + b"a bad line\n")
    assert list(PairCorpus(path, corpus_lines=n, on_memory=on_memory)) == GOOD[:n]


def test_corpus_lines_counts_lines_of_the_file_bad_ones_too(path):
    write(path, b"bad\na\tb\nc\td\n")
    corpus = PairCorpus(path, corpus_lines=2, skip_bad_lines=True)
    assert (list(corpus), corpus.n_skipped) == ([("a", "b")], 1)


@pytest.mark.parametrize("n", [0, -1, 4, 1000])
def test_corpus_lines_that_cannot_be_met_is_an_error(path, n):
    with pytest.raises(ValueError, match=rf"corpus\.txt.* {n}\b.*\[E-CORPUS-LINES\]$"):
        PairCorpus(write(path, TEXT.encode()), corpus_lines=n)


@pytest.mark.parametrize("content", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("skip", [True, False])
def test_an_empty_file_is_refused(path, content, skip):
    with pytest.raises(ValueError, match=r"corpus\.txt.*\[E-CORPUS-NO-PAIRS\]$"):
        PairCorpus(write(path, content), skip_bad_lines=skip)


def test_a_file_of_bad_lines_alone_is_refused_even_when_they_are_skipped(path):
    with pytest.raises(ValueError, match=r"corpus\.txt.*\[E-CORPUS-NO-PAIRS\]$"):
        PairCorpus(write(path, b"bad\nbad\n"), skip_bad_lines=True)


@pytest.mark.parametrize("name", ["missing.txt", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=rf"{name}.*\[E-FILE-READ\]$"):
        PairCorpus(tmp_path / name)


@pytest.mark.parametrize("encoding", ["utf-9", "", "rot13", "hex", "base64", "zlib", "undefined", "punycode"])
@pytest.mark.parametrize("read", [PairCorpus, lambda path, encoding: list(read_text(path, encoding))])
def test_an_encoding_that_is_none_is_refused(path, encoding, read):
    write(path, b"a\tb\nc\td\n")
    with pytest.raises(ValueError, match=r"corpus\.txt.*\[E-ENCODING-NAME\]$"):
        read(path, encoding)


@pytest.mark.parametrize(("codec", "name"), [("utf-16-le", "utf-16"), ("utf-16-be", "utf-16"), ("utf-32-le", "utf-32")])
def test_a_wide_file_read_as_utf_8_is_told_its_encoding(path, codec, name):
    write(path, ("\ufeff" + TEXT).encode(codec))
    with pytest.raises(ValueError, match=rf"corpus\.txt.*{name}\b.*\[E-CORPUS-ENCODING\]$"):
        PairCorpus(path)


@pytest.mark.parametrize("change", ["longer", "gone"])
def test_a_file_that_changes_while_it_is_in_use_is_noticed(path, change):
    corpus = PairCorpus(write(path, TEXT.encode()), on_memory=False)
    assert corpus[0] == GOOD[0]
    if change == "longer":
        write(path, b"new\tpair\n" + TEXT.encode())
    else:
        os.unlink(path)
    with pytest.raises(ValueError, match=r"corpus\.txt.*\[E-CORPUS-CHANGED\]$"):
        corpus[0]


def test_a_corpus_in_memory_does_not_need_its_file_again(path):
    corpus = PairCorpus(write(path, TEXT.encode()))
    os.unlink(path)
    assert list(corpus) == GOOD


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="the system has no /dev/fd")
@pytest.mark.parametrize("read", [PairCorpus, lambda path: list(read_text(path))])
def test_a_pipe_is_refused_in_one_line_instead_of_being_read_in_part(read):
    receiver, sender = os.pipe()
    try:
        os.write(sender, TEXT.encode())
        os.close(sender)
        with pytest.raises(ValueError, match=r"^/dev/fd/\d+: [^\n]*\[E-FILE-READ\]$"):
            read(f"/dev/fd/{receiver}")
    finally:
        os.close(receiver)
