"""What the trainer does with a loader, whoever made it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from itertools import islice
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from ..dataset import BERTDataset
from ..dataset.loader import BatchLoader
from ..errors import InputError
from .arguments import TrainingArguments
from .distributed import World
from .randomness import random_state, set_random_state

Batches = Iterable[Mapping[str, Tensor]]
Collator = Callable[[list[Any]], Mapping[str, Tensor]]
_BATCH_SIZE = 64


def as_loaders(
    train: Batches | Dataset[Any],
    test: Batches | Dataset[Any] | None,
    args: TrainingArguments,
    collator: Collator | None,
    world: World,
) -> tuple[Batches, Batches | None]:
    """The batches to train on and those to evaluate on; as `as_loader`."""
    own, other = args.per_device_train_batch_size, args.per_device_eval_batch_size
    train_data = as_loader(train, own, collator, world, shuffle=True)
    return train_data, None if test is None else as_loader(test, other or own, collator, world, shuffle=False)


def as_loader(
    data: Batches | Dataset[Any], batch_size: int | None, collator: Collator | None, world: World, *, shuffle: bool
) -> Batches:
    """The batches of a dataset; what gives batches already stays what it is.

    Args:
        data: A map-style dataset, or batches.
        batch_size: Examples a batch of each process; None: 64.
        collator: Makes a batch of examples; None: ours for a `BERTDataset`, else torch's.
        world: The processes that share the data.
        shuffle: A new order each pass.

    Raises:
        InputError: `data` are batches, and one of the others would have no effect, or every process would have all of them.
    """
    if not isinstance(data, Dataset):
        useless = {"batch size": batch_size is not None, "data_collator": collator is not None}
        for name, is_given in useless.items():
            if is_given:
                raise InputError(f"BERTTrainer: a {name} has no effect on batches; give a dataset [E-SETTING-CONFLICT]")
        _check_shared(data, world)
        return data
    n = batch_size or _BATCH_SIZE
    if collator is None and isinstance(data, BERTDataset):
        return BatchLoader(data, n * world.size, shuffle=shuffle, rank=world.rank, n_ranks=world.size)
    if world.size == 1:
        return DataLoader(data, n, shuffle=shuffle, collate_fn=collator)
    sampler = DistributedSampler(data, world.size, world.rank, shuffle=shuffle)
    return DataLoader(data, n, sampler=sampler, collate_fn=collator)


def _check_shared(data: Batches, world: World) -> None:
    """Refuse batches of which every process would have all."""
    if world.size == 1:
        return
    if isinstance(data, BatchLoader):
        is_shared = (data.rank, data.n_ranks) == (world.rank, world.size)
    else:
        is_shared = not isinstance(data, DataLoader) or isinstance(data.sampler, DistributedSampler)
    if not is_shared:
        message = f"each of {world.size} processes would train on all of the batches"
        remedy = "give the dataset, a BatchLoader with rank and n_ranks, or a DistributedSampler"
        raise InputError(f"BERTTrainer: {message}; {remedy} [E-RANK-DATA]")


def settings_of(data: Batches) -> dict[str, Any]:
    """How the examples of a loader are made, where a `BERTDataset` makes them."""
    dataset = getattr(data, "dataset", None)
    return dict(dataset.settings) if isinstance(dataset, BERTDataset) else {}


def tell_epoch(data_loader: Iterable[Mapping[str, Tensor]], epoch: int) -> None:
    """Tell a loader, its dataset and its samplers which pass begins, those that want to know."""
    for part in (data_loader, *(getattr(data_loader, name, None) for name in ("dataset", "sampler", "batch_sampler"))):
        set_epoch = getattr(part, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(epoch)


def count_batches(data_loader: Iterable[Mapping[str, Tensor]]) -> int | None:
    """Batches of a pass, or None where the loader cannot tell (a loader over a stream has a length that raises)."""
    try:
        return len(data_loader) if isinstance(data_loader, Sized) else None
    except TypeError:
        return None


def skip_batches(data_loader: Iterable[Mapping[str, Tensor]], n_batches: int, epoch: int) -> Iterator[Mapping[str, Tensor]]:
    """Begin a pass over a loader and leave out the batches that a run had before it stopped.

    Raises:
        InputError: There are fewer.
    """
    batches = iter(data_loader)
    n_seen = sum(1 for _ in islice(batches, n_batches))
    if n_seen < n_batches:
        message = f"the loader ended after {n_seen} batches, the checkpoint stopped after {n_batches}"
        raise InputError(f"train({epoch}): {message}; give the same data [E-TRAINER-NO-DATA]")
    return batches


class Position:
    """Where in the data a run is: what a checkpoint, also one within a pass, goes on from.

    Attributes:
        epoch: The pass that goes on, or the next one.
        n_batches: Batches of it that are done.
        is_within_pass: Whether it has begun and has not ended.
        is_within_step: Whether a step has begun and its batches are not counted: weights and position may not belong together.
    """

    def __init__(self) -> None:
        """Stand before the first pass."""
        self.epoch = self.n_batches = 0
        self.is_within_pass = self.is_within_step = self._is_to_go_on = False
        self._pass_start_random = self._random = random_state()

    def batches(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]]) -> Iterator[Mapping[str, Tensor]]:
        """The batches of a pass that are still to be trained on, after telling the loader which pass it is.

        Raises:
            InputError: Another pass was interrupted, or the loader has fewer batches than were done.
        """
        tell_epoch(data_loader, epoch)
        if not self._is_to_go_on:
            self.epoch, self.n_batches, self.is_within_pass = epoch, 0, True
            self._pass_start_random = random_state()
            batches = iter(data_loader)
            self._random = random_state()
            return batches
        if epoch != self.epoch:
            where = f"the checkpoint stopped within pass {self.epoch}"
            raise InputError(f"train({epoch}): {where}; call train({self.epoch}) first [E-RESUME-EPOCH]")
        self._is_to_go_on = False
        if isinstance(data_loader, BatchLoader):
            data_loader.start_at(self.n_batches)
            return iter(data_loader)
        # A foreign loader may draw its order from the global state, so it is rewound to where the pass began.
        set_random_state(self._pass_start_random)
        batches = skip_batches(data_loader, self.n_batches, epoch)
        set_random_state(self._random)
        return batches

    def step_begins(self) -> None:
        """Note that a step has begun."""
        self.is_within_step = True

    def batches_done(self, n: int) -> None:
        """Count batches that a step has taken."""
        self.n_batches += n
        self._random = random_state()
        self.is_within_step = False

    def pass_done(self) -> None:
        """Stand before the next pass."""
        self.epoch, self.is_within_pass = self.epoch + 1, False

    def state_dict(self, epoch: int | None = None) -> dict[str, Any]:
        """The position, and the generators' states that belong to it; outside a pass, behind pass `epoch` where given."""
        within = self.is_within_pass
        return {
            "random": self._random if within else random_state(),
            "pass_start_random": self._pass_start_random if within else None,
            "position": {
                "epoch": self.epoch if within or epoch is None else epoch + 1,
                "n_batches": self.n_batches if within else 0,
                "is_within_pass": within,
            },
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand there, and set the generators."""
        set_random_state(state["random"])
        self._random, self._pass_start_random = state["random"], state["pass_start_random"]
        self.epoch, self.n_batches = state["position"]["epoch"], state["position"]["n_batches"]
        self.is_within_pass = self._is_to_go_on = state["position"]["is_within_pass"]
