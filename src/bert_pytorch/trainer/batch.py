"""What the trainer asks of a batch, whoever made it, and what it leaves out of it.

Shapes: B sequences, L tokens per sequence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..model.bert import starts_of
from ..model.embedding import N_SEGMENTS
from .objective import places_of

KEYS = ("bert_input", "bert_label", "segment_label")
_TOKEN_KEYS = (*KEYS, "example")


def prepare_batch(batch: object, vocab_size: int, device: torch.device) -> dict[str, Any]:
    """Check a batch, cut columns that are padding in every row, and copy it to the device.

    Args:
        batch: `bert_input`, `bert_label`, `segment_label` `[B, L]`, int64, and `is_next` `[B]`, without which only masked words
            are trained. Where a row holds several examples also `example` `[B, L]` (`BERT.forward`); `is_next` then has an
            answer for each, row by row. Other keys are left aside.
        vocab_size: Number of ids the model knows.
        device: Where the model is.

    Returns:
        The arguments of `PretrainingObjective.forward`. What a GPU would have to be asked for, and waited for, is found out
        here, before the copy.

    Raises:
        InputError: A key is missing, shapes disagree, or a value is outside its range.
    """
    if not isinstance(batch, Mapping) or not all(isinstance(batch.get(key), Tensor) for key in KEYS):
        got = f"keys {sorted(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
        raise InputError(f"batch: expected a dict with the tensors {', '.join(KEYS)}, got {got} [E-BATCH-KEYS]")
    values = {key: batch[key] for key in (*_TOKEN_KEYS, "is_next") if isinstance(batch.get(key), Tensor)}
    _check_shapes(values)
    _check_ranges(values, vocab_size)
    used_columns = (values["bert_input"] != 0).any(0).nonzero()
    n_columns = int(used_columns.max()) + 1 if used_columns.numel() else 1
    cut = {key: (value[:, :n_columns] if key in _TOKEN_KEYS else value).long() for key, value in values.items()}
    places = places_of(cut["bert_input"], cut["bert_label"], cut.get("example"))
    if device.type == "cuda" and not cut["bert_input"].is_cuda:
        places = tuple(each.pin_memory() for each in places)
    return {
        **{key: value.to(device, non_blocking=True) for key, value in cut.items()},
        "places": tuple(each.to(device, non_blocking=True) for each in places),
        "has_padding": bool((cut["bert_input"] == 0).any()),
    }


def split(batch: Mapping[str, Tensor], n_parts: int) -> list[Mapping[str, Tensor]]:
    """A batch as several, of neighbouring rows; as it is where one part is asked for or it is none to be split."""
    n_rows = len(batch["bert_input"]) if n_parts > 1 else 0
    if n_rows < 2:
        return [batch]
    size = math.ceil(n_rows / n_parts)
    counts = None
    if "example" in batch:
        counts = (starts_of(batch["example"]) & (batch["bert_input"] != 0)).sum(1).split(size)
    parts = []
    for number, start in enumerate(range(0, n_rows, size)):
        part = {}
        for name, value in batch.items():
            if name == "is_next" and counts is not None:
                first = sum(int(count.sum()) for count in counts[:number])
                part[name] = value[first : first + int(counts[number].sum())]
            else:
                part[name] = value[start : start + size]
        parts.append(part)
    return parts


def _check_shapes(values: Mapping[str, Tensor]) -> None:
    inputs_BL = values["bert_input"]
    shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in values.items())
    if inputs_BL.dim() != 2 or any(values[key].shape != inputs_BL.shape for key in _TOKEN_KEYS if key in values):
        raise InputError(f"batch: expected tensors [B, L] and is_next [B], got {shapes} [E-BATCH-SHAPE]")
    if not inputs_BL.numel():
        raise InputError(f"batch: bert_input is {list(inputs_BL.shape)}, expected at least one row and column [E-BATCH-SHAPE]")
    n_examples = inputs_BL.size(0)
    if "example" in values:
        example_BL = values["example"]
        if not torch.equal(example_BL != 0, inputs_BL != 0):
            raise InputError("batch: example is not 0 exactly where bert_input is 0, on padding [E-BATCH-RANGE]")
        n_examples = int((starts_of(example_BL) & (inputs_BL != 0)).sum())
    if "is_next" in values and values["is_next"].shape != (n_examples,):
        raise InputError(f"batch: expected is_next [{n_examples}], an answer an example, got {shapes} [E-BATCH-SHAPE]")


def _check_ranges(values: Mapping[str, Tensor], vocab_size: int) -> None:
    limits = {"bert_input": vocab_size, "bert_label": vocab_size, "segment_label": N_SEGMENTS, "is_next": 2}
    for key, value in values.items():
        if value.is_floating_point() or value.is_complex():
            raise InputError(f"batch: {key} is {value.dtype}, expected whole numbers, int64 [E-BATCH-DTYPE]")
        low, high = (int(end) for end in value.long().aminmax())
        limit = limits.get(key, high + 1)
        if low < 0 or high >= limit:
            raise InputError(
                f"batch: {key} holds {low if low < 0 else high}, expected 0 to {limit - 1}; "
                "build model and data with one vocabulary [E-BATCH-RANGE]"
            )
    if bool(((values["bert_label"] != 0) & (values["bert_input"] == 0)).any()):
        raise InputError("batch: bert_label has a target where bert_input is 0, padding; labels there are 0 [E-BATCH-RANGE]")
