"""Encoded corpora: the same examples wherever the ids lie; what is cut off, or of another text or vocabulary, is refused."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_pytorch import BERTDataset, WordVocab
from bert_pytorch.dataset import encoding
from bert_pytorch.dataset.cache import EncodingSettings, check_source, encode_corpus, open_cached
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.encoded import EncodedCorpus, MappedCorpus
from bert_pytorch.dataset.encoded_file import MARK, read_manifest
from bert_pytorch.dataset.encoding import encode_pairs
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.dataset.negatives import Partners
from bert_pytorch.errors import InputError, UsageError

from .examples import assert_one_line, make_vocab, same_tensors, story_pairs, write_pairs

PAIRS = [(f"id{i}" + " a" * (i * 7 % 5), "b" + f" c{i % 13}" * (i * 5 % 7)) for i in range(53)]


@pytest.fixture
def corpus(tmp_path):
    return write_pairs(tmp_path / "corpus.txt", PAIRS)


@pytest.fixture
def encoded(corpus, tmp_path):
    return encode_corpus(corpus, make_vocab(PAIRS), tmp_path / "corpus.tokens", EncodingSettings())


def texts_of(corpus):
    """The ids of every text, line by line."""
    found = []
    for line in range(len(corpus)):
        texts = corpus.fetch(torch.tensor([line]))
        flat = texts.flat(texts.starts[0], texts.lengths[0])
        found.append([ids.tolist() for ids in flat.split(texts.lengths[0].tolist())])
    return found


def examples_of(dataset, epochs=(0, 3)):
    found = []
    for epoch in epochs:
        dataset.set_epoch(epoch)
        found.append([dataset[i] for i in range(len(dataset))])
    return found


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "mlm+sop"])
@pytest.mark.parametrize("limited", [True, False])
def test_examples_are_the_same_from_memory_from_text_and_from_an_encoded_file(
    corpus, tmp_path, monkeypatch, objective, limited
):
    monkeypatch.setattr("bert_pytorch.dataset.encoded._address_space_is_limited", lambda: limited)
    vocab = make_vocab(PAIRS)
    path = encode_corpus(corpus, vocab, tmp_path / "corpus.tokens", EncodingSettings()).path
    options = {"seed": 7, "objective": objective}
    datasets = [
        BERTDataset(corpus, vocab, 11, **options),
        BERTDataset(corpus, vocab, 11, on_memory=False, **options),
        BERTDataset(path, vocab, 11, **options),
        pickle.loads(pickle.dumps(BERTDataset(path, vocab, 11, **options))),
    ]
    first, *others = map(examples_of, datasets)
    assert all(same_tensors(found, first) for found in others)
    assert {(d.n_trimmed, d.n_words, d.n_unknown, d.n_skipped, tuple(d.word_counts)) for d in datasets} == {
        (datasets[0].n_trimmed, datasets[0].n_words, 0, 0, tuple(datasets[0].word_counts))
    }


def test_single_texts_are_one_column(tmp_path):
    path = tmp_path / "single.txt"
    path.write_text("a b c\nd e\nf\n")
    vocab = WordVocab(["a b c d e f"])
    mapped = encode_corpus(path, vocab, tmp_path / "single.tokens", EncodingSettings(n_columns=1))
    assert texts_of(mapped) == [[vocab.to_seq("a b c")], [vocab.to_seq("d e")], [vocab.to_seq("f")]]
    assert mapped.partners is None
    sets = [BERTDataset(each, vocab, 7, objective="mlm", seed=1) for each in (path, mapped.path)]
    assert same_tensors(*map(examples_of, sets))
    item = sets[0][1]
    assert sorted(item) == ["bert_input", "bert_label", "segment_label"]
    assert item["segment_label"].tolist() == [1, 1, 1, 1, 0, 0, 0]
    assert (item["bert_input"][[0, 3]].tolist(), sets[1].get_corpus_line(1)) == ([3, 2], ("d e", ""))
    with pytest.raises(ValueError, match=r"mlm\+nsp.*\[E-DATA-OBJECTIVE\]$"):
        BERTDataset(mapped.path, vocab, 7)


@pytest.mark.parametrize("n_words", [20, 70_000])
@pytest.mark.parametrize("n_processes", [1, 2, 3])
def test_files_are_the_same_from_any_number_of_processes(corpus, tmp_path, monkeypatch, n_processes, n_words):
    monkeypatch.setattr(encoding, "_LEAST_SHARED_BYTES", 1)
    monkeypatch.setattr(encoding, "_BLOCK_BYTES", 100)
    vocab = WordVocab([" ".join(f"w{i}" for i in range(n_words)), *(f"{a} {b}" for a, b in PAIRS)])
    mapped = encode_corpus(corpus, vocab, tmp_path / "corpus.tokens", EncodingSettings(), n_processes)
    assert mapped.manifest["arrays"]["ids"]["type"] == ("uint16" if n_words == 20 else "int32")
    assert texts_of(mapped) == [[vocab.to_seq(first), vocab.to_seq(second)] for first, second in PAIRS]
    kept = EncodedCorpus.of(encode_pairs(PAIRS, vocab, 2), len(vocab), 2)
    for name, values in kept.arrays.items():
        assert torch.equal((mapped.arrays | {"hashes": mapped.hashes})[name].long(), values.long()), name


def test_ids_beyond_32767_of_16_bits_come_back(tmp_path):
    words = [f"w{i}" for i in range(65_531)]
    vocab = WordVocab([" ".join(words)])
    path = write_pairs(tmp_path / "corpus.txt", [(words[i], words[-i - 1]) for i in range(0, 65_531, 911)])
    mapped = encode_corpus(path, vocab, tmp_path / "corpus.tokens", EncodingSettings())
    assert mapped.manifest["arrays"]["ids"]["type"] == "uint16"
    assert texts_of(mapped) == [[vocab.to_seq(words[i]), vocab.to_seq(words[-i - 1])] for i in range(0, 65_531, 911)]
    assert max(ids for line in texts_of(mapped) for text in line for ids in text) > 65_400


def test_the_manifest_says_what_the_file_is(encoded, corpus):
    manifest = json.loads(json.dumps(encoded.manifest))
    assert (manifest["format"], manifest["version"], manifest["n_lines"], manifest["n_columns"]) == (
        "bert_pytorch.encoded", 1, 53, 2
    )  # fmt: skip
    assert manifest["n_tokens"] == sum(len(first.split()) + len(second.split()) for first, second in PAIRS)
    assert manifest["vocab"] == {"size": len(make_vocab(PAIRS)), "fingerprint": make_vocab(PAIRS).fingerprint}
    source = manifest["corpus"]
    assert (source["path"], source["size"], source["n_skipped"]) == (str(corpus), os.path.getsize(corpus), 0)
    assert len(source["sha256"]) == 64
    for entry in manifest["arrays"].values():
        assert entry["offset"] % 64 == 0


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("x y\tz\nu\tv w", {}),
        ("x y\tz\r\nu\tv w\r\n", {}),
        ("\ufeffx y\tz\nu\tv w\n", {}),
        ("x y\tz\nbad\n\n\t\nu\tv w\n", {"skip_bad_lines": True}),
        ("x y\tz\nu\tv w\nleft\tout\n", {"corpus_lines": 2}),
    ],
)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16", "utf-32-be"])
def test_text_is_read_as_the_text_mode_reads_it(tmp_path, content, options, codec):
    path = tmp_path / "corpus.txt"
    # The codec utf-16 writes a mark of its own.
    path.write_bytes((content.lstrip("\ufeff") if codec == "utf-16" else content).encode(codec))
    vocab = WordVocab(["x y z u v w"])
    mapped = encode_corpus(path, vocab, tmp_path / "corpus.tokens", EncodingSettings(encoding=codec, **options))
    assert texts_of(mapped) == [[vocab.to_seq("x y"), vocab.to_seq("z")], [vocab.to_seq("u"), vocab.to_seq("v w")]]
    assert mapped.manifest["corpus"]["n_skipped"] == (3 if options.get("skip_bad_lines") else 0)


SCRIPTS = {
    "Chinese": "\u6211 \u7231 \u5317\u4eac \U00020000",
    "Arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u200f\u0661",
    "Hindi": "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e \u0915\u094d\u200d\u0937",
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308 \U0001f600",
    "combining marks": "e\u0301 \u00e9 a\u0328\u0301 \u1100\u1161\u11a8",
    "wide spaces": "a\u3000b\u00a0c\u2028d\x85e\x1ff",
    "NUL bytes": "a\x00b \x00 c",
    "a long line": "w " * 500_000,
    "a long word": "w" * 1_000_000,
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_text_of_any_script_comes_back(tmp_path, script):
    text = SCRIPTS[script]
    path = write_pairs(tmp_path / "corpus.txt", [(text, "b"), ("c", text)])
    vocab = WordVocab([text, "b c"])
    mapped = encode_corpus(path, vocab, tmp_path / "corpus.tokens", EncodingSettings())
    dataset = BERTDataset(mapped.path, vocab, len(text.split()) + 4)
    assert dataset.get_corpus_line(0) == (" ".join(text.split()), "b")
    assert dataset.get_corpus_line(1) == ("c", " ".join(text.split()))
    assert dataset.n_unknown == 0
    item = dataset[0]
    assert (item["bert_input"] != 0).sum() == item["segment_label"].ne(0).sum()


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"a", b"b\tc", b"\n", b"\t", b"\r\n", b"\xff", b" ", b"\x00", b"\\t", b"\xc3\xa9", b"d"]), max_size=30
    )
)
def test_any_bytes_give_what_the_text_mode_gives_or_its_error(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("bytes")
    path = folder / "corpus.txt"
    path.write_bytes(b"".join(parts))
    vocab = WordVocab(["a b c d"])
    for skip in (False, True):
        outcomes = []
        for read in (
            lambda skip=skip: [[vocab.to_seq(text) for text in pair] for pair in PairCorpus(path, skip_bad_lines=skip)],
            lambda skip=skip: texts_of(encode_corpus(path, vocab, folder / "t", EncodingSettings(skip_bad_lines=skip))),
        ):
            try:
                outcomes.append(read())
            except InputError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("most_at_once", [1, 3, 1000])
def test_partners_are_sorted_in_parts_as_at_once(most_at_once):
    hashes = torch.tensor([5, -(1 << 63), 5, (1 << 63) - 1, 0, 5, -9, -9, 7])
    parts, whole = Partners.of(hashes, most_at_once), Partners.of(hashes)
    assert same_tensors(list(parts), list(whole))
    assert whole.group_size.tolist() == [3, 1, 3, 1, 1, 3, 2, 2, 1]
    assert hashes[whole.order.long()].tolist() == sorted(hashes.tolist())


@pytest.mark.parametrize("keep", [0, 1, len(MARK), len(MARK) + 3, 0.3, 0.7, 0.99, -1, -8, -9])
def test_a_file_that_is_cut_off_is_refused_by_name(encoded, keep):
    content = Path(encoded.path).read_bytes()
    Path(encoded.path).write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
    with pytest.raises(ValueError) as caught:
        MappedCorpus(encoded.path)
    assert_one_line(caught.value, encoded.path, "E-ENCODED-FILE")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_damaged_manifest_is_no_traceback(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    corpus = write_pairs(folder / "corpus.txt", PAIRS)
    path = Path(encode_corpus(corpus, make_vocab(PAIRS), folder / "corpus.tokens", EncodingSettings()).path)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[-data.draw(st.integers(1, 1200))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        mapped = MappedCorpus(path)
    except InputError as error:
        assert_one_line(error, path, "E-ENCODED-FILE")
    else:
        assert len(mapped) == len(texts_of(mapped)) == 53


def test_another_vocabulary_is_refused_by_name(encoded):
    with pytest.raises(ValueError) as caught:
        BERTDataset(encoded.path, WordVocab(["other words"]), 11)
    assert_one_line(caught.value, encoded.path, "E-ENCODED-VOCAB")


def test_another_version_is_refused_with_both_numbers(encoded):
    path = Path(encoded.path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"version": 1,', b'"version": 7,'))
    with pytest.raises(ValueError, match=r"\b7\b.*\b1\b.*\[E-ENCODED-FILE\]$"):
        MappedCorpus(path)


def test_a_text_is_no_encoded_corpus(corpus):
    with pytest.raises(ValueError, match=r"\[E-ENCODED-FILE\]$"):
        read_manifest(str(corpus))


def test_lines_of_an_encoded_corpus_cannot_be_chosen(encoded):
    with pytest.raises(UsageError, match=r"corpus_lines.*\[E-SETTING-CONFLICT\]$"):
        BERTDataset(encoded.path, make_vocab(PAIRS), 11, corpus_lines=5)


@pytest.mark.parametrize("fault", [b"one text\n", b"a\tb\tc\n", b"\xff\ta\n"])
def test_a_corpus_that_is_refused_leaves_nothing(corpus, tmp_path, fault):
    with open(corpus, "ab") as file:
        file.write(fault)
    (tmp_path / "new").mkdir()
    with pytest.raises(ValueError, match=r"corpus.txt:54: .*\[E-CORPUS-[A-Z]+\]$"):
        encode_corpus(corpus, make_vocab(PAIRS), tmp_path / "new" / "corpus.tokens", EncodingSettings())
    assert list((tmp_path / "new").iterdir()) == []


def test_a_corpus_that_changes_meanwhile_is_refused(corpus, tmp_path, monkeypatch):
    original = encoding.encode_lines

    def meanwhile(*arguments):
        with open(corpus, "ab") as file:
            file.write(b"x\ty\n")
        return original(*arguments)

    monkeypatch.setattr(encoding, "encode_lines", meanwhile)
    with pytest.raises(ValueError, match=r"\[E-CORPUS-CHANGED\]$"):
        encode_corpus(corpus, make_vocab(PAIRS), tmp_path / "corpus.tokens", EncodingSettings())
    assert not (tmp_path / "corpus.tokens").exists()


def test_the_cache_gives_a_file_again_while_corpus_vocabulary_and_settings_are_the_same(corpus, tmp_path, capsys):
    vocab = make_vocab(PAIRS)
    first = open_cached(corpus, vocab, tmp_path / "cache", EncodingSettings())
    stamp = os.stat(first.path).st_mtime_ns
    assert "encoded before" not in capsys.readouterr().err
    again = open_cached(corpus, make_vocab(PAIRS), tmp_path / "cache", EncodingSettings())
    assert (again.path, os.stat(again.path).st_mtime_ns) == (first.path, stamp)
    assert "encoded before" in capsys.readouterr().err
    others = [
        open_cached(corpus, make_vocab(story_pairs()), tmp_path / "cache", EncodingSettings()),
        open_cached(corpus, vocab, tmp_path / "cache", EncodingSettings(corpus_lines=50)),
        open_cached(write_pairs(tmp_path / "copy.txt", PAIRS), vocab, tmp_path / "cache", EncodingSettings()),
    ]
    assert len({first.path, *(other.path for other in others)}) == 4
    assert len(others[1]) == 50


def test_a_touched_corpus_is_read_again_and_a_changed_one_encoded_again(corpus, tmp_path, capsys):
    vocab = make_vocab(PAIRS)
    first = open_cached(corpus, vocab, tmp_path, EncodingSettings())
    os.utime(corpus, ns=(1, 1))
    assert len(open_cached(corpus, vocab, tmp_path, EncodingSettings())) == 53
    assert "encoded before" in capsys.readouterr().err
    content = Path(corpus).read_bytes()
    # The same size and the same time of change: what tells is the content.
    Path(corpus).write_bytes(content.replace(b"id1 a", b"id2 a", 1))
    os.utime(corpus, ns=(1, 1))
    with pytest.raises(ValueError) as caught:
        check_source(first.path)
    assert_one_line(caught.value, first.path, "E-ENCODED-CHANGED")
    changed = open_cached(corpus, vocab, tmp_path, EncodingSettings())
    assert changed.path == first.path
    assert "has changed" in capsys.readouterr().err
    assert texts_of(changed)[1][0] == vocab.to_seq("id2 a a")
    check_source(first.path)


def test_an_encoded_corpus_outlives_its_text(encoded, corpus):
    Path(corpus).unlink()
    check_source(encoded.path)
    assert len(BERTDataset(encoded.path, make_vocab(PAIRS), 11)) == 53


def test_a_damaged_cache_is_made_anew(corpus, tmp_path, capsys):
    vocab = make_vocab(PAIRS)
    path = Path(open_cached(corpus, vocab, tmp_path, EncodingSettings()).path)
    content = path.read_bytes()
    path.write_bytes(content[:-100])
    assert len(open_cached(corpus, vocab, tmp_path, EncodingSettings())) == 53
    assert "encoding again" in capsys.readouterr().err
    assert path.read_bytes() == content


def test_the_share_of_lines_that_another_corpus_has_too(tmp_path):
    vocab = make_vocab(PAIRS)
    one = EncodedCorpus.of(encode_pairs(PAIRS[:40], vocab, 2), len(vocab), 2)
    other = EncodedCorpus.of(encode_pairs([*PAIRS[30:50], *PAIRS[35:40], ("a", "b")], vocab, 2), len(vocab), 2)
    swapped = EncodedCorpus.of(encode_pairs([pair[::-1] for pair in PAIRS[:40]], vocab, 2), len(vocab), 2)
    assert other.share_in(one) == pytest.approx(15 / 26)
    assert swapped.share_in(one) == 0
    assert one.share_in(one) == 1


def test_a_text_that_nothing_is_left_of_is_an_unknown_word():
    class Careful(WordVocab):
        """Leaves every `gone` out."""

        def _split(self, text):
            return text.replace("gone", "").split()

    vocab = Careful(["a b c gone"], lowercase=True)
    corpus = EncodedCorpus.of(encode_pairs([("a b", "gone"), ("gone", "c")], vocab, 2), len(vocab), 2)
    assert texts_of(corpus) == [[[5, 6], [1]], [[1], [7]]]


@pytest.mark.parametrize("n_ranks", [1, 2])
@pytest.mark.parametrize("n_workers", [0, 1, 2])
@pytest.mark.parametrize("mode", ["memory", "file", "encoded"])
def test_batches_are_the_same_in_every_mode_with_any_workers_and_ranks(encoded, corpus, mode, n_workers, n_ranks):
    vocab = make_vocab(PAIRS)
    path = encoded.path if mode == "encoded" else corpus
    dataset = BERTDataset(path, vocab, 11, on_memory=mode != "file", seed=7)
    plain = BatchLoader(BERTDataset(corpus, vocab, 11, seed=7), 4, shuffle=True)
    loaders = [BatchLoader(dataset, 4, n_workers, shuffle=True, rank=rank, n_ranks=n_ranks) for rank in range(n_ranks)]
    for epoch in (0, 1):
        plain.set_epoch(epoch)
        expected = list(plain)
        for rank, loader in enumerate(loaders):
            loader.set_epoch(epoch)
            assert same_tensors(list(loader), [{name: rows[rank::n_ranks] for name, rows in each.items()} for each in expected])
    words = [(batch["bert_input"], batch["bert_label"]) for batch in expected]
    firsts = torch.cat([torch.where(labels != 0, labels, inputs)[:, 1] for inputs, labels in words]).tolist()
    assert sorted(firsts) == sorted(vocab.stoi[first.split()[0]] for first, _ in PAIRS)
