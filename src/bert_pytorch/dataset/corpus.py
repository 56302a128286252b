"""A corpus file: one pair of texts a line, parted by one tab, checked whole before anything is trained on it."""

from __future__ import annotations

import codecs
import os
from array import array
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ..errors import InputError, UnreadableError

_WIDE_BOMS = {
    "utf-16": {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"},
    "utf-32": {codecs.BOM_UTF32_LE: "utf-32-le", codecs.BOM_UTF32_BE: "utf-32-be"},
}
_CHUNK_BYTES = 1 << 20


class Line(NamedTuple):
    """One line of a file as bytes, without its line end."""

    number: int
    """Counted from 1."""
    offset: int
    """Where the line starts, in bytes from the start of the file."""
    content: bytes


class PairCorpus:
    """The pairs of a corpus file, by index, from memory or from the file."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        encoding: str = "utf-8",
        corpus_lines: int | None = None,
        on_memory: bool = True,
        skip_bad_lines: bool = False,
    ) -> None:
        """Read and check the whole file.

        Args:
            path: The file. Line ends may be LF or CR LF, the last may be missing, a byte-order mark is skipped.
            encoding: Name of a Python codec.
            corpus_lines: Use the first this many lines of the file; None: all.
            on_memory: Keep the texts in memory. Otherwise only where each line starts is kept (8 bytes a line), and each access
                opens the file anew: no position is shared between workers.
            skip_bad_lines: Leave bad lines out and count them in `n_skipped`, instead of refusing the file.

        Raises:
            InputError: The file cannot be read, holds a bad line or no pair, or fewer lines than `corpus_lines`.
        """
        if corpus_lines is not None and corpus_lines < 1:
            raise InputError(f"{path}: corpus_lines is {corpus_lines}, expected at least 1 or None [E-CORPUS-LINES]")
        self.path = os.fspath(path)
        self.codec, _ = _codec_and_start(self.path, encoding)
        self.n_skipped = 0
        self.lines: list[list[str]] | None = [] if on_memory else None
        self._offsets, self._sizes = array("Q"), array("Q")
        self._stamp = _stamp(os.stat(self.path))
        faults: list[str] = []
        n_lines = 0
        for line in read_lines(self.path, encoding, corpus_lines):
            n_lines = line.number
            try:
                first, second = split_pair(line.content, self.codec)
            except InputError as fault:
                self.n_skipped += 1
                if len(faults) < 5:
                    faults.append(f"{self.path}:{line.number}: {fault}")
                continue
            if self.lines is not None:
                self.lines.append([first, second])
            else:
                self._offsets.append(line.offset)
                self._sizes.append(len(line.content))
        if faults and not skip_bad_lines:
            raise InputError(_with_others(faults, self.n_skipped))
        if not len(self):
            found = f"{n_lines} lines, all bad, the first: {faults[0]}" if faults else "an empty file"
            raise InputError(f"{self.path}: no pair of texts, got {found}; one pair a line is needed [E-CORPUS-NO-PAIRS]")
        if corpus_lines is not None and n_lines < corpus_lines:
            raise InputError(
                f"{self.path}: corpus_lines is {corpus_lines}, but the file has {n_lines} lines; "
                "leave corpus_lines out to use them all [E-CORPUS-LINES]"
            )

    def __len__(self) -> int:
        """Count the pairs."""
        return len(self._offsets) if self.lines is None else len(self.lines)

    def __getitem__(self, index: int) -> tuple[str, str]:
        """Return the two texts of a pair as they stand in the file."""
        if self.lines is not None:
            first, second = self.lines[index]
            return first, second
        with open(self.path, "rb") as file:
            if _stamp(os.fstat(file.fileno())) != self._stamp:
                raise InputError(f"{self.path}: has changed since it was opened; start again [E-CORPUS-CHANGED]")
            file.seek(self._offsets[index])
            return split_pair(file.read(self._sizes[index]), self.codec)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Go through the pairs in order."""
        if self.lines is not None:
            yield from ((first, second) for first, second in self.lines)
            return
        with open(self.path, "rb") as file:
            for offset, size in zip(self._offsets, self._sizes, strict=True):
                file.seek(offset)
                yield split_pair(file.read(size), self.codec)


def split_pair(content: bytes, codec: str) -> tuple[str, str]:
    """Decode one line and part it at its tab.

    Raises:
        InputError: The line is not one pair; the message has no file and line number yet.
    """
    remedy = "fix the line or pass --skip_bad_lines"
    try:
        text = content.decode(codec).rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{_wrong_byte(content, error, codec)}, or {remedy} [E-CORPUS-ENCODING]") from error
    fields = text.split("\t")
    if not text.strip():
        raise InputError(f"expected two texts separated by one tab, got a blank line; {remedy} [E-CORPUS-BLANK]")
    if len(fields) == 1 and "\\t" in text:
        problem = "the line has a backslash and a t where a tab belongs"
        raise InputError(f"{problem}; replace the two characters by one tab or pass --skip_bad_lines [E-CORPUS-BACKSLASH-T]")
    if len(fields) != 2:
        got = f"got {len(fields)} field{'s' if len(fields) > 1 else ''}"
        raise InputError(f"expected two texts separated by one tab, {got}; {remedy} [E-CORPUS-TAB]")
    for field, name in zip(fields, ("first", "second"), strict=True):
        if not field.split():
            raise InputError(f"expected two texts separated by one tab, the {name} is empty; {remedy} [E-CORPUS-EMPTY-TEXT]")
    return fields[0], fields[1]


def read_text(path: str, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of any text file, decoded.

    Raises:
        InputError: The file cannot be opened, or a line is not in this encoding.
    """
    codec, _ = _codec_and_start(path, encoding)
    for line in read_lines(path, encoding):
        try:
            yield line.content.decode(codec)
        except UnicodeDecodeError as error:
            raise InputError(f"{path}:{line.number}: {_wrong_byte(line.content, error, codec)} [E-CORPUS-ENCODING]") from error


def read_lines(path: str, encoding: str = "utf-8", n_lines: int | None = None) -> Iterator[Line]:
    """Read a file line by line in bounded memory, with a progress bar on a terminal.

    Args:
        path: The file; a line ends at a line feed and nothing else.
        encoding: Name of a Python codec; needed to find line feeds and the byte-order mark.
        n_lines: Stop after this many lines; None: at the end of the file.

    Raises:
        InputError: The file cannot be opened, or the codec is unknown.
    """
    from tqdm import tqdm  # Here, so that --help and the install hint work where it is missing.

    codec, start = _codec_and_start(path, encoding)
    newline = "\n".encode(codec)
    with (
        open(path, "rb") as file,
        tqdm(
            total=os.fstat(file.fileno()).st_size,
            unit="B",
            unit_scale=True,
            desc=f"reading {os.path.basename(path)}",
            disable=None,
        ) as bar,
    ):
        file.seek(start)
        offset = start
        for number, content in enumerate(_split(file, newline), start=1):
            yield Line(number, offset, content)
            offset += len(content) + len(newline)
            bar.update(len(content) + len(newline))
            if number == n_lines:
                return


def _split(file: BinaryIO, newline: bytes) -> Iterator[bytes]:
    if len(newline) == 1:
        for content in file:
            yield content.removesuffix(newline)
        return
    # In a wide encoding the bytes of a line feed also occur across two characters: only aligned ones count.
    width, rest = len(newline), b""
    while chunk := file.read(_CHUNK_BYTES):
        rest += chunk
        start, found = 0, rest.find(newline)
        while found >= 0:
            if found % width:
                found = rest.find(newline, found + 1)
                continue
            yield rest[start:found]
            start = found + width
            found = rest.find(newline, start)
        rest = rest[start:]
    if rest:
        yield rest


def _codec_and_start(path: str, encoding: str) -> tuple[str, int]:
    """The codec without byte-order mark that reads the file, and how many bytes the mark takes."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise InputError(f"{path}: unknown encoding {encoding!r}; utf-8 is the usual one [E-ENCODING-NAME]") from None
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    if name in ("utf-8", "utf-8-sig"):
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{path}: starts with the mark of utf-16; pass --encoding utf-16 [E-CORPUS-ENCODING]")
        return "utf-8", len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    for mark, codec in _WIDE_BOMS.get(name, {}).items():
        if head.startswith(mark):
            return codec, len(mark)
    return {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name), 0


def _wrong_byte(content: bytes, error: UnicodeDecodeError, codec: str) -> str:
    where = f"byte 0x{content[error.start]:02x} at byte {error.start + 1} of the line"
    return f"{where} is not {codec}; name the file's encoding with --encoding"


def _stamp(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _with_others(faults: list[str], n_faults: int) -> str:
    """The first fault's message, with the line numbers of the next ones."""
    if n_faults == 1:
        return faults[0]
    message, _, code = faults[0].rpartition(" [")
    others = ", ".join(fault.split(": ", 1)[0].rpartition(":")[2] for fault in faults[1:])
    more = "" if n_faults <= len(faults) else " ..."
    return f"{message} ({n_faults} bad lines in all, next: {others}{more}) [{code}"
