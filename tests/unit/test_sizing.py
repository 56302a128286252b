"""The figures by which settings are chosen, and the proposals."""

import random
from collections import Counter

import pytest

from bert_pytorch import WordVocab
from bert_pytorch.dataset.tokenizer import propose_size, train_subwords
from bert_pytorch.preparation.sizing import Facts, percentiles, propose_seq_len


def facts_of(pairs, vocab=None):
    facts = Facts(2, vocab)
    for pair in pairs:
        facts.add([word for text in pair for word in text.split()], [tuple(len(text.split()) for text in pair)])
    return facts


def test_percentiles_are_lengths_that_so_many_do_not_exceed():
    lengths = [*range(1, 101)]
    assert percentiles(Counter(lengths)) == {"p50": 50, "p90": 90, "p99": 99, "max": 100}
    assert percentiles({7: 1}) == {"p50": 7, "p90": 7, "p99": 7, "max": 7}
    assert percentiles({3: 99, 500: 1}) == {"p50": 3, "p90": 3, "p99": 3, "max": 500}


@pytest.mark.parametrize(
    ("histogram", "n_markers", "seq_len"),
    [({5: 1}, 3, 16), ({21: 1}, 3, 24), ({22: 1}, 3, 32), ({22: 1}, 2, 24), ({22: 2, 5: 98}, 3, 16), ({9000: 1}, 3, 512)],
)
def test_the_length_proposed_holds_nearly_all_pairs(histogram, n_markers, seq_len):
    assert propose_seq_len([{1: 1}] * (n_markers - 1), histogram) == seq_len


def test_pairs_that_are_drawn_as_not_next_fit_too():
    draw = random.Random(0)
    # What follows a long text is short, so that no true pair is long.
    pairs = [" ".join("a" * n) for n in (draw.randint(1, 19) for _ in range(300))]
    pairs = [(text, " ".join("b" * (20 - len(text.split())))) for text in pairs]
    report = facts_of(pairs).report(None)
    seq_len = report["trimmed"]["seq_len"]
    drawn = [len(first.split()) + len(second.split()) + 3 for first, _ in pairs for _, second in pairs]
    shares = [sum(n > length for n in drawn) / len(drawn) for length in (seq_len - 8, seq_len)]
    assert shares[0] > 0.02 >= shares[1]
    assert report["trimmed"]["false_pair_share"] == pytest.approx(shares[1], abs=1e-4)
    assert report["trimmed"]["pairs"] == 0
    assert f"{1 - shares[1]:.1%} of false" in report["proposals"]["seq_len"]["reason"]


def test_vocabulary_figures_are_those_of_a_vocabulary_of_that_size():
    words = [f"w{i}" for i in range(2003) for _ in range(1 + 2003 // (i + 1))]
    pairs = [(" ".join(words[i : i + 7]), " ".join(words[i + 7 : i + 12])) for i in range(0, len(words), 12)]
    facts = facts_of(pairs, WordVocab([words], max_size=53))
    report = facts.report(None)
    rows = report["vocabulary"]["best"]
    assert [row["size"] for row in rows] == [1000, 2000, 5000]
    for row in rows:
        vocab = WordVocab([words], max_size=row["size"])
        assert row["coverage"] == pytest.approx(sum(vocab.counts) / len(words))
        assert row["coverage"] + row["unk_share"] == pytest.approx(1)
    assert report["vocabulary"]["given"]["types_known"] == 53
    assert report["top_tokens"] == [[word, n] for word, n in WordVocab([words]).freqs.most_common(10)]
    proposals = {name: proposal["value"] for name, proposal in report["proposals"].items()}
    assert proposals["vocab_size"] == 1000
    assert proposals["min_freq"] == WordVocab([words], max_size=1000).counts[-1]
    assert "sub-words" in report["proposals"]["vocab_size"]["reason"]
    assert proposals["seq_len"] == report["trimmed"]["seq_len"] == 16
    assert proposals["batch_size"] in (16, 32)


def test_special_words_need_no_row():
    facts = facts_of([("<unk> <mask> a a", "b <pad>")], WordVocab(["a"]))
    report = facts.report(7)
    shares = {"coverage": 4 / 6, "unk_share": pytest.approx(2 / 6), "tokens_per_word": 1.0}
    assert report["vocabulary"]["given"] == {"types_known": 3, **shares}
    assert report["vocabulary"]["best"] == [{"size": 1000, "coverage": 5 / 6, "unk_share": pytest.approx(1 / 6)}]
    shares = {"pair_share": 1.0, "token_share": 2 / 6, "false_pair_share": 1.0}
    assert report["trimmed"] == {"seq_len": 7, "pairs": 1, "tokens": 2, **shares}
    assert "vocab_size" not in facts_of([("<unk>", "<unk>")]).report(None)["proposals"]


def counts_of(n_types, n_each, alphabet="ab"):
    """Words of eight characters."""
    width = len(alphabet)
    return Counter({"".join(alphabet[i // width**k % width] for k in range(8)): n_each for i in range(n_types)})


@pytest.mark.parametrize(
    ("counts", "size"),
    [
        (counts_of(3, 1), 1_000),
        (counts_of(20_000, 1_000, "abcdefgh"), 5_000),
        (counts_of(20_000, 5, "abcdefgh"), 2_700),
        (counts_of(200_000, 1_000, "abcdefgh"), 30_000),
        (counts_of(5_000, 1, [chr(0x4E00 + i) for i in range(2_000)]), 4_000),
        (Counter(), 1_000),
    ],
)
def test_pieces_are_a_quarter_of_the_words_as_far_as_the_text_teaches_them_and_hold_its_alphabet(counts, size):
    assert propose_size(counts) == size


def test_pieces_are_proposed_where_there_is_something_to_spell_and_words_only_beside_words():
    pairs = [(f"w{i} x{i}", f"y{i}") for i in range(2_000)]
    proposals = facts_of(pairs).report(None)["proposals"]
    assert proposals["subword_vocab_size"]["value"] == 1_000
    assert "subword_vocab_size" not in facts_of(pairs[:1_000]).report(None)["proposals"]
    counts = Counter(word for pair in pairs for text in pair for word in text.split())
    report = facts_of(pairs, train_subwords(counts, "WordPiece", 100)).report(None)
    assert report["proposals"].keys() == {"seq_len", "batch_size"}
    assert report["vocabulary"].keys() == {"given"}
    assert report["vocabulary"]["given"]["tokens_per_word"] > 2
