"""Evaluation and prediction of the native engine: without dropout, gradients, or an effect on training.

Shapes: B sequences, L tokens per sequence, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .examples import Example
from .labels import LabelMap
from .losses import count_targets
from .metrics import Figures
from .native_batches import NativeBatches
from .native_model import Head, inputs_of
from .scoring import measure, own_figures, predict
from .user_code import load_function

if TYPE_CHECKING:
    from .native import Run


class HeldOut(NamedTuple):
    """Data to evaluate on."""

    batches: NativeBatches
    examples: Sequence[Example]
    labels: LabelMap | None


@torch.no_grad()
def outputs_of(model: Head, batches: NativeBatches, device: torch.device) -> list[Tensor]:
    """The logits of each window, in the order of the features: `[C]`, or `[L, C]` of its own length."""
    found: dict[int, Tensor] = {}
    was_training = model.training
    model.eval()
    try:
        for rows, batch in batches.evaluation():
            logits = model(*inputs_of({name: value.to(device) for name, value in batch.items()})).float().cpu()
            found.update(zip(rows, logits, strict=True))
    finally:
        model.train(was_training)
    return [found[i] for i in range(len(found))]


@torch.no_grad()
def evaluate(run: Run, held_out: HeldOut) -> Figures:
    """The figures of the task on held-out data, and the loss."""
    settings, found = run.settings, {}
    total = n_targets = 0.0
    run.model.eval()
    try:
        for rows, batch in held_out.batches.evaluation():
            moved = {name: value.to(run.device) for name, value in batch.items()}
            with run.update.autocast():
                logits = run.model(*inputs_of(moved))
            n_here = count_targets(moved)
            total += float(run.loss_of(logits, moved)) * n_here if n_here else 0.0
            n_targets += n_here
            found.update(zip(rows, logits.float().cpu(), strict=True))
    finally:
        run.model.train()
    outputs = [found[i] for i in range(len(found))]
    predictions = predict(outputs, held_out.batches.features, held_out.examples, settings, held_out.labels)
    path = settings.compute_metrics
    own = own_figures(None if path is None else load_function(path, "compute_metrics"), predictions, held_out.examples)
    figures = measure(predictions, held_out.examples, settings, held_out.labels)
    return {"loss": total / max(1.0, n_targets), **figures, **own}
