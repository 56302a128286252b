"""The tensors of a sharded run's checkpoint made whole, from the parts that each process wrote."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from torch import Tensor

from ..errors import InputError
from .state_files import MODEL, OPTIMIZER

Parts = Iterable[tuple[Mapping[str, Tensor], Mapping[str, list[int]]]]
PREFIX = "shard-"
TIED = "tied"
WHERE = {"model/": MODEL, "optimizer/": OPTIMIZER}


def assembled(parts: Parts, tied: Mapping[str, str], path: Path) -> dict[str, dict[str, Tensor]]:
    """The files of a checkpoint with whole tensors.

    Args:
        parts: Of each shard the tensors, and where each begins in the whole one.
        tied: Names of tensors that stand under others.
        path: Named where something is missing.

    Raises:
        InputError: The parts do not cover a tensor.
    """
    pieces: dict[str, list[tuple[list[int], Tensor]]] = {}
    for tensors, offsets in parts:
        for name, value in tensors.items():
            pieces.setdefault(name, []).append((offsets.get(name, [0] * value.dim()), value))
    tensors = {name: _joined(name, own, path) for name, own in pieces.items()}
    tensors |= {name: tensors[other] for name, other in tied.items()}
    return {
        file: {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        for prefix, file in WHERE.items()
    }


def _joined(name: str, pieces: list[tuple[list[int], Tensor]], path: Path) -> Tensor:
    first = pieces[0][1]
    shape = [max(offsets[i] + piece.size(i) for offsets, piece in pieces) for i in range(first.dim())]
    whole, n_filled = first.new_empty(shape), 0
    for offsets, piece in pieces:
        whole[tuple(slice(begin, begin + size) for begin, size in zip(offsets, piece.shape, strict=True))] = piece
        n_filled += piece.numel()
    if n_filled != whole.numel():
        message = f"{path}: damaged: the parts of {name} have {n_filled} of {whole.numel()} numbers"
        raise InputError(f"{message}; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]")
    return whole
