"""The files a vocabulary is kept in, and the files that are refused."""

import json
import os
import pickle
from collections import Counter

import pytest

from bert_pytorch import WordVocab

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]


def document(**changed):
    """A vocabulary file of this library, with something changed."""
    whole = {"format": "bert_pytorch.vocab", "version": 1, "itos": SPECIALS, "freqs": {}}
    return json.dumps({**whole, **changed}).encode()


class Hostile:
    """Makes a file when it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


def old_vocabulary(**extra):
    """As the objects that bert-pytorch 0.0.1a4 pickled: same class path, its attributes in the instance."""
    vocab = WordVocab(["b a a"])
    indices = {"pad_index": 0, "unk_index": 1, "eos_index": 2, "sos_index": 3, "mask_index": 4}
    vars(vocab).update(indices, vectors=None, **extra)
    return vocab


@pytest.mark.parametrize(
    "words",
    [
        ["plain", "words"],
        ["grün", "語", "\U0001f600"],
        ['quote"', "back\\slash", "tab\\t", "{", "}", "[PAD]"],
        ["nul\x00nul", "soft\u00adhyphen", "\u200bzero"],
        ["lone\ud800surrogate", "fine"],
    ],
)
def test_a_saved_vocabulary_loads_equal_and_is_text(tmp_path, words):
    vocab = WordVocab([[*words, words[0]]])
    vocab.save_vocab(tmp_path / "vocab.json")
    assert WordVocab.load_vocab(tmp_path / "vocab.json") == vocab
    text = (tmp_path / "vocab.json").read_bytes().decode("utf-8")
    assert json.loads(text)["itos"] == vocab.itos


def test_saving_makes_the_folder_and_leaves_nothing_else(tmp_path):
    WordVocab(["a b"]).save_vocab(str(tmp_path / "new" / "deep" / "vocab.json"))
    assert [path.name for path in (tmp_path / "new" / "deep").iterdir()] == ["vocab.json"]


def test_an_extended_vocabulary_survives_its_file(tmp_path):
    vocab = WordVocab(["a a b"])
    vocab.extend(WordVocab(["z"]))
    vocab.save_vocab(tmp_path / "vocab.json")
    assert WordVocab.load_vocab(tmp_path / "vocab.json").itos == [*SPECIALS, "a", "b", "z"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"the\nfox\n", ["the", "fox"]),
        (b"the\nfox", ["the", "fox"]),
        (b"the\r\nfox\r\n", ["the", "fox"]),
        (b"\xef\xbb\xbfthe\nfox\n", ["the", "fox"]),
        (b"{\n}\nint\n", ["{", "}", "int"]),
        (b"[PAD]\n[unused0]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfox\n", ["[unused0]", "the", "fox"]),
        (b"<pad>\n<unk>\n<eos>\n<sos>\n<mask>\nthe\nfox\n", ["the", "fox"]),
        ("zürich\n語\n".encode(), ["zürich", "語"]),
    ],
)
def test_a_word_list_is_read_with_our_specials_first(tmp_path, content, words):
    (tmp_path / "vocab.txt").write_bytes(content)
    vocab = WordVocab.load_vocab(tmp_path / "vocab.txt")
    assert vocab.itos == [*SPECIALS, *words]
    assert vocab.to_seq("nowhere " + words[0], with_sos=True) == [3, 1, 5]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_of_the_ancestor_is_read(tmp_path, protocol):
    (tmp_path / "vocab.pkl").write_bytes(pickle.dumps(old_vocabulary(), protocol))
    vocab = WordVocab.load_vocab(tmp_path / "vocab.pkl")
    assert vocab.itos == [*SPECIALS, "a", "b"]
    assert vocab.stoi["b"] == 6
    assert vocab.freqs == Counter(a=2, b=1)
    assert type(vocab) is WordVocab


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize("place", ["whole", "within"])
def test_a_hostile_pickle_is_refused_and_not_executed(tmp_path, protocol, place):
    marker = tmp_path / "executed"
    hostile = Hostile(marker) if place == "whole" else old_vocabulary(payload=Hostile(marker))
    (tmp_path / "hostile.pkl").write_bytes(pickle.dumps(hostile, protocol))
    with pytest.raises(ValueError, match=r"hostile\.pkl.*\[E-VOCAB-FILE\]$"):
        WordVocab.load_vocab(tmp_path / "hostile.pkl")
    assert not marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cposix\nsystem\n(S'true'\ntR.",
        b"cposix\nsystem\n(S'true'\ntR.\n",
        b"cbuiltins\neval\n(Vprint\ntR.",
        b"(dp0\nVitos\np1\n(lp2\nVa\naVb\nas.",
        b"\x80\x02cos\nsystem\n(S'true'\ntR.",
        b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80",
        b"\x80\xff",
        b"\x80\x04.",
        b"\x80\x04N.",
        b"\x80\x04ccollections\nCounter\n)R.",
        b"\x80\x04cbert_pytorch.dataset.vocab\nWordVocab\n.",
        b"\x80\x04cbert_pytorch.dataset.vocab\nWordVocab\n)\x81.",
    ],
)
def test_a_strange_pickle_is_refused(tmp_path, content):
    (tmp_path / "strange.pkl").write_bytes(content)
    with pytest.raises(ValueError, match=r"strange\.pkl.*\[E-VOCAB-FILE\]$"):
        WordVocab.load_vocab(tmp_path / "strange.pkl")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"two words\n",
        b"one\n\ntwo\n",
        b"one\n one\n",
        b"twice\ntwice\n",
        b"fine\n\xff\n",
        b"PK\x03\x04\x00\x00\xffzip",
        b"{",
        b"{}",
        b'{"itos": ["<pad>"], "freqs": {}}',
        b'{"format": "bert_pytorch.vocab", "version": 1}',
        document(itos=[]),
        document(itos=None),
        document(itos=["a"]),
        document(itos=[*SPECIALS, 7]),
        document(itos=[*SPECIALS, "a", "a"]),
        document(freqs={"a": "1"}),
        document(freqs=[1]),
        document(version=99),
        document(format="another"),
        document(lowercase=1),
        document(normalize=None),
        b'{"a":' * 100_000,
    ],
)
def test_anything_else_is_refused_by_name(tmp_path, content):
    (tmp_path / "other.bin").write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.bin.*\[E-VOCAB-FILE\]$"):
        WordVocab.load_vocab(tmp_path / "other.bin")


def test_the_documents_above_are_refused_for_what_was_changed_in_them(tmp_path):
    (tmp_path / "vocab.json").write_bytes(document())
    assert WordVocab.load_vocab(tmp_path / "vocab.json").itos == SPECIALS


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(tmp_path, share):
    WordVocab(["some words and more words"]).save_vocab(tmp_path / "vocab.json")
    content = (tmp_path / "vocab.json").read_bytes()
    (tmp_path / "half.json").write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=r"half\.json.*\[E-VOCAB-FILE\]$"):
        WordVocab.load_vocab(tmp_path / "half.json")


@pytest.mark.parametrize("name", ["missing.json", "folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(ValueError, match=rf"{name}.*\[E-FILE-READ\]$"):
        WordVocab.load_vocab(tmp_path / name)


def test_a_failed_save_leaves_the_earlier_file_whole(tmp_path, monkeypatch):
    vocab = WordVocab(["a b"])
    vocab.save_vocab(tmp_path / "vocab.json")
    before = (tmp_path / "vocab.json").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"vocab\.json.*No space left on device.*\[E-SAVE\]$"):
        WordVocab(["other words"]).save_vocab(tmp_path / "vocab.json")
    assert (tmp_path / "vocab.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.json"]
