"""Pickles read by an allow-list: classes that are known become empty shells, anything else is refused, nothing is executed."""

from __future__ import annotations

import pickle
import pickletools
from collections.abc import Callable
from io import BytesIO

StandIn = Callable[[str, str], Callable[..., object] | None]
_PUT, _GET = ("PUT", "BINPUT", "LONG_BINPUT"), ("GET", "BINGET", "LONG_BINGET")
_TUPLE = ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3")
_NO_MAKERS = ("POP", "POP_MARK", "MARK", "BUILD", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS", *_PUT, *_GET)
_BEGINS_ANEW = ("SETITEM", "SETITEMS", "APPEND", "APPENDS", "ADDITEMS", "BUILD", "BINPERSID")
_MOST_DOUBLINGS = 20
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
    _check(content)
    return _Unpickler(content, stand_in, persistent).load()


def _check(content: bytes) -> None:
    """Refuse a pickle that takes more memory or time than its length: one that numbers objects beyond it, or doubles tuples.

    Each of `t = (t, t)` is a few bytes, and comparing or hashing the last takes twice as long as the one before.
    """
    levels: dict[object, int] = {}
    highest = last = 0
    before = ""
    for operation, argument, _ in pickletools.genops(content):
        name = operation.name
        if name == "DUP":
            raise pickle.UnpicklingError("it doubles an object, as no program does that writes pickles")
        if name in _TUPLE:
            last = highest + 1
            if last > _MOST_DOUBLINGS:
                raise pickle.UnpicklingError("its tuples hold each other too many times over")
        elif name in _BEGINS_ANEW:
            highest = 0
        elif name in _GET:
            highest = max(highest, levels.get(argument, 0))
        elif name == "MEMOIZE" or name in _PUT:
            if before in _NO_MAKERS or (isinstance(argument, int) and argument > len(content)):
                raise pickle.UnpicklingError("it numbers objects as no program does that writes pickles")
            key = len(levels) if name == "MEMOIZE" else argument
            levels[key] = last if before in (*_TUPLE, "REDUCE") else 0
        before = name
