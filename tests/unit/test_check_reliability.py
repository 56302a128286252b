"""A check that is stopped, short of disk or given many words: it ends, and no file is left half written."""

import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from bert_pytorch.errors import SaveError
from bert_pytorch.preparation.checking import CheckOptions, check_corpus
from bert_pytorch.preparation.faults import Rules
from bert_pytorch.preparation.fixing import CHANGES
from bert_pytorch.preparation.sizing import Facts

from .examples import load_script

SCRIPT = load_script("data-preparation", "check_corpus").__file__
WRITTEN = ("clean.txt", "clean.txt" + CHANGES)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """With a corpus whose clean copy and list of changes are each beyond 20,000 bytes, and older ones of both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_bytes(b"".join(b"a%d\x07\tb\n\n" % number for number in range(4001)))
    for name in WRITTEN:
        (tmp_path / name).write_text("old")
    return tmp_path


def whole(folder):
    """Whether both files are the old ones, and nothing else was left."""
    names = sorted(path.name for path in folder.iterdir())
    return names == ["clean.txt", "clean.txt" + CHANGES, "corpus.txt"] and all(
        (folder / name).read_text() == "old" for name in WRITTEN
    )


class CountedSums(Counter):
    """A counter that tells how often it was summed up."""

    n_sums = 0

    def total(self):
        self.n_sums += 1
        return super().total()


def test_proposals_sum_up_the_words_a_few_times_only_however_many_there_are():
    facts = Facts()
    facts.add(["w"], [(1, 1)])
    facts.settle()
    facts.counts = CountedSums({f"w{number}": 61 for number in range(3001)})
    proposals = facts._propose()
    assert proposals["vocab_size"]["value"] == 2941  # The least that leaves at most 2 % unknown.
    assert facts.counts.n_sums < 7


@pytest.mark.skipif(os.name == "nt", reason="limits the size of files as POSIX does")
def test_a_disk_too_full_for_the_clean_corpus(folder):
    import resource

    command = [sys.executable, SCRIPT, "--corpus", "corpus.txt", "--fix", "clean.txt"]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.endswith("[E-SAVE]\n")
    assert whole(folder)


def test_a_disk_too_full_for_the_list_leaves_the_old_corpus_beside_the_old_list(folder, monkeypatch):
    sync = os.fsync

    def full(descriptor):
        # The list is what was written to first; told by its first bytes.
        if os.pread(descriptor, 4, 0) == b"line":
            raise OSError(28, "No space left on device")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SaveError, match=r"No space left on device; .*\[E-SAVE\]$"):
        check_corpus("corpus.txt", Rules(), CheckOptions(fix="clean.txt"))
    assert whole(folder)


@pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does")
def test_a_kill_while_the_clean_corpus_is_written(folder):
    # It stops itself without a word, as a kill does, when the second pass has written some lines.
    program = """
import os, signal, sys
from bert_pytorch.preparation.checking import CheckOptions, check_corpus
from bert_pytorch.preparation.faults import Rules
from bert_pytorch.preparation.fixing import Fixer
def kill(self, number, marked=Fixer._marked_kinds):
    if number == 2003:
        os.kill(os.getpid(), signal.SIGKILL)
    return marked(self, number)
Fixer._marked_kinds = kill
check_corpus("corpus.txt", Rules(), CheckOptions(fix="clean.txt"))
"""
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths}, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [(folder / name).read_text() for name in WRITTEN] == ["old", "old"]


CLEAN_TEXTS = {
    "chinese": "\u6211\u7231 \u81ea\u7136\u3002\t\u4eca\u5929 \u5929\u6c14",
    "arabic": "\u0627\u0644\u0633\u0644\u0627\u0645 \u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627\t\u0643\u064a\u0641",
    "persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\t\u06a9\u062a\u0627\u0628",
    "hindi": "\u0928\u092e\u0938\u094d\u0924\u0947\t\u0915\u094d\u200d\u0937",
    "mongolian": "\u182c\u1820\u1837\u180e\u1820\t\u182a\u1820",
    "emoji": "\U0001f469\u200d\U0001f52c \U0001f3f3\ufe0f\u200d\U0001f308\t\U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea",
    "marks": "e\u0301 a\u0323\u0302\tZ\u0351\u036b",
}


@pytest.mark.parametrize("line", CLEAN_TEXTS.values(), ids=CLEAN_TEXTS)
def test_text_of_any_script_is_clean_and_stays_as_it_is(folder, line):
    content = (line + "\n").encode()
    (folder / "corpus.txt").write_bytes(content)
    report = check_corpus("corpus.txt", Rules(), CheckOptions(fix="clean.txt"))
    assert report["faults"] == {}
    assert report["fixed"]["changed"] == 0
    assert (folder / "clean.txt").read_bytes() == content
