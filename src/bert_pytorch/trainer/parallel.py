"""One model on several processes: a copy in each (DDP), or a part in each (FSDP2), and what one process would have of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from ..model import BERTLM
from .distributed import World

Replicated = DistributedDataParallel
T = TypeVar("T")
_FIRST = 3
_ROWS = ("bert_input", "bert_label", "segment_label", "example")


def shard(objective: nn.Module, language_model: BERTLM, world: World, device: torch.device, sharding: str) -> None:
    """Give each process its part of every weight, in place; of gradients and moments it then has its part too.

    Args:
        objective: What steps run; gathers what is in no block.
        language_model: The model in it; each block is gathered when it is computed.
        world: The processes.
        device: Where the model is.
        sharding: `full`: gathered weights are given up behind each use; `grad`: they stay from forward to backward.

    Source: Rajbhandari et al. 2020 (arXiv 1910.02054), stages 3 and 2; torch's `fully_shard`.
    """
    mesh, again = init_device_mesh(device.type, (world.size,)), sharding == "full"
    for block in language_model.bert.transformer_blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=again)
    fully_shard(objective, mesh=mesh, reshard_after_forward=again)


def replicate(module: nn.Module, device: torch.device, *, uses_all: bool) -> DistributedDataParallel:
    """A module whose gradients are averaged over all processes while they are computed.

    Args:
        module: The same in each.
        device: Where it is.
        uses_all: Whether each step's loss depends on every weight.
    """
    devices = [device] if device.type == "cuda" else None
    return DistributedDataParallel(
        module,
        device_ids=devices,
        gradient_as_bucket_view=True,
        find_unused_parameters=not uses_all,
    )


@contextmanager
def exchanging(module: nn.Module, *, is_last: bool) -> Iterator[None]:
    """The context of one of a step's batches: gradients are exchanged behind the last one only."""
    if isinstance(module, FSDPModule):
        module.set_requires_gradient_sync(is_last)
    if isinstance(module, DistributedDataParallel) and not is_last:
        with module.no_sync():
            yield
    else:
        yield


@contextmanager
def gathered(objective: nn.Module) -> Iterator[None]:
    """The weights outside of blocks are there, for who runs parts of the model by themselves."""
    if not isinstance(objective, FSDPModule):
        yield
        return
    objective.unshard()
    try:
        yield
    finally:
        objective.reshard()


def whole(value: T) -> T:
    """A nest of values with every part of a tensor made whole; all processes take part."""
    made: object = value
    if isinstance(value, DTensor):
        made = value.full_tensor()
    elif isinstance(value, Mapping):
        made = {key: whole(each) for key, each in value.items()}
    elif isinstance(value, list):
        made = [whole(each) for each in value]
    return cast(T, made)


def put_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put whole tensors into a model, of which each process may have a part."""
    own = model.state_dict()
    model.load_state_dict({name: _like(value, own[name]) for name, value in weights.items()})


def moments_like(optimizer: Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """The state of an optimiser of whole tensors, as one for the parts that this process has."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    parts = {
        number: {
            name: _like(value, parameters[int(number)])
            if isinstance(value, Tensor) and value.shape == parameters[int(number)].shape
            else value
            for name, value in own.items()
        }
        for number, own in state["state"].items()
    }
    return {**state, "state": parts}


def _like(value: Tensor, other: Tensor) -> Tensor:
    if not isinstance(other, DTensor):
        return value
    return distribute_tensor(value.to(other.device), other.device_mesh, other.placements)


def row_of_padding(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A batch of one token, for a process that has no row of a step and must take part in it; its sums are to be left out."""
    token = batch["bert_input"].new_full((1, 1), _FIRST)
    row = {name: token if name in ("bert_input", "bert_label") else torch.ones_like(token) for name in _ROWS if name in batch}
    return {**row, **({"is_next": batch["is_next"].new_ones(1)} if "is_next" in batch else {})}
