"""Words of files: exactly those of the decoded lines, however many processes count them."""

import os
import signal
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_pytorch import WordVocab
from bert_pytorch.cli import build_vocab
from bert_pytorch.dataset import counting
from bert_pytorch.dataset.counting import count_files, count_words
from bert_pytorch.dataset.lines import byte_ranges, read_text
from bert_pytorch.errors import InputError, UserError

from .examples import assert_one_line, start_python

WHITE = "".join(chr(i) for i in range(0x3001) if chr(i).isspace())
FUZZ = settings(deadline=None, max_examples=60)


def slow_count(path, encoding="utf-8"):
    """Line by line, as the words are defined."""
    return Counter(word for text in read_text(str(path), encoding) for word in text.split())


def write(path, content):
    path.write_bytes(content)
    return str(path)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of a few bytes, so that a small file has many."""
    monkeypatch.setattr(counting, "byte_ranges", lambda path, start: byte_ranges(path, start, 7))


@pytest.mark.parametrize("n_processes", [1, 2, 3, 7, 19])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\n\n\n",
        b"one",
        b"one\ttwo one\r\nthree",
        b"\xef\xbb\xbfone two\n\xef\xbb\xbfone",
        b"nul\x00nul nul\x00nul \x00\n",
        "".join(f"x{white}y{white}{white}z\n" for white in WHITE).encode(),
        "\u8a9e\u3000\u8a9e \u3000 a\u0085b \u0301e\u0301 \U0001f468\u200d\U0001f469\n".encode(),
        "\u3000".encode(),
    ],
    ids=lambda content: repr(content[:9]),
)
def test_words_are_those_of_the_decoded_lines(tmp_path, small_parts, content, n_processes):
    path = write(tmp_path / "corpus.txt", content)
    assert count_files([path], n_processes=n_processes) == slow_count(path)


@pytest.mark.parametrize("n_processes", [1, 3])
@pytest.mark.parametrize("content", [b"a" * 1_000_003, b" ".join(b"w%d" % i for i in range(100_003)) + b"\nlast"], ids=len)
def test_a_line_may_be_of_any_length(tmp_path, content, n_processes):
    path = write(tmp_path / "corpus.txt", b"first\n" + content)
    assert count_files([path], n_processes=n_processes) == slow_count(path)


@given(text=st.text(st.sampled_from("ab\u00e9\u8a9e\U0001f600" + WHITE) | st.characters(exclude_categories=["Cs"])))
@FUZZ
def test_words_of_any_text_are_those_of_its_lines(tmp_path, small_parts, text):
    path = write(tmp_path / "corpus.txt", text.encode())
    assert count_files([path], n_processes=1) == slow_count(path)


@given(content=st.binary() | st.lists(st.sampled_from([b"a", b"\n", b" ", b"\xc3", b"\xa9", b"\xff", b"\x85"])).map(b"".join))
@FUZZ
def test_any_bytes_are_counted_or_refused_with_their_line(tmp_path, small_parts, content):
    path = write(tmp_path / "corpus.txt", content)
    outcomes = []
    for count in (slow_count, lambda path: count_files([path], n_processes=1)):
        try:
            outcomes.append(count(path))
        except InputError as error:
            assert_one_line(error, path, "E-CORPUS-ENCODING")
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32", "latin-1", "cp1252", "gb18030", "cp037", "utf-8-sig"])
def test_words_in_other_encodings(tmp_path, encoding):
    text = "caf\u00e9 one\u00a0two\t\u00fc\n\nlast caf\u00e9"
    path = write(tmp_path / "corpus.txt", text.encode(encoding))
    assert count_files([path], encoding, n_processes=2) == Counter(text.split())


@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_a_bad_byte_is_named_with_file_and_line_however_it_is_found(tmp_path, small_parts, n_processes):
    good = write(tmp_path / "good.txt", b"fine\n" * 11)
    bad = write(tmp_path / "bad.txt", b"fine fine\n" * 12 + b"not \xe9 fine\n" + b"more\n" * 5 + b"\xff\n")
    with pytest.raises(InputError, match=r"bad\.txt:13: byte 0xe9 at byte 5 of the line is not utf-8.*\[E-CORPUS-ENCODING\]$"):
        count_files([good, bad], n_processes=n_processes)


def test_several_files_add_up_and_keep_their_own_marks(tmp_path):
    first = write(tmp_path / "first.txt", "one two".encode("utf-16-le"))
    second = write(tmp_path / "second.txt", "\ufefftwo three".encode("utf-16-be"))
    assert count_files([first, second, first], "utf-16") == Counter(one=2, two=3, three=1)


@pytest.mark.parametrize("name", ["missing.txt", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    with pytest.raises(OSError, match=r"cannot be read.*\[E-FILE-READ\]$"):
        count_files([str(tmp_path / name)])


def test_a_large_file_is_shared_among_the_cores(tmp_path, monkeypatch):
    path = write(tmp_path / "corpus.txt", b"a few words and more\n" * 230_003)
    shares = []
    shared = counting._count_in_processes
    monkeypatch.setattr(counting, "_count_in_processes", lambda *given: shares.append(given[2]) or shared(*given))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3), raising=False)
    assert count_files([path]) == Counter(dict.fromkeys(["a", "few", "words", "and", "more"], 230_003))
    assert shares == [3]


def test_a_killed_process_is_one_clear_error(tmp_path, small_parts, monkeypatch):
    path = write(tmp_path / "corpus.txt", b"some words\n" * 1009)
    parent, count = os.getpid(), counting._count_parts

    def die(parts, codec):
        parts = iter(parts)
        next(parts)
        assert os.getpid() != parent
        os.kill(os.getpid(), signal.SIGKILL)
        return count(parts, codec)

    monkeypatch.setattr(counting, "_count_parts", die)
    with pytest.raises(UserError, match=r"a process that counts words ended early.*\[E-PROCESS\]$"):
        count_files([path], n_processes=2)


@pytest.mark.parametrize(("fault", "code"), [(OSError(5, "Input/output error"), "E-FILE-READ"), (MemoryError(), None)])
def test_an_error_in_a_process_arrives(tmp_path, small_parts, monkeypatch, fault, code):
    path = write(tmp_path / "corpus.txt", b"some words\n" * 101)

    def fail(parts, codec):
        raise fault

    monkeypatch.setattr(counting, "_count_parts", fail)
    with pytest.raises(MemoryError if code is None else OSError) as caught:
        count_files([path], n_processes=2)
    if code:
        assert_one_line(caught.value, path, code)


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is told by Linux")
def test_memory_grows_with_the_words_and_not_with_the_lines(tmp_path):
    """Twenty times the lines of the same words: in all processes together, no more memory but a few parts of the file."""
    program = """
import resource, sys
from bert_pytorch.dataset.counting import count_files
counter = count_files([sys.argv[1]], n_processes=2)
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(len(counter), sum(counter.values()), own + 2 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    line = " ".join(f"word{i}" for i in range(23))
    peaks = []
    for n_lines in (5003, 100_003):
        path = write(tmp_path / "corpus.txt", f"{line}\n".encode() * n_lines)
        process = start_python("-c", program, path, folder=tmp_path)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        n_types, n_words, peak = map(int, out.split())
        assert (n_types, n_words) == (23, 23 * n_lines)
        peaks.append(peak)
    assert peaks[1] - peaks[0] < 3 * 20 * 1024
    assert peaks[1] < 200 * 1024


def test_count_words_takes_any_iterable():
    assert count_words(iter(["\ufeffa b", ["b", "c d"]])) == Counter({"a": 1, "b": 2, "c d": 1})
    with pytest.raises(InputError, match=r"\[E-VOCAB-TEXTS\]$"):
        count_words("a b")


@pytest.mark.parametrize("n_cores", [1, 2, 5])
def test_the_vocabulary_of_several_corpora_is_the_same_for_any_number_of_cores(tmp_path, monkeypatch, small_parts, n_cores):
    monkeypatch.setattr(counting, "_LEAST_SHARED_BYTES", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(n_cores), raising=False)
    paths = [write(tmp_path / f"{i}.txt", b"".join(b"w%d x%d\n" % (n % 13, n % 7 + i) for n in range(97))) for i in range(2)]
    flags = ["-c", *paths] if n_cores == 2 else ["-c", paths[0], "-c", paths[1]]
    assert build_vocab([*flags, "-o", str(tmp_path / "vocab.json")]) == 0
    lines = [line for path in paths for line in read_text(path)]
    WordVocab(lines).save_vocab(tmp_path / "expected.json")
    assert (tmp_path / "vocab.json").read_bytes() == (tmp_path / "expected.json").read_bytes()
    WordVocab(lines[::-1]).save_vocab(tmp_path / "backwards.json")
    assert (tmp_path / "backwards.json").read_bytes() == (tmp_path / "expected.json").read_bytes()
