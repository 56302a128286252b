"""Checkpoints of a sharded run: each process writes its parts of the tensors, while training goes on.

torch.distributed.checkpoint copies the parts aside and writes them in a thread, `shard-R-...safetensors` a process; in the
header stands where in the whole tensor a part begins. Reading (`shards.py`) needs neither it nor as many processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.tensor import DTensor

from ..errors import UnavailableError
from ..extras import import_extra
from .distributed import World
from .shards import WHERE


class ShardWriter:
    """Writes the parts of this process, beside the others, in the background."""

    def __init__(self, world: World) -> None:
        """Prepare; all processes do so together.

        Raises:
            UnavailableError: The package `safetensors` is not installed, or this torch is too old.
        """
        import_extra("safetensors.torch", "safetensors")
        if not hasattr(dcp, "HuggingFaceStorageWriter"):
            message = f"sharded checkpoints: torch {torch.__version__} writes none without pickle, expected at least 2.8"
            raise UnavailableError(f"{message}; pip install 'torch>=2.8' [E-DEPENDENCY]")
        # Of its own, as it works beside the steps.
        group = dist.new_group(backend="gloo")
        assert isinstance(group, dist.ProcessGroup)
        self._group, self.world = group, world
        self._future: Future[Any] | None = None

    def begin(self, folder: str, tensors: Mapping[str, Tensor]) -> None:
        """Copy the parts aside; from here on the weights may change."""
        writer = dcp.HuggingFaceStorageWriter(folder, save_distributed=True)
        future = dcp.async_save(dict(tensors), storage_writer=writer, process_group=self._group)
        assert isinstance(future, Future)
        self._future = future

    @property
    def is_done(self) -> bool:
        """Whether all processes have written theirs."""
        return not self.world.highest(int(self._future is not None and not self._future.done()))

    def finish(self) -> str | None:
        """Wait until all have written; what went wrong in one of them, if anything did."""
        error = None if self._future is None else self._future.exception()
        self._future = None
        reasons = [reason for reason in self.world.gather(None if error is None else str(error).partition("\n")[0]) if reason]
        return reasons[0] if reasons else None


def parts_of(contents: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a checkpoint's files as one mapping, one that has two names once, and which names were left out."""
    tensors: dict[str, Tensor] = {}
    tied: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    for prefix, file in WHERE.items():
        for name, value in contents[file].items():
            local = value.to_local() if isinstance(value, DTensor) else value
            place = (local.data_ptr(), value.shape, value.dtype)
            if local.numel() and place in seen:
                tied[prefix + name] = seen[place]
            else:
                seen.setdefault(place, prefix + name)
                tensors[prefix + name] = value.detach()
    return tensors, tied
