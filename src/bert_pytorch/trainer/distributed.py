"""The processes that train together, as torchrun or `accelerate launch` started them; one process is a world of its own."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor

from ..errors import InputError, TrainingError, UnavailableError, UserError
from ..launch import n_processes, n_restarts

T = TypeVar("T")
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
DEFAULT_TIMEOUT = 1800.0
_SECONDS_TO_LET_GO = 0.2


class World(NamedTuple):
    """This process among those that train together.

    Every method is to be called by all of them, in the same order; alone, each does nothing.
    """

    rank: int = 0
    """Number of this process, from 0; 0 writes and speaks."""
    size: int = 1
    """How many there are."""
    local_rank: int = 0
    """Number of this process on its machine, and of its GPU."""

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def sum(self, values: Tensor) -> Tensor:
        """Add a tensor up over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def all(self, is_true: Tensor) -> Tensor:
        """Whether something, `[]` bool, holds in all processes; on the tensor's device, without waiting for a GPU."""
        if self.size == 1:
            return is_true
        holds = is_true.to(torch.uint8)
        dist.all_reduce(holds, op=dist.ReduceOp.MIN)
        return holds.bool()

    def highest(self, number: int) -> int:
        """The highest of a whole number that each process has."""
        if self.size == 1:
            return number
        value = torch.tensor(number)
        dist.all_reduce(value, op=dist.ReduceOp.MAX)
        return int(value)

    def totals(self, *numbers: int) -> list[int]:
        """Whole numbers added up over all processes."""
        return list(numbers) if self.size == 1 else self.sum(torch.tensor(numbers)).tolist()

    def gather(self, value: T) -> list[T]:
        """What each process has, by rank; plain values and tensors."""
        if self.size == 1:
            return [value]
        values: list[T] = [value] * self.size
        dist.all_gather_object(values, value)
        return values

    def from_main(self, value: T) -> T:
        """What the main process has."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values)
        return values[0]

    def on_main(self, work: Callable[[], T]) -> T:
        """Do something in the main process alone; all get what it gave, or its `UserError`."""
        if self.size == 1:
            return work()
        result: T | None = None
        error: UserError | None = None
        if self.is_main:
            try:
                result = work()
            except UserError as failure:
                error = failure
        result, error = self.from_main((result, error))
        if error is not None:
            raise error
        return cast(T, result)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Let the main process go through a block before the others, which find what it made."""
        if self.size > 1 and not self.is_main:
            dist.barrier()
        try:
            yield
        finally:
            if self.size > 1 and self.is_main:
                dist.barrier()


def current() -> World:
    """The processes that were begun with; a single one where none were."""
    if not (dist.is_available() and dist.is_initialized()):
        return World()
    return World(dist.get_rank(), dist.get_world_size(), int(os.environ.get("LOCAL_RANK", 0)))


def start(with_cuda: bool, timeout_seconds: float = DEFAULT_TIMEOUT) -> World:
    """Meet the other processes of a launch, once; gloo on CPUs, nccl for what lies on GPUs.

    Args:
        with_cuda: Take the GPU of this process's number on its machine.
        timeout_seconds: How long one of them may be waited for before this one ends.

    Raises:
        InputError: The launcher's environment is not whole.
        UnavailableError: The others did not come, or there is no GPU for this process.
    """
    if n_processes() == 1 or (dist.is_available() and dist.is_initialized()):
        if "WORLD_SIZE" not in os.environ and os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("true", "1", "yes"):
            message = "accelerate launch --cpu starts one process, whatever --num_processes says"
            warnings.warn(f"{message}; for several: torchrun --nproc_per_node N", stacklevel=3)
        return current()
    lacking = [name for name in _NEEDED if name not in os.environ]
    if lacking:
        message = f"WORLD_SIZE is {n_processes()}, but {', '.join(lacking)} are not set"
        raise InputError(f"{message}; start with torchrun, or unset WORLD_SIZE [E-LAUNCH-ENVIRONMENT]")
    rank, size = int(os.environ["RANK"]), n_processes()
    address, port, timeout = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timedelta(seconds=timeout_seconds)
    backend = "gloo"
    if with_cuda:
        number, n_gpus = int(os.environ.get("LOCAL_RANK", rank)), torch.cuda.device_count()
        if number >= n_gpus:
            message = f"process {number} of this machine has no GPU, there are {n_gpus}"
            raise UnavailableError(f"{message}; start at most {n_gpus} a machine, or pass --device cpu [E-DEVICE-CUDA]")
        torch.cuda.set_device(number)
        backend = "cpu:gloo,cuda:nccl"
    # After a restart torchrun's store still has what the processes before left there.
    has_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        server = dist.TCPStore(address, port, size, rank == 0 and not has_store, timeout)
        store = dist.PrefixStore(f"bert_pytorch/{n_restarts()}", server)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)
    except (RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        message = f"rank {rank} of {size} met no others at {address}:{port}: {reason}"
        raise UnavailableError(f"{message}; see that all are started and reach that address [E-LAUNCH-RENDEZVOUS]") from error
    return current()


def stop() -> None:
    """Leave the others that `start` met, as the last thing of a process that ended well.

    Gloo's threads let go of a message a moment after it was received, and need the interpreter for it; one that is ending then
    aborts the process (https://github.com/pytorch/pytorch/pull/179291). They end with their group, but not where something
    still holds it: a model of several processes, or its mesh, which stays in torch's caches. So they get a moment too.
    """
    if n_processes() > 1 and dist.is_available() and dist.is_initialized():
        gc.collect()
        dist.destroy_process_group()
        time.sleep(_SECONDS_TO_LET_GO)


@contextmanager
def lost_ranks_named(world: World) -> Iterator[None]:
    """Say in one line that another process is gone, or does not answer, where torch would tell of sockets.

    Raises:
        TrainingError: It is.
    """
    try:
        yield
    except RuntimeError as error:
        if world.size == 1 or not _is_of_a_connection(error):
            raise
        reason = str(error).strip().splitlines()[0]
        message = f"rank {world.rank} of {world.size}: another process ended or does not answer ({reason})"
        raise TrainingError(f"{message}; its own message says why; go on from the last checkpoint [E-RANK-LOST]") from error


def _is_of_a_connection(error: RuntimeError) -> bool:
    words = str(error).lower()
    kinds = ("gloo", "nccl", "connection", "timed out", "timeout", "socket", "broken pipe")
    return type(error) is not TrainingError and any(kind in words for kind in kinds)
