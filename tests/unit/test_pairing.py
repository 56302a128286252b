"""Packing, the split by document, and held-out pairs that train has too."""

import json
import random

import pytest

from bert_pytorch.preparation.pairing import corpus_lines
from bert_pytorch.preparation.parts import PARTS, Split
from bert_pytorch.preparation.sources import Tally

from .examples import load_script

# Warnings go to stderr, as they do for the user.
pytestmark = pytest.mark.filterwarnings("default")


def words_of(lines):
    return [line.split() for line in lines]


@pytest.mark.parametrize("target_len", [2, 7, 31])
@pytest.mark.parametrize("single", [True, False])
def test_packing_keeps_order_and_every_word_and_the_length(target_len, single):
    draw = random.Random(target_len)
    documents = [[" ".join(f"w{d}.{s}.{i}" for i in range(draw.randrange(1, 40))) for s in range(5)] for d in range(53)]
    tally = Tally()
    lines = list(corpus_lines(map(iter, documents), tally, target_len, 0.3, single, seed=3))
    assert [number for number, _ in lines] == sorted(number for number, _ in lines)
    longest = target_len if single else target_len // 2
    assert tally.cut_sentences == sum(len(s.split()) > longest for document in documents for s in document)
    for d, document in enumerate(documents):
        own = [line.split("\t") for number, line in lines if number == d]
        assert all(len(texts) == (1 if single else 2) and all(texts) for texts in own)
        assert all(len(" ".join(texts).split()) <= target_len for texts in own)
        flat = [word for texts in own for word in " ".join(texts).split()]
        expected = [word for sentence in document for word in sentence.split()]
        # What is left over at a document's end follows the piece before it, which then stands twice.
        n_twice = len(flat) - len(expected)
        assert n_twice == 0 or (not single and 0 < n_twice <= longest)
        last = len(" ".join(own[-1]).split())
        start = len(flat) - last
        assert flat[:start] == expected[: len(flat) - last]
        assert flat[start:] == expected[len(expected) - last :]


def test_packing_draws_short_lengths_and_places_from_the_seed():
    documents = [[f"a{d} b{s} c" for s in range(60)] for d in range(7)]
    made = {seed: [line for _, line in corpus_lines(map(iter, documents), Tally(), 30, 0.1, seed=seed)] for seed in (1, 2)}
    again = [line for _, line in corpus_lines(map(iter, documents), Tally(), 30, 0.1, seed=1)]
    assert made[1] == again != made[2]
    lengths = [len(line.split()) for _, line in corpus_lines(map(iter, documents * 20), Tally(), 30, 0.1, seed=1)]
    assert 0.05 < sum(n < 27 for n in lengths) / len(lengths) < 0.25
    assert max(lengths) == 30


@pytest.mark.parametrize(("valid", "test"), [(0.05, 0), (0.05, 0.1), (0.2, 0.2), (0, 0.1), (0.01, 0)])
def test_a_run_of_documents_gives_its_share_and_few_give_one(valid, test):
    for seed in range(7):
        parts = [Split(valid, test, seed).part_of(i) for i in range(1000)]
        for name, share in (("valid", valid), ("test", test)):
            assert abs(parts.count(name) / 1000 - share) < 0.01
        for n in (2, 3, 19):
            few = parts[:n]
            assert "valid" in few or not valid or (test and n < 3)
            assert "test" in few or not test
    assert [Split(valid, test, 1).part_of(i) for i in range(97)] != [Split(valid, test, 2).part_of(i) for i in range(97)]


def test_the_split_does_not_see_how_the_input_is_cut_into_files(tmp_path, capsys):
    stories = "\n\n".join(f"a{i}\nb{i}\nc{i}" for i in range(47))
    cut = stories.index("\n\na23") + 2
    for name, content in (("all", stories), ("head", stories[:cut]), ("tail", stories[cut:])):
        (tmp_path / name).write_text(content)
    script = load_script("data-preparation", "make_pairs")
    flags = ["--test_share", "0.1", "--target_len", "3", "--json", "--output"]
    assert script.main(["--input", str(tmp_path / "all"), *flags, str(tmp_path / "one")]) == 0
    assert script.main(["--input", str(tmp_path / "head"), str(tmp_path / "tail"), *flags, str(tmp_path / "two")]) == 0
    for name in PARTS:
        assert (tmp_path / f"one.{name}.txt").read_bytes() == (tmp_path / f"two.{name}.txt").read_bytes()
    one, two = map(json.loads, capsys.readouterr().out.splitlines())
    assert (one["documents"], one["test_documents"]) == (two["documents"], two["test_documents"]) == (47, 5)


@pytest.mark.parametrize("drop", [True, False])
def test_held_out_pairs_that_train_has_too_are_counted_or_dropped(make_pairs, drop):
    draw = random.Random(3)
    documents = [[f"s{draw.randrange(13)}" for _ in range(draw.randrange(2, 6))] for _ in range(101)]
    content = "\n\n".join("\n".join(document) for document in documents)
    kept = make_pairs(content, "--test_share", "0.1")
    report = make_pairs(content, "--test_share", "0.1", "--drop_seen") if drop else kept
    train = set(kept["by_part"]["train"])
    held_out = kept["by_part"]["valid"] + kept["by_part"]["test"]
    n_seen = sum(pair in train for pair in held_out)
    assert 0.2 < n_seen / len(held_out) < 1
    assert ("measures memory" in report["warnings"]) is not drop
    assert report["seen_share"] == n_seen / len(held_out)
    assert report["dropped_seen"] == (n_seen if drop else 0)
    for name in ("valid", "test"):
        expected = [pair for pair in kept["by_part"][name] if not drop or pair not in train]
        assert report["by_part"][name] == expected
