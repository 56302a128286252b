"""Pickles read by an allow-list: classes that are known become empty shells, anything else is refused, nothing is executed."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from io import BytesIO

StandIn = Callable[[str, str], Callable[..., object] | None]
_MEMO = ("PUT", "BINPUT", "LONG_BINPUT")
UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError),
    *(OverflowError, MemoryError, RecursionError),
)
"""What reading damaged or hostile bytes raises."""


class Shell:
    """Stands in for an object of a class that is not here: takes its attributes and runs nothing."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, content: bytes, stand_in: StandIn, persistent: Callable[[object], object] | None) -> None:
        super().__init__(BytesIO(content))
        self._stand_in, self._persistent = stand_in, persistent

    def persistent_load(self, pid: object) -> object:
        if self._persistent is None:
            raise pickle.UnpicklingError("it refers to something outside itself")
        return self._persistent(pid)

    def find_class(self, module: str, name: str) -> Callable[..., object]:
        found = self._stand_in(module, name)
        if found is None:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}")
        return found


def unpickle(content: bytes, stand_in: StandIn, persistent: Callable[[object], object] | None = None) -> object:
    """The object that a pickle describes.

    Args:
        content: The pickle. Lengths and places that it claims are compared with its own length first: memory would be taken
            for them before they turn out wrong.
        stand_in: From module and name of a class or function to what stands for it; None: it is refused.
        persistent: What stands for things outside the pickle, by what it says of them; None: there are none.

    Raises:
        UnpicklingError: It refers to a class that is refused, or is damaged. Damage may raise others of `UNREADABLE`.
    """
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in _MEMO and isinstance(argument, int) and argument > len(content):
            raise pickle.UnpicklingError("it numbers more objects than it can hold")
    return _Unpickler(content, stand_in, persistent).load()
