"""The files of sub-word vocabularies: `tokenizer.json`, and a hub model's `vocab.txt`."""

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer, Tokenizer

from bert_pytorch import WordVocab
from bert_pytorch.dataset.tokenizer import SubwordVocab, train_subwords
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import InputError

from .examples import assert_one_line

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
MODELS = ("WordPiece", "BPE")
COUNTS = Counter(["walked", "walking", "talked", "talking", "Caf\u00e9", "\u8bed\u8a00", "a,", "<mask>"] * 5)
TEXT = "Walking talked, caf\u00e9 \u8bed\u8a00 <mask> xyz \U0001f600"
HUB = [
    "[PAD]",
    "[unused0]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "walk",
    "##ed",
    "##ing",
    "cafe",
    "caf",
    "##\u00e9",
    ",",
    "\u8bed",
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "WordPiece", "BPE", "Sequence", "##", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "a", "content"]), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module", params=MODELS)
def vocab(request):
    return train_subwords(COUNTS, request.param, 281, lowercase=True)


def document(vocab, path):
    vocab.save_vocab(path)
    return json.loads(path.read_bytes())


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


FURTHER_MERGES = {(i,) for i in range(2, 300)}


def places(value, path=()):
    """Where in a nest of dicts and lists a value stands."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@pytest.mark.parametrize("load", [Vocab.load_vocab, WordVocab.load_vocab])
def test_a_saved_vocabulary_loads_equal_and_encodes_alike(tmp_path, vocab, load):
    vocab.save_vocab(tmp_path / "new" / "tokenizer.json")
    loaded = load(tmp_path / "new" / "tokenizer.json")
    assert type(loaded) is SubwordVocab
    assert loaded == vocab
    assert loaded.pieces == vocab.pieces
    assert loaded.encode(TEXT) == vocab.encode(TEXT)
    assert loaded.counts == [0] * len(vocab)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["tokenizer.json"]


def test_the_tokenizers_library_reads_the_file_and_takes_special_words_for_the_specials(tmp_path, vocab):
    vocab.save_vocab(tmp_path / "tokenizer.json")
    peer = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert peer.encode("walking \u8bed\u8a00").ids == vocab.to_seq("walking \u8bed\u8a00")
    assert peer.encode("a <mask>").ids[-1] == 4
    assert peer.decode(peer.encode("walking talked").ids).strip() == "walking talked"
    peer.save(str(tmp_path / "resaved.json"))
    assert Vocab.load_vocab(tmp_path / "resaved.json") == vocab


@pytest.mark.parametrize("text", [TEXT, "WALKED", "caf\u00e9", "cafe\u0301", "walkingx", "\u8bed\u8bed walk", "a\x00b"])
@pytest.mark.parametrize("is_cased", [False, True])
def test_a_hub_vocabulary_splits_as_its_own_tokenizer_does(tmp_path, text, is_cased):
    words = HUB + ["Walk"] * is_cased
    path = write(tmp_path / "vocab.txt", "\n".join(words).encode())
    vocab, peer = WordVocab.load_vocab(path), BertWordPieceTokenizer(str(path), lowercase=not is_cased)
    rest = [word for word in words if word not in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    assert vocab.itos == [*SPECIALS, *rest]
    expected = [piece.replace("[UNK]", "<unk>") for piece in peer.encode(text, add_special_tokens=False).tokens]
    if "<mask>" in text:
        expected = expected[: expected.index("<unk>")] + ["<unk>"] * (len(expected) - expected.index("<unk>"))
    assert [vocab.itos[i] for i in vocab.to_seq(text)] == expected or "<mask>" in text


def test_a_hub_tokenizer_json_of_wordpiece_is_read(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(HUB), encoding="utf-8")
    peer = BertWordPieceTokenizer(str(tmp_path / "vocab.txt"))
    peer.save(str(tmp_path / "tokenizer.json"))
    vocab = Vocab.load_vocab(tmp_path / "tokenizer.json")
    assert vocab == Vocab.load_vocab(tmp_path / "vocab.txt")
    assert [vocab.itos[i] for i in vocab.to_seq("Walking CAF\u00c9")] == ["walk", "##ing", "cafe"]


@pytest.mark.parametrize("words", [["##x", "the"], [*SPECIALS, "##", "##x"], ["[UNK]", "##", "[PAD]"]])
def test_a_word_list_that_is_no_hub_vocabulary_stays_one(tmp_path, words):
    vocab = Vocab.load_vocab(write(tmp_path / "vocab.txt", "\n".join(words).encode()))
    assert type(vocab) is (SubwordVocab if "[UNK]" in words else WordVocab)


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("model", "type"), "Unigram", "its model is 'Unigram'"),
        (("model", "vocab"), {"a": 0}, "its ids 0-4 are"),
        (("model", "vocab"), {}, "its ids 0-4 are"),
        (("model", "vocab"), {"<pad>": 0, "<unk>": 2}, "are not 0, 1, 2"),
        (("model", "vocab"), {"<pad>": True}, "no vocab of pieces and ids"),
        (("model", "vocab"), {"<pad>": 0, "": 1}, "empty or no valid Unicode"),
        (("model", "vocab"), {"<pad>": 0, "\ud800": 1}, "empty or no valid Unicode"),
        (("pre_tokenizer",), {"type": "Metaspace"}, "its pre_tokenizer is 'Metaspace'"),
        (("normalizer",), {"type": "Replace"}, "its normalizer has the part 'Replace'"),
        (("normalizer",), {"type": "BertNormalizer", "lowercase": None}, "the settings of its normalizer BertNormalizer"),
        (("added_tokens",), [{"content": "<new>"}], "it adds the token '<new>'"),
    ],
)
def test_what_is_not_taken_is_named_with_what_is_expected(tmp_path, vocab, place, value, reason):
    whole = document(vocab, tmp_path / "tokenizer.json")
    holder = whole
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with pytest.raises(InputError) as caught:
        Vocab.load_vocab(write(tmp_path / "changed.json", whole))
    assert_one_line(caught.value, tmp_path / "changed.json", "E-VOCAB-FILE")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("model", "key", "value"),
    [
        ("BPE", "merges", [["a", "\u0120nowhere"]]),
        ("BPE", "merges", ["a b c"]),
        ("BPE", "merges", None),
        ("BPE", "byte_fallback", True),
        ("BPE", "continuing_subword_prefix", "##"),
        ("WordPiece", "continuing_subword_prefix", "@@"),
        ("WordPiece", "unk_token", "nowhere"),
        ("WordPiece", "max_input_chars_per_word", -1),
    ],
)
def test_settings_of_the_model_are_checked(tmp_path, model, key, value):
    whole = document(train_subwords(COUNTS, model, 281), tmp_path / "tokenizer.json")
    whole["model"][key] = value
    with pytest.raises(InputError, match=r"changed\.json: not a vocabulary.*\[E-VOCAB-FILE\]$"):
        Vocab.load_vocab(write(tmp_path / "changed.json", whole))


def test_merges_as_older_files_have_them(tmp_path):
    vocab = train_subwords(COUNTS, "BPE", 281)
    whole = document(vocab, tmp_path / "tokenizer.json")
    whole["model"]["merges"] = [" ".join(pair) for pair in whole["model"]["merges"]]
    assert Vocab.load_vocab(write(tmp_path / "older.json", whole)) == vocab


@given(data=st.data())
@settings(deadline=None, max_examples=200)
def test_any_value_at_any_place_of_the_file_is_taken_or_refused(tmp_path, vocab, data):
    whole = document(vocab, tmp_path / "tokenizer.json")
    names = [path for path in places(whole) if path and path[:2] != ("model", "vocab") and path[2:3] not in FURTHER_MERGES]
    *outer, last = data.draw(st.sampled_from([*names, ("model", "vocab", "<mask>")]))
    holder = whole
    for key in outer:
        holder = holder[key]
    if data.draw(st.booleans()):
        holder[last] = data.draw(VALUES)
    else:
        del holder[last]
    load_and_use(write(tmp_path / "changed.json", whole))


@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_any_bytes_in_the_file_are_taken_or_refused(tmp_path, vocab, data):
    vocab.save_vocab(tmp_path / "tokenizer.json")
    content = bytearray((tmp_path / "tokenizer.json").read_bytes())
    start = data.draw(st.integers(0, len(content)))
    content[start : start + data.draw(st.integers(0, 5))] = data.draw(st.binary(max_size=5))
    load_and_use(write(tmp_path / "changed.json", bytes(content)))


def load_and_use(path):
    try:
        vocab = Vocab.load_vocab(path)
    except InputError as error:
        assert_one_line(error, path, "E-VOCAB-FILE")
        return
    assert vocab.itos[:5] == SPECIALS
    assert all(i in range(len(vocab)) for ids in vocab.to_seqs([TEXT, ""]) for i in ids)
