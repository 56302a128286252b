"""How many words are hidden, behind what, and which never are: statistics over many draws.

The draws are a function of the seed, so each test gives the same numbers at each run; bounds are four standard errors.
"""

import math

import pytest
import torch

from bert_pytorch import BERTDataset, WordVocab
from bert_pytorch.dataset.masking import Masking
from bert_pytorch.dataset.tensor_draws import example_keys

from .examples import make_vocab, write_pairs

N_WORDS = 40
N_PAIRS = 30
N_EPOCHS = 50


def close(share, expected, n):
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / n)


def long_pairs():
    """Texts of 20 words each, of 100 real words in all."""
    rows = [[f"w{(i * 37 + j * 11) % 100}" for j in range(N_WORDS)] for i in range(N_PAIRS)]
    return [(" ".join(row[:20]), " ".join(row[20:])) for row in rows]


def draw(dataset, n_epochs, keys=("bert_input", "bert_label")):
    """Tensors of the examples of many passes, stacked; inputs and labels `[examples, seq_len]` by default."""
    found = []
    for epoch in range(n_epochs):
        dataset.set_epoch(epoch)
        for i in range(len(dataset)):
            example = dataset[i]
            found.append([example[key] for key in keys])
    return [torch.stack(values) for values in zip(*found, strict=True)]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    path = write_pairs(tmp_path_factory.mktemp("masking") / "corpus.txt", long_pairs())
    dataset = BERTDataset(path, make_vocab(long_pairs()), N_WORDS + 3, seed=11)
    assert len(dataset.vocab) == 105
    return draw(dataset, N_EPOCHS)


def test_fifteen_percent_of_the_words_are_targets(drawn):
    n = N_PAIRS * N_EPOCHS * N_WORDS
    n_targets = (drawn[1] != 0).sum().item()
    # An example that would have no target gets one: 0.85 ** 40 of them.
    assert close(n_targets / n, 0.15 + 0.85**N_WORDS / N_WORDS, n)


def test_every_position_and_word_is_a_target_equally_often(drawn):
    shares = (drawn[1] != 0).double().mean(0)
    n = N_PAIRS * N_EPOCHS
    words = [position for position in range(N_WORDS + 3) if position not in (0, 21, N_WORDS + 2)]
    assert [position for position in words if not close(shares[position].item(), 0.15, n)] == []
    assert shares[[0, 21, N_WORDS + 2]].tolist() == [0, 0, 0]


def test_targets_are_hidden_80_10_10(drawn):
    inputs, labels = (values[drawn[1] != 0] for values in drawn)
    n = len(labels)
    masked = (inputs == 4).sum().item()
    kept = (inputs == labels).sum().item()
    swapped = n - masked - kept
    assert close(masked / n, 0.8, n)
    # A swap draws the word itself once in 100.
    assert close(kept / n, 0.1 + 0.1 / 100, n)
    assert close(swapped / n, 0.1 - 0.1 / 100, n)


def test_swaps_are_drawn_evenly_from_all_real_words_and_from_nothing_else(drawn):
    inputs, labels = (values[drawn[1] != 0] for values in drawn)
    swapped = inputs[(inputs != 4) & (inputs != labels)]
    assert swapped.min() >= 5
    counts = torch.bincount(swapped, minlength=105)[5:].double()
    expected = len(swapped) / 100
    chi_square = ((counts - expected) ** 2 / expected).sum().item()
    assert abs(chi_square - 99) < 4 * math.sqrt(2 * 99)


def test_words_that_are_no_target_stay_as_they_are(drawn):
    inputs, labels = drawn
    assert (inputs[labels == 0] != 4).all()
    assert (labels[labels != 0] >= 5).all()


def test_neighbouring_targets_are_drawn_independently(drawn):
    hidden = (drawn[1] != 0)[:, 1:21].double()
    both = (hidden[:, 1:] * hidden[:, :-1]).mean().item()
    assert close(both, 0.15**2, hidden[:, 1:].numel())


def test_which_words_are_hidden_does_not_depend_on_the_answer(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", long_pairs())
    dataset = BERTDataset(path, make_vocab(long_pairs()), N_WORDS + 3, seed=13)
    labels, is_next = draw(dataset, N_EPOCHS, ("bert_label", "is_next"))
    for answer in (0, 1):
        hidden = (labels[is_next == answer] != 0).double().mean(0)
        n = int((is_next == answer).sum())
        for position in (1, 2, 3, 20, 22, 23):
            assert close(hidden[position].item(), 0.15, n), (answer, position)


def test_specials_and_unknown_words_are_never_targets_nor_changed(tmp_path):
    first = "<pad> <unk> <eos> <sos> <mask> known nowhere"
    path = write_pairs(tmp_path / "corpus.txt", [(first, "never known"), (first, "seen known")])
    dataset = BERTDataset(path, WordVocab(["known other"]), 13, seed=2)
    inputs, labels = draw(dataset, 200)
    known = dataset.vocab.stoi["known"]
    assert set(labels.flatten().tolist()) == {0, known}
    assert (labels[:, [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12]] == 0).all()
    assert inputs[:, [0, 1, 2, 3, 4, 5, 7, 8, 9, 11]].unique(dim=0).tolist() == [[3, 0, 1, 2, 3, 4, 1, 2, 1, 2]]


@pytest.mark.parametrize(
    "pair", [("a", "b"), ("a", "nowhere"), ("nowhere", "b"), ("nowhere never", "a"), ("a nowhere nowhere nowhere", "never")]
)
def test_an_example_with_a_real_word_has_a_target(tmp_path, pair):
    path = write_pairs(tmp_path / "corpus.txt", [pair])
    _, labels = draw(BERTDataset(path, WordVocab(["a b"]), 9, seed=1), 100)
    assert (labels != 0).any(1).all()


def test_the_one_target_of_a_short_example_falls_on_each_word_alike_and_is_hidden_80_10_10(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", [("a", "b")] * 10)
    inputs, labels = draw(BERTDataset(path, WordVocab(["a b " + " ".join(f"w{i}" for i in range(98))]), 5, seed=1), 400)
    hidden = labels != 0
    n = len(labels)
    assert close(hidden[:, 1].double().mean().item(), 0.15 + 0.85**2 / 2, n)
    assert close(hidden[:, 3].double().mean().item(), 0.15 + 0.85**2 / 2, n)
    assert close((inputs[hidden] == 4).double().mean().item(), 0.8, int(hidden.sum()))


def test_an_example_of_unknown_words_alone_has_no_target(tmp_path):
    path = write_pairs(tmp_path / "corpus.txt", [("nowhere", "never"), ("a", "b")])
    dataset = BERTDataset(path, WordVocab(["a b"]), 7, seed=1)
    for epoch in range(50):
        dataset.set_epoch(epoch)
        example = dataset[0]
        if example["is_next"] == 1:
            assert example["bert_label"].tolist() == [0] * 7
            assert example["bert_input"].tolist() == [3, 1, 2, 1, 2, 0, 0]


N_PIECES = 12


def masked(masking, ids, lengths, keys, sizes):
    """The ids with words hidden, and which are."""
    targets, hidden = masking(ids, lengths, keys, sizes, is_sure=False)
    assert targets.unique().numel() == targets.numel()
    inputs, is_target = ids.clone(), torch.zeros_like(ids, dtype=torch.bool)
    inputs[targets], is_target[targets] = hidden.int(), True
    return inputs, is_target


def pieces(whole_words=False, spans=False, probability=0.15, n_texts=4000):
    """Texts of twelve pieces: words of one to three, ids from 5, continuing ones from 25. Inputs, targets, the word of each."""
    words = [0, 1, 1, 2, 2, 2, 3, 4, 5, 5, 6, 7]
    continues = [False, False, True, False, True, True, False, False, False, True, False, False]
    ids = torch.tensor([5 + i + 20 * more for i, more in enumerate(continues)], dtype=torch.int32).repeat(n_texts)
    by_id = [False] * 25 + [True] * 20
    masking = Masking(45, probability, by_id if whole_words else None, spans)
    lengths = torch.full((n_texts,), N_PIECES)
    keys = example_keys(3, 0, torch.arange(n_texts))
    inputs, is_target = masked(masking, ids, lengths, keys, lengths)
    return inputs.view(-1, N_PIECES), is_target.view(-1, N_PIECES), torch.tensor(words)


@pytest.mark.parametrize("probability", [0.02, 0.3, 0.5, 0.999, 1.0])
def test_any_share_of_the_words_is_hidden(probability):
    inputs, hidden, _ = pieces(probability=probability)
    assert close(hidden.double().mean().item(), probability, hidden.numel()) or probability == hidden.double().mean()
    assert close((inputs[hidden] == 4).double().mean().item(), 0.8, int(hidden.sum()))


def test_the_pieces_of_a_word_are_hidden_together_and_each_word_as_often():
    inputs, hidden, words = pieces(whole_words=True)
    for word in range(8):
        of_word = hidden[:, words == word]
        assert (of_word.all(1) == of_word.any(1)).all()
        assert close(of_word[:, 0].double().mean().item(), 0.15, len(hidden))
    # What a piece is hidden behind is drawn for each.
    both = hidden[:, 1]
    alike = ((inputs[both][:, 1] == 4) == (inputs[both][:, 2] == 4)).double().mean().item()
    assert close(alike, 0.8**2 + 0.2**2, int(both.sum()))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("probability", [0.15, 0.4])
def test_spans_hide_the_same_share_of_every_place(whole_words, probability):
    _, hidden, words = pieces(whole_words, spans=True, probability=probability)
    firsts = [place for place in range(N_PIECES) if not whole_words or place == 0 or words[place] != words[place - 1]]
    for place in firsts:
        # Neighbours are hidden together, but the texts are independent of one another.
        assert close(hidden[:, place].double().mean().item(), probability, len(hidden)), place
    if whole_words:
        for word in range(8):
            of_word = hidden[:, words == word]
            assert (of_word.all(1) == of_word.any(1)).all()


def test_spans_are_as_long_as_the_paper_says():
    n_texts, n_words = 400, 500
    ids = torch.full((n_texts * n_words,), 7, dtype=torch.int32)
    lengths = torch.full((n_texts,), n_words)
    keys = example_keys(1, 0, torch.arange(n_texts))
    # So few that they hardly ever touch.
    _, hidden = masked(Masking(9, 0.004, None, spans=True), ids, lengths, keys, lengths)
    runs = []
    for row in hidden.view(n_texts, n_words)[:, 20:-20].tolist():
        text = "".join("x" if hidden else " " for hidden in row)
        runs += map(len, text.split())
    expected = [0.8**k for k in range(10)]
    shares = [weight / sum(expected) for weight in expected]
    assert max(runs) <= 11
    mean = sum((k + 1) * share for k, share in enumerate(shares))
    assert mean == pytest.approx(3.8, abs=0.01)
    deviation = math.sqrt(sum((k + 1 - mean) ** 2 * share for k, share in enumerate(shares)))
    assert abs(sum(runs) / len(runs) - mean) < 4 * deviation / math.sqrt(len(runs)) + 0.05


def test_a_span_is_hidden_behind_one_kind_of_thing():
    inputs, hidden, _ = pieces(spans=True)
    inside = hidden[:, 4] & hidden[:, 5]
    alike = ((inputs[inside][:, 4] == 4) == (inputs[inside][:, 5] == 4)).double().mean().item()
    assert alike > 0.9


def test_a_span_does_not_reach_into_another_text():
    ids = torch.full((6 * 3000,), 7, dtype=torch.int32)
    lengths = torch.tensor([3, 3]).repeat(3000)
    keys, sizes = example_keys(1, 0, torch.arange(3000)), torch.full((3000,), 6)
    _, hidden = masked(Masking(9, 0.3, None, spans=True), ids, lengths, keys, sizes)
    hidden = hidden.view(-1, 6).double()
    across = (hidden[:, 2] * hidden[:, 3]).mean().item()
    assert close(across, 0.3**2, 3000)
    assert (hidden[:, 1] * hidden[:, 2]).mean() > 0.15


@pytest.mark.parametrize("options", [{"whole_word_masking": True}, {"span_masking": True}])
def test_datasets_pass_the_settings_on(tmp_path, options):
    path = write_pairs(tmp_path / "corpus.txt", long_pairs())
    sets = [BERTDataset(path, make_vocab(long_pairs()), N_WORDS + 3, seed=11, **each) for each in ({}, options)]
    one, other = (draw(dataset, 3)[1] for dataset in sets)
    # Of a word vocabulary every entry is a whole word.
    assert torch.equal(one, other) == ("whole_word_masking" in options)


@pytest.mark.parametrize("probability", [0, -0.1, 1.01, math.nan])
def test_a_share_that_is_none_is_refused(probability):
    with pytest.raises(ValueError, match=r"\[E-DATA-MASKING\]$"):
        Masking(9, probability)
