"""The order of examples, and batches of them."""

import random

import pytest
import torch
from torch.utils.data import DataLoader

from bert_pytorch.dataset.batching import EpochSampler
from bert_pytorch.dataset.loader import BatchLoader

from .examples import make_dataset, same_tensors


def orders(loader, epochs=(0, 1, 2)):
    found = []
    for epoch in epochs:
        loader.sampler.set_epoch(epoch)
        found.append(list(loader.sampler))
    return found


@pytest.fixture
def dataset(tmp_path):
    return make_dataset(tmp_path / "corpus.txt", seed=3)


def test_batches_stack_examples_and_the_last_one_may_be_smaller(dataset):
    batches = list(BatchLoader(dataset, 4, shuffle=False))
    assert [list(batch["bert_input"].shape) for batch in batches] == [[4, 13], [4, 13], [3, 13]]
    assert [list(batch["is_next"].shape) for batch in batches] == [[4], [4], [3]]
    assert same_tensors(batches[2]["bert_label"][1], dataset[9]["bert_label"])


def test_without_shuffle_the_order_is_that_of_the_file(dataset):
    assert orders(BatchLoader(dataset, 4, shuffle=False)) == [list(range(11))] * 3


def test_shuffled_passes_are_different_permutations_and_repeat(dataset):
    loader = BatchLoader(dataset, 4, shuffle=True)
    first = orders(loader)
    assert [sorted(order) for order in first] == [list(range(11))] * 3
    assert len({tuple(order) for order in [*first, range(11)]}) == 4
    assert orders(loader, (2, 1, 0)) == first[::-1]


def test_the_order_is_a_function_of_the_seed(tmp_path):
    by_seed = [orders(BatchLoader(make_dataset(tmp_path / "c.txt", seed=seed), 4, shuffle=True)) for seed in (0, 0, 1)]
    assert by_seed[0] == by_seed[1] != by_seed[2]


def test_each_place_is_taken_by_each_example_alike():
    sampler = EpochSampler(5, seed=7)
    counts = torch.zeros(5, 5)
    for epoch in range(2000):
        sampler.set_epoch(epoch)
        for place, index in enumerate(sampler):
            counts[place, index] += 1
    assert ((counts - 400).abs() < 4 * (400 * 0.8) ** 0.5).all()


def test_a_sampler_can_start_within_one_pass():
    sampler = EpochSampler(7, seed=1)
    sampler.set_epoch(3)
    whole = list(sampler)
    sampler.start_at(4)
    assert list(sampler) == whole[4:]
    assert list(sampler) == whole
    assert len(sampler) == 7


def test_loading_neither_depends_on_global_random_state_nor_touches_it(dataset):
    loader = BatchLoader(dataset, 4, shuffle=True)
    torch.manual_seed(1)
    before = torch.get_rng_state(), random.getstate()
    batches = list(loader)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    torch.manual_seed(2)
    assert same_tensors(list(loader), batches)


def test_workers_give_the_same_batches(tmp_path):
    dataset = make_dataset(tmp_path / "corpus.txt", seed=3, on_memory=False)
    alone, helped = BatchLoader(dataset, 4, 0, shuffle=True), BatchLoader(dataset, 4, 2, shuffle=True)
    for epoch in (0, 1):
        for loader in (alone, helped):
            loader.dataset.set_epoch(epoch)
            loader.sampler.set_epoch(epoch)
        assert same_tensors(list(helped), list(alone))


def test_a_plain_loader_of_torch_does_as_well(dataset):
    batches = list(DataLoader(dataset, batch_size=5, shuffle=True))
    assert [len(batch["is_next"]) for batch in batches] == [5, 5, 1]
    assert sorted(batches[0]) == ["bert_input", "bert_label", "is_next", "segment_label"]
