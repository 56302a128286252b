"""A corpus file: one pair of texts a line, parted by one tab, or one text a line; checked before anything is trained on it."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from ..errors import InputError, UnreadableError
from .lines import codec_and_start, read_lines, wrong_byte

OBJECTIVES = ("mlm", "mlm+nsp", "mlm+sop")
"""What is learnt: masked words, for which single texts are enough, and of pairs also the next sentence or their order."""
_N_SHOWN = 5


class PairCorpus:
    """The pairs of a corpus file, by index, from memory or from the file; of single texts the second is empty."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoding: str = "utf-8",
        corpus_lines: int | None = None,
        on_memory: bool = True,
        skip_bad_lines: bool = False,
        n_columns: int = 2,
    ) -> None:
        """Read and check the whole file.

        Args:
            path: The file. Line ends may be LF or CR LF, the last may be missing, a byte-order mark is skipped.
            encoding: Name of a Python codec.
            corpus_lines: Use the first this many lines of the file; None: all.
            on_memory: Keep the texts in memory. Otherwise only where each line starts is kept (8 bytes a line), and each access
                opens the file anew: no position is shared between workers.
            skip_bad_lines: Leave bad lines out and count them in `n_skipped`, instead of refusing the file.
            n_columns: Texts a line, 1 or 2.

        Raises:
            InputError: The file cannot be read, holds a bad line or no pair, or fewer lines than `corpus_lines`.
        """
        if corpus_lines is not None and corpus_lines < 1:
            raise InputError(f"{path}: corpus_lines is {corpus_lines}, expected at least 1 or None [E-CORPUS-LINES]")
        self.path = os.fspath(path)
        self.n_columns = n_columns
        self.codec, _ = codec_and_start(self.path, encoding)
        self.lines: list[list[str]] | None = [] if on_memory else None
        self._offsets, self._sizes = array("Q"), array("Q")
        self._stamp = _stamp(os.stat(self.path))
        faults = Faults(self.path)
        n_lines = 0
        for line in read_lines(self.path, encoding, corpus_lines):
            n_lines = line.number
            try:
                first, second = split_line(line.content, self.codec, n_columns)
            except InputError as fault:
                faults.add(line.number, fault)
                continue
            if self.lines is not None:
                self.lines.append([first, second])
            else:
                self._offsets.append(line.offset)
                self._sizes.append(len(line.content))
        faults.check(n_lines, corpus_lines, skip_bad_lines)
        self.n_skipped = faults.n_bad

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self._offsets) if self.lines is None else len(self.lines)

    def __getitem__(self, index: int) -> tuple[str, str]:
        """Return the two texts of a pair as they stand in the file."""
        if self.lines is not None:
            first, second = self.lines[index]
            return first, second
        with self._reopen() as file:
            file.seek(self._offsets[index])
            return split_line(file.read(self._sizes[index]), self.codec, self.n_columns)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Go through the pairs in order."""
        if self.lines is not None:
            yield from ((first, second) for first, second in self.lines)
            return
        with self._reopen() as file:
            for offset, size in zip(self._offsets, self._sizes, strict=True):
                file.seek(offset)
                yield split_line(file.read(size), self.codec, self.n_columns)

    def _reopen(self) -> BinaryIO:
        """Open the file again, after a look whether it is still the one that was checked."""
        try:
            file = open(self.path, "rb")
        except OSError as error:
            raise UnreadableError.of(self.path, error, "put it back and start again [E-CORPUS-CHANGED]") from error
        if _stamp(os.fstat(file.fileno())) != self._stamp:
            file.close()
            raise InputError(f"{self.path}: has changed since it was opened; start again [E-CORPUS-CHANGED]")
        return file


class Faults:
    """The bad lines of a corpus: how many, and the first of them."""

    def __init__(self, path: str) -> None:
        """Begin with none, of the file at `path`."""
        self.path = path
        self.n_bad = 0
        self._first: list[tuple[int, InputError]] = []

    def add(self, number: int, fault: InputError) -> None:
        """Count the line with this number, from 1."""
        self.n_bad += 1
        if len(self._first) < _N_SHOWN:
            self._first.append((number, fault))

    def check(self, n_lines: int, corpus_lines: int | None, skip_bad_lines: bool) -> None:
        """Refuse a file that has bad lines, no good one, or too few.

        Args:
            n_lines: Lines that were read.
            corpus_lines: Lines that were asked for; None: all.
            skip_bad_lines: Bad lines are no reason.

        Raises:
            InputError: The file is refused; the message names the first bad line and where the next ones are.
        """
        if self._first and not skip_bad_lines:
            raise InputError(f"{self.path}:{self._message(self.n_bad)}")
        if n_lines == self.n_bad:
            found = f"{n_lines} lines, all bad, the first: {self.path}:{self._message(1)}" if self._first else "an empty file"
            raise InputError(f"{self.path}: no pair of texts, got {found}; one pair a line is needed [E-CORPUS-NO-PAIRS]")
        if corpus_lines is not None and n_lines < corpus_lines:
            raise InputError(
                f"{self.path}: corpus_lines is {corpus_lines}, but the file has {n_lines} lines; "
                "leave corpus_lines out to use them all [E-CORPUS-LINES]"
            )

    def _message(self, n_bad: int) -> str:
        """Number and message of the first fault, with number and code of the next ones."""
        number, first = self._first[0]
        if n_bad == 1:
            return f"{number}: {first}"
        message, _, code = str(first).rpartition(" [")
        others = ", ".join(f"{number} {fault.code}" for number, fault in self._first[1:])
        more = "" if n_bad <= len(self._first) else " ..."
        return f"{number}: {message} ({n_bad} bad lines in all, next: {others}{more}) [{code}"


def split_line(content: bytes, codec: str, n_columns: int = 2) -> tuple[str, str]:
    """Decode one line and part it at its tab.

    Args:
        content: The line without its line feed.
        codec: Name of the codec.
        n_columns: Texts a line; with 1 there is no tab, and the second text returned is empty.

    Raises:
        InputError: The line is not so; the message has no file and line number yet.
    """
    remedy = "fix the line or pass --skip_bad_lines"
    try:
        text = content.decode(codec).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{wrong_byte(content, error, codec)}, or {remedy} [E-CORPUS-ENCODING]") from error
    expected = "expected two texts separated by one tab" if n_columns == 2 else "expected one text without a tab"
    fields = text.split("\t")
    if not text.strip():
        raise InputError(f"{expected}, got a blank line; {remedy} [E-CORPUS-BLANK]")
    if len(fields) < n_columns and "\\t" in text:
        problem = "the line has a backslash and a t where a tab belongs"
        raise InputError(f"{problem}; replace the two characters by one tab or pass --skip_bad_lines [E-CORPUS-BACKSLASH-T]")
    if len(fields) != n_columns:
        got = f"got {len(fields)} field{'s' if len(fields) > 1 else ''}"
        single = "; for single texts pass --objective mlm" if len(fields) == 1 else ""
        raise InputError(f"{expected}, {got}{single}; {remedy} [E-CORPUS-TAB]")
    for field, name in zip(fields, ("first", "second"), strict=False):
        if not field.split():
            raise InputError(f"{expected}, the {name} is empty; {remedy} [E-CORPUS-EMPTY-TEXT]")
    return fields[0], fields[1] if n_columns == 2 else ""


def count_columns(path: str, encoding: str) -> int:
    """Texts a line, 1 or 2, as the first line that is not blank has them."""
    codec, _ = codec_and_start(path, encoding)
    for line in read_lines(path, encoding):
        if line.content.strip():
            return 2 if "\t".encode(codec) in line.content else 1
    return 2


def line_numbers(path: str, encoding: str, n_columns: int, items: Sequence[int]) -> list[int]:
    """The numbers, from 1, of the lines that hold these examples of a file whose bad lines are left out."""
    wanted, found, n_good = set(items), {}, 0
    codec, _ = codec_and_start(path, encoding)
    for line in read_lines(path, encoding, is_shown=False):
        try:
            split_line(line.content, codec, n_columns)
        except InputError:
            continue
        if n_good in wanted:
            found[n_good] = line.number
        n_good += 1
        if len(found) == len(wanted):
            break
    return [found[item] for item in items if item in found]


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
