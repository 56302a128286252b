"""Sub-word vocabularies: training, both directions, offsets, and that a text cannot hold a special id."""

import copy
import json
import pickle
import sys
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from bert_pytorch import WordVocab
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.dataset.tokenizer import train_subwords
from bert_pytorch.errors import InputError, UnavailableError

from .examples import start_python, story_pairs, write_pairs

SPECIALS = ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"]
MODELS = ("WordPiece", "BPE")
TEXTS = [
    "the walker walked and the talker talked; walking, talking",
    "\u8bed\u8a00\u6a21\u578b\u662f\u8bed\u8a00\u7684\u6a21\u578b",
    "\u0627\u0644\u0644\u063a\u0629 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e",
    "family \U0001f468\u200d\U0001f469\u200d\U0001f467 and e\u0301 or \u00e9 a\u0300\u0323",
]
ANY_TEXT = st.text(
    st.sampled_from("a walked<mask>\u8bed\u0301\u0939\U0001f468\u200d \t\x00\x1c\u0085\u3000\ufeff") | st.characters()
)
FUZZ = settings(deadline=None, max_examples=150)


def train_on(texts, model, size=300, **options):
    return train_subwords(Counter(word for text in texts for word in text.split()), model, size, **options)


@pytest.fixture(scope="module", params=MODELS)
def vocab(request):
    return train_on(TEXTS * 3, request.param)


@pytest.fixture(scope="module")
def bpe():
    return train_on(TEXTS * 3, "BPE")


@pytest.fixture(scope="module")
def wordpiece():
    return train_on(TEXTS * 3, "WordPiece")


def test_ids_0_to_4_are_the_specials_and_the_tables_agree(vocab):
    assert vocab.itos[:5] == SPECIALS
    assert (vocab.pad_index, vocab.unk_index, vocab.eos_index, vocab.sos_index, vocab.mask_index) == (0, 1, 2, 3, 4)
    assert vocab.stoi == {piece: i for i, piece in enumerate(vocab.itos)}
    assert len(vocab) == len(vocab.itos) <= 305


def test_counts_are_those_of_the_encoded_corpus(vocab):
    counts = Counter(i for text in TEXTS * 3 for i in vocab.to_seq(text) if i >= 5)
    assert vocab.counts == [counts[i] for i in range(len(vocab))]


@pytest.mark.parametrize("text", TEXTS)
def test_byte_pieces_give_any_text_back(bpe, text):
    assert bpe.from_seq(bpe.to_seq(text), join=True) == text


@given(text=ANY_TEXT)
@FUZZ
def test_byte_pieces_give_back_all_but_white_space(bpe, text):
    ids, offsets = bpe.encode(text)
    valid = "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
    assert bpe.unk_index not in ids
    assert "".join(bpe.from_seq(ids, join=True).split()) == "".join(valid.split())
    assert all(0 <= start < end <= len(text) for start, end in offsets)
    assert {i for start, end in offsets for i in range(start, end)} >= {i for i, c in enumerate(text) if not c.isspace()}


@given(text=ANY_TEXT)
@FUZZ
def test_any_text_is_encoded_alike_by_every_door_and_holds_no_special(wordpiece, bpe, text):
    for vocab in (wordpiece, bpe):
        ids, offsets = vocab.encode(text)
        assert ids == vocab.to_seq(text) == vocab.to_seqs([text, ""])[0]
        assert len(offsets) == len(ids)
        assert set(ids) & {0, 2, 3, 4} == set()
        assert isinstance(vocab.from_seq(ids, join=True), str)


def test_offsets_are_the_places_of_the_pieces_in_the_text_as_given(wordpiece, bpe):
    # No piece was learnt for a space and a capital W, so that in bytes the space before it is a piece by itself.
    text = "  Walked,\twalked \u8bed\u8a00 \ufb01n\n"
    lower = train_on([text], "WordPiece", lowercase=True, normalize=True)
    for vocab in (wordpiece, bpe):
        for i, (start, end) in zip(*vocab.encode(text), strict=True):
            piece = vocab.itos[i].removeprefix("##").removeprefix("\u0120")
            place = text[start:end]
            assert len(place) == end - start > 0
            assert place == piece or len(place) == 1 or i == vocab.unk_index or not piece.isascii()
    assert [text[start:end] for start, end in lower.encode(text).offsets] == [
        *("Walked", ",", "walked", "\u8bed", "\u8a00"),
        *("\ufb01n",),
    ]


@pytest.mark.parametrize("word", [*SPECIALS, "[MASK]", "[UNK]"])
def test_a_special_word_in_a_text_is_text(vocab, word):
    trained = train_on([f"{word} walked {word}"] * 7, vocab.pieces.model)
    for each in (vocab, trained):
        for text in (word, f"walked{word}", f"a {word} b", f"\uff1c{word[1:]}"):
            assert {0, 2, 3, 4} & set(each.to_seq(text)) == set()
            assert {0, 2, 3, 4} & set(each.to_seq(text.split())) == set()
            assert {0, 2, 3, 4} & set(each.to_seqs([text])[0]) == set()
    if word not in SPECIALS or trained.pieces.model == "BPE":
        assert trained.from_seq(trained.to_seq(word), join=True).replace(" ", "") == word
    assert trained.itos.count(word) == (word in SPECIALS)


def test_a_wide_special_word_is_text_after_normalising_too(vocab):
    normal = train_on(["a <mask> b"] * 5, vocab.pieces.model, normalize=True)
    assert 4 not in normal.to_seq("a \uff1cmask\uff1e b")
    assert normal.to_seq("a \uff1cmask\uff1e b") == normal.to_seq("a <mask> b")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"with_sos": True, "with_eos": True}, ([3, "a", "b", 2], 4)),
        ({"seq_len": 3, "with_eos": True}, (["a", "b", 2], 3)),
        ({"seq_len": 2, "with_sos": True}, ([3, "a"], 3)),
        ({"seq_len": 5}, (["a", "b", 0, 0, 0], 2)),
    ],
)
def test_to_seq_cuts_and_pads_as_a_word_vocabulary_does(options, expected):
    vocab = train_on(["a b a b"], "WordPiece", 7)
    ids = [vocab.stoi[each] if isinstance(each, str) else each for each in expected[0]]
    assert vocab.to_seq("a b", with_len=True, **options) == (ids, expected[1])
    assert vocab.to_seq(["a", "b"], **options) == ids


def test_from_seq_joins_pieces_and_leaves_padding_out(vocab):
    ids = [3, *vocab.to_seq("walked talker"), 2, 0, 0, 10_007]
    assert vocab.from_seq(ids, join=True) == "<sos> walked talker <eos> <10007>"
    assert vocab.from_seq(ids, True, True) == "<sos> walked talker <eos> <pad> <pad> <10007>"
    assert vocab.from_seq(ids, with_pad=True) == [vocab.itos[i] for i in ids[:-1]] + ["<10007>"]


def test_a_piece_that_continues_has_nothing_to_continue_after_a_special(vocab):
    inner = next(i for i, goes_on in enumerate(vocab.continues_word) if goes_on and vocab.itos[i].isascii())
    assert len(vocab.from_seq([3, inner], join=True).split()) == 2


def test_pieces_of_one_word_continue_it(vocab):
    word = "walkedtalkerandthe"
    ids = vocab.to_seq(f"{word} {word}")
    assert len(ids) >= 4
    starts = [n for n, i in enumerate(ids) if not vocab.continues_word[i]]
    assert starts == [0, len(ids) // 2]
    assert vocab.continues_word[:5] == [False] * 5
    assert len(vocab.continues_word) == len(vocab)


def test_case_and_form_are_carried_by_the_vocabulary(vocab):
    plain, folded = (
        train_on(["Caf\u00e9 caf\u00e9 CAFE\u0301"] * 3, vocab.pieces.model, lowercase=on, normalize=on) for on in (False, True)
    )
    assert folded.to_seq("CAF\u00c9") == folded.to_seq("caf\u00e9") == folded.to_seq("Cafe\u0301")
    assert len({tuple(plain.to_seq(text)) for text in ("caf\u00e9", "Caf\u00e9", "CAFE\u0301")}) == 3
    assert plain.fingerprint != folded.fingerprint


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("model", MODELS)
def test_two_trainings_give_the_same_vocabulary(tmp_path, monkeypatch, model, threads):
    program = """
import json, sys
from collections import Counter
from bert_pytorch.dataset.tokenizer import train_subwords
words, model = json.load(sys.stdin)
counts = Counter(words)
for _ in range(2):
    print(train_subwords(counts, model, 577).fingerprint)
    counts = Counter(words[::-1])
"""
    words = [f"{first}{second}{i % 5}" for i, first in enumerate(SPECIALS + TEXTS[0].split()) for second in TEXTS[0].split()]
    monkeypatch.setenv("RAYON_NUM_THREADS", threads)
    process = start_python("-c", program, folder=tmp_path, stdin=-1)
    out, err = process.communicate(json.dumps([words, model]), timeout=60)
    assert process.returncode == 0, err
    assert set(out.split()) == {train_subwords(Counter(words), model, 577).fingerprint}


@pytest.mark.parametrize(
    ("model", "size"), [("WordPiece", 2), ("WordPiece", 11), ("WordPiece", 101), ("BPE", 256), ("BPE", 307)]
)
def test_a_size_is_never_exceeded(model, size):
    vocab = train_on(TEXTS * 2, model, size)
    assert 5 < len(vocab) <= size + 5
    if model == "WordPiece" and size == 11:
        assert vocab.freqs["<unk>"] > 0


@pytest.mark.parametrize(("model", "size", "least"), [("WordPiece", 1, 2), ("BPE", 255, 256)])
def test_too_small_a_size_is_refused(model, size, least):
    with pytest.raises(InputError, match=rf"max_size is {size}, expected at least {least} .*\[E-VOCAB-SIZE\]$"):
        train_on(TEXTS, model, size)


def test_rare_pairs_and_characters_are_left_out(vocab):
    rare = train_on(["often often often once\u8bed"], vocab.pieces.model, min_freq=3)
    assert {"often", "\u0120often"} & set(rare.itos)
    assert {"once", "\u0120once", "\u8bed"} & set(rare.itos) == set()


def test_a_vocabulary_is_equal_to_one_that_encodes_alike(vocab):
    assert vocab == train_on(TEXTS * 3, vocab.pieces.model)
    assert vocab != train_on(TEXTS * 3, vocab.pieces.model, lowercase=True)
    assert vocab != WordVocab(TEXTS)
    assert vocab != 5


def test_it_cannot_be_extended(vocab):
    with pytest.raises(InputError, match=r"\[E-VOCAB-EXTEND\]$"):
        vocab.extend(WordVocab(["a"]))


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda vocab: pickle.loads(pickle.dumps(vocab))])
def test_copies_encode_alike(vocab, twin):
    other = twin(vocab)
    assert other == vocab
    assert other.freqs == vocab.freqs
    assert other.to_seqs(TEXTS) == vocab.to_seqs(TEXTS)


def test_without_the_package_the_install_line_is_given(vocab, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UnavailableError, match=r"python -m pip install tokenizers \[E-DEPENDENCY\]$"):
        copy.copy(vocab)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("model", ["wordpiece", "bpe"])
def test_the_command_trains_what_bert_then_uses(tmp_path, capsys, model):
    corpus, path = tmp_path / "corpus.txt", tmp_path / "vocab"
    write_pairs(corpus, [(first.upper(), second + " walking") for first, second in story_pairs()])
    flags = ["-c", str(corpus), "-o", str(path), "--model", model, "-s", "271", "--lowercase", "--normalize"]
    assert build_vocab(flags) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"] == model
    assert (report["words"], report["types"], report["unk_share"]) == (11 * 9, 11 + 3 + 11 + 5 + 5, 0.0)
    assert 1 <= report["tokens_per_word"] < 3
    vocab = WordVocab.load_vocab(path)
    assert len(vocab) == report["vocab_size"]
    assert vocab.to_seq("WALKING") == vocab.to_seq("walking")
    assert Tokenizer.from_file(str(path)).encode("<sos> walking").ids == [3, *vocab.to_seq("walking")]
    size = "-hs 8 -l 1 -a 2 -s 23 -b 4 -e 1 --device cpu".split()
    small = ["-c", str(corpus), "-v", str(path), "-o", str(tmp_path / "model"), *size, "--whole_word_masking"]
    assert train(small) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unk_share"] == 0


def test_a_corpus_no_character_of_which_is_frequent_is_refused(tmp_path, capsys):
    (tmp_path / "corpus.txt").write_bytes(b"abc\n")
    flags = ["-c", str(tmp_path / "corpus.txt"), "-o", str(tmp_path / "vocab"), "--model", "wordpiece", "-m", "2"]
    assert build_vocab(flags) == 1
    assert json.loads(capsys.readouterr().out)["code"] == "E-VOCAB-EMPTY"
    assert not (tmp_path / "vocab").exists()


@pytest.mark.filterwarnings("default")
def test_the_command_chooses_how_many_pieces_and_says_when_they_are_as_good_as_words(tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"word{i} again\tword{i}\n" for i in range(5_000)))
    flags = ["-c", str(corpus), "-o", str(tmp_path / "vocab"), "--model", "wordpiece"]
    assert build_vocab(flags) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["vocab_size"], "pieces a word" in err) == (1_005, False)
    corpus.write_text("some few words\tand no more\n" * 50)
    assert build_vocab(flags) == 0
    err = capsys.readouterr().err
    assert "1.000 pieces a word" in err
    assert "--model word" in err
