"""Which lines of a file were there before, exactly and in bounded memory."""

from __future__ import annotations

import hashlib
import struct
import tempfile
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import BinaryIO

from ..errors import SaveError

MOST_KEYS = 1 << 18
"""Keys in memory at a time: about 30 MB."""
_N_PARTS = 32
_RECORD = struct.Struct("<16sQ")
_BLOCK_BYTES = _RECORD.size * 4096


def key_of(text: str) -> bytes:
    """Sixteen bytes that no two different texts share (128 bits: among a billion texts the chance is below 1e-20)."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Sightings:
    """Keys that were seen, and a call for each further sight of one.

    The first `most_keys` different keys stay in memory. Lines with other keys are written to unlinked temporary files, parted
    by a byte of the key, and each part is gone through in the same way at the end: memory is bounded for any number of lines.
    """

    def __init__(
        self,
        on_repeat: Callable[[int], None],
        on_found: Callable[[int], None],
        most_keys: int = MOST_KEYS,
        depth: int = 0,
    ) -> None:
        """Begin with none.

        Args:
            on_repeat: Called with the number of each line added whose key was added before.
            on_found: Called with the number of each line sought whose key was added.
            most_keys: Keys in memory at a time.
            depth: Which byte of a key decides its part; more than 0 within a part.
        """
        self._on_repeat, self._on_found = on_repeat, on_found
        self._most_keys, self._depth = most_keys, depth
        self._keys: set[bytes] = set()
        self._added: list[BinaryIO] = []
        self._sought: list[BinaryIO] = []

    def add(self, key: bytes, number: int) -> None:
        """See a line."""
        if key in self._keys:
            self._on_repeat(number)
        elif len(self._keys) < self._most_keys:
            self._keys.add(key)
        else:
            self._spill(self._added, key, number)

    def find(self, key: bytes, number: int) -> None:
        """Ask for a line; only after all that are to be seen have been added."""
        if key in self._keys:
            self._on_found(number)
        elif self._added:
            self._spill(self._sought, key, number)

    def resolve(self) -> None:
        """Make the calls for lines that did not fit into memory, and forget all."""
        self._keys.clear()
        for added, sought in zip_longest(self._added, self._sought):
            part = Sightings(self._on_repeat, self._on_found, self._most_keys, self._depth + 1)
            for key, number in _drain(added):
                part.add(key, number)
            if sought is not None:
                for key, number in _drain(sought):
                    part.find(key, number)
            part.resolve()
        self._added, self._sought = [], []

    def _spill(self, files: list[BinaryIO], key: bytes, number: int) -> None:
        try:
            while len(files) < _N_PARTS:
                files.append(tempfile.TemporaryFile())
            files[key[self._depth] % _N_PARTS].write(_RECORD.pack(key, number))
        except OSError as error:
            raise _no_space(error) from error


class LineMarks:
    """Numbers of lines, one bit for each line of the file."""

    def __init__(self) -> None:
        """Begin with none."""
        self._bits = bytearray()
        self.n_marked = 0

    def add(self, number: int) -> None:
        """Mark a line."""
        place, bit = number >> 3, 1 << (number & 7)
        if place >= len(self._bits):
            self._bits.extend(bytes(place + 1 - len(self._bits)))
        self.n_marked += not self._bits[place] & bit
        self._bits[place] |= bit

    def __contains__(self, number: int) -> bool:
        """Whether a line is marked."""
        place = number >> 3
        return place < len(self._bits) and bool(self._bits[place] & 1 << (number & 7))


def _drain(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The records of a file in the order in which they were written; closes it."""
    with file:
        try:
            file.seek(0)
        except OSError as error:
            raise _no_space(error) from error
        while block := file.read(_BLOCK_BYTES):
            yield from _RECORD.iter_unpack(block)


def _no_space(error: OSError) -> SaveError:
    reason = error.strerror or str(error)
    return SaveError(f"temporary folder: cannot be written: {reason}; free space, or name another in TMPDIR [E-SAVE]")
