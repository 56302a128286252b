"""How the process keeps memory from batch to batch and step to step."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

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
