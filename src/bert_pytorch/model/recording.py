"""Whether operations are being recorded for another program to run, which knows torch's own alone."""

from __future__ import annotations

import torch


def is_recorded() -> bool:
    """Whether a compiler or an exporter takes them down, to which ways back of our own and complex numbers mean nothing."""
    return torch.compiler.is_compiling() or torch.jit.is_tracing()
