"""What a launcher such as torchrun told this process, without torch."""

from __future__ import annotations

import os


def n_processes() -> int:
    """Processes that were started to train together."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def rank() -> int:
    """Number of this process among them; 0 writes and speaks."""
    return int(os.environ.get("RANK") or 0) if n_processes() > 1 else 0


def n_restarts() -> int:
    """How often torchrun has begun anew after a failure."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT") or 0) if n_processes() > 1 else 0
