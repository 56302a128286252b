"""The order of examples, and batches of them: shapes, shares, and that each example comes once a pass whatever the settings."""

import random
from collections import Counter

import pytest
import torch
from torch.utils.data import DataLoader

from bert_pytorch import BERTDataset
from bert_pytorch.dataset.batching import EpochOrder
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.errors import UsageError

from .examples import make_dataset, make_vocab, same_tensors, write_pairs

MODES = {
    "plain": {},
    "tokens": {"tokens_per_batch": 61},
    "lengths": {"group_by_length": True},
    "lengths, tokens": {"group_by_length": True, "tokens_per_batch": 61},
    "lengths, multiples": {"group_by_length": True, "pad_to_multiple_of": 4},
    "tokens, multiples": {"tokens_per_batch": 61, "pad_to_multiple_of": 8},
    "packed": {"packing": True},
    "packed, tokens": {"packing": True, "tokens_per_batch": 61},
}
every_mode = pytest.mark.parametrize("mode", MODES)
N = 89


def varied_pairs():
    """Pairs whose lengths differ widely, each with a first word of its own."""
    return [(f"id{i}" + " a" * (i * 7 % 5), "b" + f" c{i % 13}" * (i * 5 % 7)) for i in range(N)]


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "corpus.txt", seed=3)


@pytest.fixture
def varied(tmp_path):
    return make_dataset(tmp_path / "varied.txt", varied_pairs(), seed=5)


@pytest.fixture
def windows(monkeypatch):
    """Windows of a few batches, and parts of one or two, so that a pass has many."""
    monkeypatch.setattr("bert_pytorch.dataset.loader._WINDOW_EXAMPLES", 23)
    monkeypatch.setattr("bert_pytorch.dataset.loader._PART_PLACES", 60)


def pieces(loader):
    """The examples of a pass as they lie in the batches: id, label and segment of each token, and the answer."""
    found = []
    for batch in loader:
        rows = batch["bert_input"], batch["bert_label"], batch["segment_label"]
        number_BL = batch.get("example", (batch["bert_input"] != 0).long())
        answers = batch["is_next"].tolist()
        for row in range(len(number_BL)):
            for number in range(1, int(number_BL[row].max()) + 1):
                tokens = [tuple(values[row][number_BL[row] == number].tolist()) for values in rows]
                found.append((*tokens, answers.pop(0)))
        assert not answers
    return found


def items(dataset):
    """The same of the examples of a dataset, one by one."""
    found = []
    for item in map(dataset.__getitem__, range(len(dataset))):
        is_token = item["bert_input"] != 0
        tokens = [tuple(item[key][is_token].tolist()) for key in ("bert_input", "bert_label", "segment_label")]
        found.append((*tokens, item["is_next"].item()))
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 10, 16, 17, 97, 1000])
def test_an_order_has_every_number_once(n):
    whole = EpochOrder(n, seed=1, epoch=2)[:]
    assert sorted(whole.tolist()) == list(range(n))
    parts = [EpochOrder(n, seed=1, epoch=2)[start : start + 3] for start in range(0, n, 3)]
    assert torch.equal(torch.cat(parts), whole)


def test_orders_of_passes_and_seeds_differ_and_repeat():
    orders = {tuple(EpochOrder(11, seed, epoch)[:].tolist()) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25
    assert torch.equal(EpochOrder(11, 3, 4)[:], EpochOrder(11, 3, 4)[:])
    assert EpochOrder(11, 3, 4, shuffle=False)[:].tolist() == list(range(11))


@pytest.mark.parametrize("n", [5, 6])
def test_each_place_is_taken_by_each_number_alike(n):
    counts = torch.zeros(n, n)
    for epoch in range(2000):
        counts[torch.arange(n), EpochOrder(n, seed=7, epoch=epoch)[:]] += 1
    expected = 2000 / n
    assert ((counts - expected).abs() < 4 * (expected * (1 - 1 / n)) ** 0.5).all()


def test_neighbours_in_the_file_are_no_neighbours_in_the_order():
    order = EpochOrder(10_007, seed=0, epoch=0)[:].double()
    steps = order.diff()
    assert (steps.abs() == 1).double().mean() < 0.001
    for lag in range(1, 6):
        correlation = torch.corrcoef(torch.stack([order[lag:], order[:-lag]]))[0, 1]
        assert abs(correlation) < 4 / 10_007**0.5


def test_batches_stack_examples_and_the_last_one_may_be_smaller(dataset):
    batches = list(BatchLoader(dataset, 4))
    assert [list(batch["bert_input"].shape) for batch in batches] == [[4, 11], [4, 11], [3, 11]]
    assert [list(batch["is_next"].shape) for batch in batches] == [[4], [4], [3]]
    assert same_tensors(batches[2]["bert_label"][1], dataset[9]["bert_label"][:11])


def test_a_batch_is_as_wide_as_its_longest_example(varied):
    for batch in BatchLoader(varied, 3, shuffle=True):
        assert batch["bert_input"].size(1) == (batch["bert_input"] != 0).sum(1).max()


def test_without_shuffle_the_order_is_that_of_the_file(varied):
    assert pieces(BatchLoader(varied, 4)) == items(varied)


@every_mode
def test_every_example_comes_once_a_pass_as_the_dataset_has_it(varied, mode, windows):
    loader = BatchLoader(varied, 4, shuffle=True, **MODES[mode])
    passes = []
    for epoch in range(3):
        loader.set_epoch(epoch)
        passes.append(pieces(loader))
        assert Counter(passes[-1]) == Counter(items(varied))
        assert len(list(loader)) == len(loader) == loader.count_batches(epoch)
    assert passes[0] != passes[1] != passes[2]


@every_mode
@pytest.mark.parametrize("n_ranks", [2, 3])
def test_ranks_share_each_batch(varied, mode, n_ranks, windows):
    common = {"shuffle": True, **MODES[mode]}
    alone = list(BatchLoader(varied, 4, **common))
    ranks = [list(BatchLoader(varied, 4, rank=rank, n_ranks=n_ranks, **common)) for rank in range(n_ranks)]
    assert {len(batches) for batches in ranks} == {len(alone)}
    for number, batch in enumerate(alone):
        for name in set(batch) - {"is_next"}:
            for rank in range(n_ranks):
                assert same_tensors(ranks[rank][number][name], batch[name][rank::n_ranks])
    together = [piece for batches in ranks for piece in pieces(batches)]
    assert Counter(together) == Counter(pieces(alone)) == Counter(items(varied))


@every_mode
def test_a_pass_can_begin_at_any_batch(varied, mode, windows):
    loader = BatchLoader(varied, 4, shuffle=True, **MODES[mode])
    loader.set_epoch(2)
    whole = list(loader)
    for start in range(len(whole) + 1):
        loader.start_at(start)
        assert same_tensors(list(loader), whole[start:])
    assert same_tensors(list(loader), whole)


@every_mode
@pytest.mark.parametrize("on_memory", [True, False])
def test_workers_give_the_same_batches(tmp_path, mode, on_memory, windows):
    dataset = make_dataset(tmp_path / "corpus.txt", varied_pairs(), seed=3, on_memory=on_memory)
    alone, helped = (BatchLoader(dataset, 4, n, shuffle=True, **MODES[mode]) for n in (0, 2))
    for epoch in (0, 1):
        alone.set_epoch(epoch)
        helped.set_epoch(epoch)
        assert same_tensors(list(helped), list(alone))


@pytest.mark.parametrize("mode", ["tokens", "lengths, tokens", "packed, tokens"])
def test_a_batch_has_at_most_the_tokens_asked_for_and_uses_them(varied, mode, windows):
    sizes = [batch["bert_input"].numel() for batch in BatchLoader(varied, 4, shuffle=True, **MODES[mode])]
    assert max(sizes) <= 61
    assert sum(sizes) / len(sizes) > 45


def share_of_padding(loader):
    counts = [((batch["bert_input"] == 0).sum().item(), batch["bert_input"].numel()) for batch in loader]
    return sum(n for n, _ in counts) / sum(n for _, n in counts)


def test_lengths_and_packing_leave_less_padding(tmp_path):
    dataset = make_dataset(tmp_path / "varied.txt", varied_pairs(), seq_len=29, seed=5)
    shares = {mode: share_of_padding(BatchLoader(dataset, 8, shuffle=True, **MODES[mode])) for mode in MODES}
    assert shares["plain"] > 0.25
    assert shares["lengths"] < 0.12
    assert shares["packed"] < 0.08


def test_rows_of_like_length_come_in_mixed_order(varied):
    loader = BatchLoader(varied, 4, shuffle=True, group_by_length=True)
    widths = [batch["bert_input"].size(1) for batch in loader]
    assert len(set(widths)) > 4
    assert widths != sorted(widths)
    loader.set_epoch(1)
    assert [batch["bert_input"].size(1) for batch in loader] != widths


def test_one_of_the_longest_comes_first(varied):
    for epoch in range(4):
        loader = BatchLoader(varied, 4, shuffle=True, group_by_length=True)
        loader.set_epoch(epoch)
        widths = [batch["bert_input"].size(1) for batch in loader]
        assert widths[0] == max(widths)


@pytest.mark.parametrize("settings", [{}, {"group_by_length": True}, {"tokens_per_batch": 61}])
def test_rows_are_padded_to_multiples_or_to_the_longest_there_may_be(varied, settings):
    loader = BatchLoader(varied, 4, shuffle=True, pad_to_multiple_of=4, **settings)
    batches = [batch["bert_input"] for batch in loader]
    widths = {inputs.size(1) for inputs in batches}
    assert widths <= {4, 8, 12, 13}
    assert len(widths) > 1
    if "tokens_per_batch" in settings:
        assert max(inputs.numel() for inputs in batches) <= 61


def test_examples_of_a_row_are_numbered_and_stand_side_by_side(varied):
    for batch in BatchLoader(varied, 4, shuffle=True, packing=True):
        number_BL, inputs_BL = batch["example"], batch["bert_input"]
        assert torch.equal(number_BL != 0, inputs_BL != 0)
        assert inputs_BL.size(1) == 13
        for numbers, ids in zip(number_BL, inputs_BL, strict=True):
            used = numbers[numbers != 0]
            assert used.diff().unique().tolist() in ([], [0], [0, 1])
            assert (ids[numbers.diff(prepend=torch.tensor([-1])) == 1] == 3).all()


def test_loading_neither_depends_on_global_random_state_nor_touches_it(dataset):
    loader = BatchLoader(dataset, 4, shuffle=True)
    torch.manual_seed(1)
    before = torch.get_rng_state(), random.getstate()
    batches = list(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    torch.manual_seed(2)
    assert same_tensors(list(loader), batches)


def test_batches_of_one_size_do_not_depend_on_the_windows(varied, monkeypatch):
    whole = list(BatchLoader(varied, 4, shuffle=True))
    monkeypatch.setattr("bert_pytorch.dataset.loader._WINDOW_EXAMPLES", 8)
    assert same_tensors(list(BatchLoader(varied, 4, shuffle=True)), whole)


def test_a_plain_loader_of_torch_does_as_well(dataset):
    batches = list(DataLoader(dataset, batch_size=5, shuffle=True))
    assert [len(batch["is_next"]) for batch in batches] == [5, 5, 1]
    assert sorted(batches[0]) == ["bert_input", "bert_label", "is_next", "segment_label"]
    for batch in DataLoader(dataset, batch_size=3, num_workers=2):
        assert batch["bert_input"].shape[1:] == (13,)


def test_a_plain_loader_honours_an_item_of_a_subclass(tmp_path):
    class Marked(BERTDataset):
        def __getitem__(self, item):
            return {**super().__getitem__(item), "line": torch.tensor(item)}

    pairs = varied_pairs()
    dataset = Marked(write_pairs(tmp_path / "corpus.txt", pairs), make_vocab(pairs), 13)
    batch = next(iter(DataLoader(dataset, batch_size=5)))
    assert batch["line"].tolist() == [0, 1, 2, 3, 4]
    assert batch["bert_input"].shape == (5, 13)


def test_items_of_a_batch_can_be_put_together_anew(dataset):
    rows = dataset.__getitems__([4, 7, 2])
    batch = torch.utils.data.default_collate(rows)
    again = torch.utils.data.default_collate(rows[::-1])
    one = torch.utils.data.default_collate(rows[:1])
    for name, values in batch.items():
        assert torch.equal(values, torch.stack([dataset[index][name] for index in (4, 7, 2)]))
        assert torch.equal(again[name], values.flip(0))
        assert torch.equal(one[name], values[:1])


@pytest.mark.parametrize("settings", [{"tokens_per_batch": 12}, {"rank": 2, "n_ranks": 2}, {"n_ranks": 5}, {"rank": -1}])
def test_batches_too_small_are_refused(dataset, settings):
    with pytest.raises(ValueError, match=r"\[E-DATA-BATCH\]$"):
        BatchLoader(dataset, 4, **settings)


@pytest.mark.parametrize("setting", [{"group_by_length": True}, {"pad_to_multiple_of": 8}])
def test_packing_excludes_what_would_have_no_effect(dataset, setting):
    with pytest.raises(UsageError, match=r"\[E-SETTING-CONFLICT\]$"):
        BatchLoader(dataset, 4, packing=True, **setting)
