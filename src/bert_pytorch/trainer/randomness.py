"""The state of every generator that a training step or a loader may draw from."""

from __future__ import annotations

import random
from typing import Any

import torch


def random_state() -> dict[str, Any]:
    """Python's state, torch's, and each GPU's, as plain values and tensors."""
    version, internal, gauss = random.getstate()
    return {
        "python": [version, list(internal), gauss],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned."""
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
