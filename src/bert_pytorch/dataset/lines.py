"""The lines of a text file in any encoding, in bounded memory."""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn

from ..errors import InputError, UnreadableError

if TYPE_CHECKING:
    from tqdm import tqdm

# The marks of utf-32 come first: one of them begins with a mark of utf-16.
_BOMS = {
    codecs.BOM_UTF32_LE: ("utf-32", "utf-32-le"),
    codecs.BOM_UTF32_BE: ("utf-32", "utf-32-be"),
    codecs.BOM_UTF16_LE: ("utf-16", "utf-16-le"),
    codecs.BOM_UTF16_BE: ("utf-16", "utf-16-be"),
}
_CHUNK_BYTES = 1 << 20
N_MARK_BYTES = 4
"""The longest byte-order mark."""


class Line(NamedTuple):
    """One line of a file as bytes, without its line end."""

    number: int
    """Counted from 1."""
    offset: int
    """Where the line starts, in bytes from the start of the file."""
    content: bytes


def read_text(path: str, encoding: str = "utf-8") -> Iterator[str]:
    """The lines of any text file, decoded.

    Raises:
        InputError: The file cannot be opened, or a line is not in this encoding.
    """
    codec, _ = codec_and_start(path, encoding)
    for line in read_lines(path, encoding):
        try:
            yield line.content.decode(codec)
        except UnicodeDecodeError as error:
            raise InputError(f"{path}:{line.number}: {wrong_byte(line.content, error, codec)} [E-CORPUS-ENCODING]") from error


def read_lines(path: str, encoding: str = "utf-8", n_lines: int | None = None, is_shown: bool = True) -> Iterator[Line]:
    """Read a file line by line in bounded memory, with a progress bar on a terminal.

    Args:
        path: The file; a line ends at a line feed and nothing else.
        encoding: Name of a Python codec; needed to find line feeds and the byte-order mark.
        n_lines: Stop after this many lines; None: at the end of the file.
        is_shown: Show the progress bar.

    Raises:
        InputError: The file cannot be opened, or the codec is unknown.
    """
    codec, start = codec_and_start(path, encoding)
    newline = "\n".encode(codec)
    with open(path, "rb") as file, progress_bar(path, "reading", is_shown) as bar:
        file.seek(start)
        offset = start
        for number, content in enumerate(split_lines(file, newline), start=1):
            yield Line(number, offset, content)
            offset += len(content) + len(newline)
            bar.update(len(content) + len(newline))
            if number == n_lines:
                return


def progress_bar(path: str, what: str, is_shown: bool = True) -> tqdm[NoReturn]:
    """A progress bar over the bytes of a file, shown on a terminal."""
    from tqdm import tqdm  # Here, so that --help and the install hint work where it is missing.

    name = f"{what} {os.path.basename(path)}"
    return tqdm(total=os.path.getsize(path), unit="B", unit_scale=True, desc=name, disable=None if is_shown else True)


def split_lines(file: BinaryIO, newline: bytes) -> Iterator[bytes]:
    """The lines of an open file from where it stands, without their line ends; `newline` is a line feed in the file's codec."""
    if newline == b"\n":
        for content in file:
            yield content.removesuffix(newline)
        return
    # In a wide encoding the bytes of a line feed also occur across two characters: only aligned ones count. In EBCDIC a line
    # feed is another byte.
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


def byte_ranges(path: str, start: int, n_bytes: int = _CHUNK_BYTES) -> Iterator[tuple[int, int]]:
    """Parts of a file that begin and end at a line, `[first, last)` in bytes, for several processes to work on.

    Args:
        path: The file, in an encoding whose line feed is the byte of ASCII.
        start: Where the first part begins.
        n_bytes: Least size of a part; it ends at the next line feed, only the last may be smaller.
    """
    with open(path, "rb") as file:
        file.seek(start)
        while file.seek(n_bytes, os.SEEK_CUR) and file.readline():
            yield start, file.tell()
            start = file.tell()
        if start < file.seek(0, os.SEEK_END):
            yield start, file.tell()


def codec_and_start(path: str, encoding: str) -> tuple[str, int]:
    """The codec that reads the file after its byte-order mark, and how many bytes the mark takes."""
    check_encoding(path, encoding)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "is no regular file")
        with open(path, "rb") as file:
            head = file.read(N_MARK_BYTES)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    return codec_of_head(path, encoding, head)


def check_encoding(path: str, encoding: str) -> tuple[str, str]:
    """The name of the encoding as Python has it, and the codec for bytes without a byte-order mark.

    Raises:
        InputError: No text encoding has this name.
    """
    try:
        name = codecs.lookup(encoding).name
        codec = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(name, name)
        # Codecs that are no character encodings (rot13, hex) raise here; those that mix characters up (punycode) differ.
        is_plain = b"".join(character.encode(codec) for character in "a\t") == "a\t".encode(codec)
    except (LookupError, UnicodeError):
        name, codec, is_plain = encoding, encoding, False
    if not is_plain:
        raise InputError(f"{path}: unknown encoding {encoding!r}; utf-8 is the usual one [E-ENCODING-NAME]")
    return name, codec


def codec_of_head(path: str, encoding: str, head: bytes) -> tuple[str, int]:
    """The codec for what follows the byte-order mark, and the mark's size in bytes, from the first `N_MARK_BYTES` bytes."""
    name, codec = check_encoding(path, encoding)
    family, marked_codec = next((names for mark, names in _BOMS.items() if head.startswith(mark)), ("", ""))
    if family and codec == "utf-8":
        raise InputError(f"{path}: starts with the mark of {family}; pass --encoding {family} [E-CORPUS-ENCODING]")
    if family == name:
        codec = marked_codec
    mark = _encoded_mark(codec)
    return codec, len(mark) if mark and head.startswith(mark) else 0


def _encoded_mark(codec: str) -> bytes:
    try:
        return "\ufeff".encode(codec)
    except UnicodeEncodeError:
        return b""


def wrong_byte(content: bytes, error: UnicodeDecodeError, codec: str) -> str:
    """Which byte of a line is not of the encoding, and what to do."""
    where = f"byte 0x{content[error.start]:02x} at byte {error.start + 1} of the line"
    return f"{where} is not {codec}; name the file's encoding with --encoding"
