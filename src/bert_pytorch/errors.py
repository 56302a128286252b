"""The errors a user can cause or meet: one line each, with a stable code in brackets.

The form is ``where: what is wrong, expected X, got Y; what to do [E-CODE]``. Every code is a heading in a troubleshooting
reference of the bundle.
"""

from __future__ import annotations

import re


class UserError(Exception):
    """A fault outside the library: in the input, the machine or the settings. Commands print it without a traceback."""

    exit_code = 1

    def __init__(self, message: str) -> None:
        """Keep the message on one line, whatever names of files stand in it."""
        if message.startswith("Caught ") and "\n" in message:
            # A data worker's error arrives with the worker's whole traceback; its last line is "Type: message".
            message = message.rstrip().rpartition("\n")[2].partition(": ")[2]
        super().__init__(message.replace("\n", "\\n").replace("\r", "\\r"))

    @property
    def code(self) -> str | None:
        """The stable code at the end of the message, such as ``E-CORPUS-TAB``."""
        found = re.search(r"\[(E-[A-Z0-9-]+)\]$", str(self))
        return found.group(1) if found else None


class InputError(UserError, ValueError):
    """A file, argument or setting that cannot be used as it is."""


class UnreadableError(InputError, OSError):
    """A file that cannot be opened; also an `OSError`, as `open` itself would raise."""

    @classmethod
    def of(cls, path: object, error: OSError, remedy: str) -> UnreadableError:
        """The error for what `open` raised: a missing file gives a `FileNotFoundError` too. `remedy` ends with the code."""
        kind = MissingFileError if isinstance(error, FileNotFoundError) else cls
        return kind(f"{path}: cannot be read: {error.strerror or error}; {remedy}")


class MissingFileError(UnreadableError, FileNotFoundError):
    """A file that does not exist."""


class UsageError(InputError):
    """Flags that contradict each other, or one that would have no effect."""

    exit_code = 2


class SaveError(UserError, OSError):
    """A file could not be written; what stood there before is whole."""


class TrainingError(UserError, RuntimeError):
    """Training cannot go on, for instance because the loss is not a finite number."""


class UnavailableError(UserError, RuntimeError):
    """A package or a device that was asked for is not there; the message says how to get it."""

    exit_code = 3


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory, of the machine or of a GPU, was short; torch says so in words only."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words
