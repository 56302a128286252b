"""What the trainer asks of a batch, whoever made it, and what it leaves out of it.

Shapes: B sequences, L tokens per sequence.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..errors import InputError
from ..model.embedding import N_SEGMENTS

KEYS = ("bert_input", "bert_label", "segment_label", "is_next")


def prepare_batch(batch: object, vocab_size: int, device: torch.device) -> dict[str, Tensor]:
    """Check a batch, cut columns that are padding in every row, and copy it to the device.

    Args:
        batch: `bert_input`, `bert_label`, `segment_label` `[B, L]` and `is_next` `[B]`, int64. Other keys are left aside.
        vocab_size: Number of ids the model knows.
        device: Where the model is.

    Raises:
        InputError: A key is missing, shapes disagree, or a value is outside its range.
    """
    if not isinstance(batch, Mapping) or not all(isinstance(batch.get(key), Tensor) for key in KEYS):
        got = f"keys {sorted(map(str, batch))}" if isinstance(batch, Mapping) else type(batch).__name__
        raise InputError(f"batch: expected a dict with the tensors {', '.join(KEYS)}, got {got} [E-BATCH-KEYS]")
    inputs_BL, is_next_B = batch["bert_input"], batch["is_next"]
    expected = {"bert_label": inputs_BL.shape, "segment_label": inputs_BL.shape, "is_next": inputs_BL.shape[:1]}
    for key, shape in expected.items():
        if inputs_BL.dim() != 2 or batch[key].shape != shape:
            shapes = ", ".join(f"{name} {list(batch[name].shape)}" for name in KEYS)
            raise InputError(f"batch: expected three tensors [B, L] and is_next [B], got {shapes} [E-BATCH-SHAPE]")
    if not inputs_BL.numel():
        raise InputError(f"batch: bert_input is {list(inputs_BL.shape)}, expected at least one row and column [E-BATCH-SHAPE]")
    limits = {"bert_input": vocab_size, "bert_label": vocab_size, "segment_label": N_SEGMENTS, "is_next": 2}
    for key, limit in limits.items():
        if batch[key].is_floating_point() or batch[key].is_complex():
            raise InputError(f"batch: {key} is {batch[key].dtype}, expected whole numbers, int64 [E-BATCH-DTYPE]")
        low, high = (int(end) for end in batch[key].long().aminmax())
        if low < 0 or high >= limit:
            raise InputError(
                f"batch: {key} holds {low if low < 0 else high}, expected 0 to {limit - 1}; "
                "build model and data with one vocabulary [E-BATCH-RANGE]"
            )
    if bool(((batch["bert_label"] != 0) & (inputs_BL == 0)).any()):
        raise InputError("batch: bert_label has a target where bert_input is 0, padding; labels there are 0 [E-BATCH-RANGE]")
    used_columns = (inputs_BL != 0).any(0).nonzero()
    n_columns = int(used_columns.max()) + 1 if used_columns.numel() else 1
    cut = {key: batch[key][:, :n_columns] for key in KEYS[:3]} | {"is_next": is_next_B}
    return {key: value.to(device, torch.int64, non_blocking=True) for key, value in cut.items()}
