"""How the process keeps memory from batch to batch and step to step."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Numbers of two settings in glibc's `malloc.h`."""
_LARGEST = 2**31 - 1


@cache
def keep_freed_memory() -> bool:
    """Make the C library keep memory that is freed, for the next step, where it is glibc; returns whether it does.

    Otherwise every batch and every step gives what it used back to the system, page by page, and asks for it again: 20,000 to
    30,000 page faults a step at hidden 256 and 8 layers, and 4 % of its time; alone, a product of 500 x 256 and 256 x 20,000
    takes twice as long.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, _LARGEST) for name in (_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD))


def peak_memory_bytes(device: torch.device) -> int | None:
    """Most memory held so far: of the GPU where one trains, else of this process; None where the system does not tell."""
    import torch

    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return None
    status = Path("/proc/self/status")
    if status.is_file():
        # What getrusage tells begins, on Linux, with the memory of whoever started this process.
        words = status.read_text(encoding="ascii").partition("VmHWM:")[2].split()
        if words:
            return int(words[0]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def free_bytes(device: torch.device, limit_gib: float | None = None) -> int | None:
    """Memory that a new process may take on this device, or is to; None where the system does not tell."""
    if limit_gib is not None:
        return int(limit_gib * (1 << 30))
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[0]
    free = []
    for path, name, unit in (("/proc/meminfo", "MemAvailable:", 1024), ("/sys/fs/cgroup/memory.max", "", 1)):
        text = Path(path).read_text(encoding="ascii") if Path(path).is_file() else ""
        words = (text.partition(name)[2] if name else text).split()[:1]
        free += [int(word) * unit for word in words if word.isdecimal()]
    return min(free) if free else None
