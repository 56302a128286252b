"""The parts of a corpus - train, valid, test - split by document, and which held-out lines also stand in train."""

from __future__ import annotations

import os
import shutil
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ..dataset.draws import Draws
from ..errors import InputError
from ..files import atomic_write

PARTS = ("train", "valid", "test")
_TEST, _VALID = 2, 3
"""Set the draws of the two splits apart from each other and from those of packing."""


class Split:
    """The part that a document belongs to: a function of the seed and the document's number alone."""

    def __init__(self, valid_share: float = 0.05, test_share: float = 0.0, seed: int = 0) -> None:
        """Set the shares.

        Args:
            valid_share: Share of the documents in the valid part: in each run of `round(1 / share)` documents that follow each
                other one is drawn, in the first run among its first two, so that few documents have a held-out one too.
            test_share: The same for the test part, from which nothing is drawn for the valid part; both together below 0.5.
            seed: Decides which.
        """
        self.seed = seed
        self._every_test = round(1 / test_share) if test_share else 0
        left = 1 - 1 / self._every_test if test_share else 1.0
        self._every_valid = round(left / valid_share) if valid_share else 0

    @property
    def names(self) -> list[str]:
        """The parts that are asked for."""
        return ["train", *["valid"] * bool(self._every_valid), *["test"] * bool(self._every_test)]

    def part_of(self, document: int) -> str:
        """The part of a document, by its number from 0 among the documents that have lines."""
        if self._every_test:
            run, place = divmod(document, self._every_test)
            drawn = self._drawn(_TEST, run, self._every_test)
            if place == drawn:
                return "test"
            document -= run + (place > drawn)
        if self._every_valid:
            run, place = divmod(document, self._every_valid)
            if place == self._drawn(_VALID, run, self._every_valid):
                return "valid"
        return "train"

    def _drawn(self, kind: int, run: int, size: int) -> int:
        return Draws(self.seed, kind, run).integer(min(size, 2) if run == 0 else size)


@dataclass
class Part:
    """What was written to one part.

    Attributes:
        path: Its file.
        lines, documents: How many it has.
        seen: Its lines that also stand in train; they are counted in `lines` unless they were dropped.
    """

    path: str
    lines: int = 0
    documents: int = 0
    seen: int = 0
    hashes: array[int] = field(default_factory=lambda: array("q"), repr=False)


def write_parts(prefix: str, lines: Iterable[tuple[int, str]], split: Split, drop_seen: bool = False) -> dict[str, Part]:
    """Write `PREFIX.train.txt` and what else is asked for; each file gets its name only when all are whole and on disk.

    Memory grows with the held-out lines, some 60 bytes each: the train part is read again to find those that it has too. Lines
    are told apart by 64 bits of hash.

    Args:
        prefix: The beginning of the files' names.
        lines: Document numbers, from 0 without a gap, and lines.
        split: Where a document goes.
        drop_seen: Leave held-out lines that also stand in train out.

    Raises:
        InputError: A part would have no line, or a part that is not asked for stands there from another run.
        SaveError: A file cannot be written.
    """
    parts = {name: Part(f"{prefix}.{name}.txt") for name in split.names}
    for name in PARTS:
        if name not in parts and Path(f"{prefix}.{name}.txt").exists():
            raise InputError(
                f"{prefix}.{name}.txt: stands there from another run, and its lines may be in train now; "
                "remove it or name another --output [E-PAIRS-PARTS]"
            )
    with ExitStack() as stack:
        files = {name: stack.enter_context(atomic_write(part.path)) for name, part in parts.items()}
        _write_lines(lines, split, parts, files)
        _look_for_seen(parts, files, drop_seen)
        _refuse_empty(parts)
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    return parts


def _write_lines(lines: Iterable[tuple[int, str]], split: Split, parts: dict[str, Part], files: dict[str, BinaryIO]) -> None:
    current, name = -1, "train"
    part, write = parts[name], files[name].write
    for document, line in lines:
        if document != current:
            current, name = document, split.part_of(document)
            part, write = parts[name], files[name].write
            part.documents += 1
        content = line.encode("utf-8") + b"\n"
        write(content)
        part.lines += 1
        if name != "train":
            part.hashes.append(hash(content))


def _look_for_seen(parts: dict[str, Part], files: dict[str, BinaryIO], drop_seen: bool) -> None:
    """Count the held-out lines that train has too, and drop them where that is asked for."""
    held_out = [name for name in parts if name != "train"]
    wanted = array("q", sorted(value for name in held_out for value in parts[name].hashes))
    found = bytearray(len(wanted))
    # Most lines of train are told from the held-out ones by one look at this table.
    mask = (1 << max(10, (8 * len(wanted)).bit_length())) - 1
    may_be = bytearray(mask + 1)
    for value in wanted:
        may_be[value & mask] = 1
    if wanted:
        for content in _read_back(files["train"]):
            value = hash(content)
            if may_be[value & mask]:
                place = bisect_left(wanted, value)
                if place < len(wanted) and wanted[place] == value:
                    found[place] = 1
    for name in held_out:
        part = parts[name]
        is_seen = [found[bisect_left(wanted, value)] for value in part.hashes]
        part.seen = sum(is_seen)
        if drop_seen and part.seen:
            _keep(files[name], is_seen)
            part.lines -= part.seen


def _keep(file: BinaryIO, is_dropped: list[int]) -> None:
    with tempfile.TemporaryFile() as kept:
        for content, dropped in zip(_read_back(file), is_dropped, strict=True):
            if not dropped:
                kept.write(content)
        kept.seek(0)
        file.seek(0)
        file.truncate()
        shutil.copyfileobj(kept, file)


def _read_back(file: BinaryIO) -> Iterator[bytes]:
    file.flush()
    file.seek(0)
    yield from file


def _refuse_empty(parts: dict[str, Part]) -> None:
    n_documents = sum(part.documents for part in parts.values())
    for name, part in parts.items():
        if part.lines:
            continue
        dropped = f" after {part.seen} that train has too were dropped" if part.seen else ""
        raise InputError(
            f"{part.path}: no line is left for this part{dropped}, got {n_documents} documents in all; see that documents are "
            f"parted, or pass a smaller --{'test' if name == 'test' else 'valid'}_share [E-PAIRS-PARTS]"
        )
