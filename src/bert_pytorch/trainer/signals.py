"""Signals that end a run: the step is finished and saved first, and a second signal ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from ..errors import UserError

Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None
NUMBERS = (signal.SIGTERM, signal.SIGINT)


class InterruptedRunError(UserError):
    """A signal ended a run between two steps; its exit status is 128 and the signal's number, as shells have it."""

    def __init__(self, number: int, message: str) -> None:
        """Keep the signal's number."""
        super().__init__(message)
        self.exit_code = 128 + number


class Signals:
    """Notes SIGTERM and SIGINT while it is open, instead of what they would do.

    Attributes:
        received: Number of the first one; None: none came.
    """

    def __init__(self) -> None:
        """Note nothing yet."""
        self.received: int | None = None
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> Signals:
        """Begin; only a main thread may, and in others nothing changes."""
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in NUMBERS}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Give back what stood there."""
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            # None stands for a handler that was not set from Python, which cannot be given back.
            if handler is not None:
                signal.signal(number, handler)
