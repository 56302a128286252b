"""Lines of text from files, compressed files and standard input: in one pass, in any encoding, in bounded memory."""

from __future__ import annotations

import errno
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import BinaryIO

from ..dataset.lines import N_MARK_BYTES, codec_of_head, split_lines, wrong_byte
from ..errors import InputError, UnreadableError
from ..extras import import_extra

STDIN = "-"
COMPRESSIONS = ("gz", "zst")
_CHUNK_BYTES = 1 << 16
_ZST_CHUNK_BYTES = 1 << 13
"""A block of 4 bytes can hold 128 KiB: smaller chunks bound what one of them becomes."""


@dataclass
class Tally:
    """What was met on the way from sources to pairs."""

    lines: int = 0
    skipped_lines: int = 0
    """Bad lines or records that were left out, as asked for."""
    documents: int = 0
    sentences: int = 0
    empty_sentences: int = 0
    """Left out: they hold no word."""
    dropped_documents: int = 0
    """They have too few sentences for a pair."""
    cut_sentences: int = 0
    """Longer than half the target length, and cut into pieces that follow each other."""
    dropped_letters: int = 0
    """Of sequences: letters that no k-mer holds."""
    lines_without_session: int = 0
    lines_in_several_sessions: int = 0
    closed_early: int = 0
    """Sessions or groups that were closed before the end of the input, to bound the memory."""


class Source:
    """One file, or standard input, that is read once."""

    def __init__(self, path: str, encoding: str, compression: str | None, skip_bad_lines: bool, tally: Tally) -> None:
        """Say what to read and how.

        Args:
            path: The file; `-` is standard input. Pipes are read too.
            encoding: Name of a Python codec.
            compression: `gz` or `zst`; None: by the end of the file's name.
            skip_bad_lines: Count bad lines instead of refusing the file.
            tally: Where lines are counted.
        """
        self.path = path
        self.name = "stdin" if path == STDIN else path
        self.encoding = encoding
        self.compression = compression or next((kind for kind in COMPRESSIONS if path.endswith(f".{kind}")), None)
        self.skip_bad_lines = skip_bad_lines
        self.tally = tally
        self.number = 0
        """The line that was read last, counted from 1."""

    def refuse(self, problem: str) -> None:
        """Count the line that was read last as left out, where that was asked for.

        Args:
            problem: What is wrong, what to do, and the code.

        Raises:
            InputError: Bad lines are not to be left out.
        """
        if not self.skip_bad_lines:
            raise InputError(f"{self.name}:{self.number}: {problem}")
        self.tally.skipped_lines += 1

    def lines(self) -> Iterator[str | None]:
        """The lines without their line ends; None stands for a line that is left out.

        Raises:
            InputError: The file cannot be read, is damaged, or a line is not in the encoding.
            UnavailableError: The package that decompresses it is not installed.
        """
        with ExitStack() as stack:
            try:
                yield from self._decoded(stack)
            except (OSError, EOFError, zlib.error) as error:
                if isinstance(error, InputError):
                    raise
                fault = error if isinstance(error, OSError) and error.strerror else _damaged(error)
                raise UnreadableError.of(self.name, fault, "check the path, copy it again [E-FILE-READ]") from error

    def _decoded(self, stack: ExitStack) -> Iterator[str | None]:
        chunks = _DECOMPRESS[self.compression](self._raw_chunks(stack))
        head = b""
        while len(head) < N_MARK_BYTES and (chunk := next(chunks, b"")):
            head += chunk
        codec, start = codec_of_head(self.name, self.encoding, head[:N_MARK_BYTES])
        file = _Chunks(chain([head[start:]], chunks)).buffered()
        newline, is_unicode = "\n".encode(codec), codec.startswith("utf-8")
        for content in split_lines(file, newline):
            self.number += 1
            self.tally.lines += 1
            try:
                text = content.decode(codec)
                if not is_unicode:
                    # Some codecs also make halves of characters, which are no text.
                    text.encode("utf-8")
            except UnicodeDecodeError as error:
                self.refuse(f"{wrong_byte(content, error, codec)}, or pass --skip_bad_lines [E-CORPUS-ENCODING]")
                yield None
            except UnicodeEncodeError:
                self.refuse("half a character is no text; name the encoding or pass --skip_bad_lines [E-CORPUS-ENCODING]")
                yield None
            else:
                yield text

    def _raw_chunks(self, stack: ExitStack) -> Iterator[bytes]:
        from tqdm import tqdm  # Here, so that --help and the install hint work where it is missing.

        file = sys.stdin.buffer if self.path == STDIN else stack.enter_context(open(self.path, "rb"))
        size = None if self.path == STDIN else os.fstat(file.fileno()).st_size or None
        name = f"reading {os.path.basename(self.name)}"
        bar = stack.enter_context(tqdm(total=size, unit="B", unit_scale=True, desc=name, disable=None))
        while chunk := file.read(_CHUNK_BYTES):
            bar.update(len(chunk))
            yield chunk


class _Chunks(io.RawIOBase):
    """A file of chunks of bytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def buffered(self) -> BinaryIO:
        return io.BufferedReader(self, _CHUNK_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = memoryview(chunk)
        assert isinstance(buffer, memoryview | bytearray)
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    file = gzip.GzipFile(fileobj=_Chunks(chunks).buffered())
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _unzst(chunks: Iterator[bytes]) -> Iterator[bytes]:
    zstandard = import_extra("zstandard", "zstandard")
    frame, is_open = zstandard.ZstdDecompressor().decompressobj(), False
    try:
        for chunk in chunks:
            for start in range(0, len(chunk), _ZST_CHUNK_BYTES):
                data = chunk[start : start + _ZST_CHUNK_BYTES]
                while data:
                    if content := frame.decompress(data):
                        yield content
                    data, is_open = frame.unused_data, not frame.eof
                    if frame.eof:
                        frame = zstandard.ZstdDecompressor().decompressobj()
    except zstandard.ZstdError as error:
        raise _damaged(error) from error
    if is_open:
        raise EOFError("it ends within a frame")


_DECOMPRESS: dict[str | None, Callable[[Iterator[bytes]], Iterator[bytes]]] = {None: iter, "gz": _gunzip, "zst": _unzst}


def _damaged(error: Exception) -> OSError:
    return OSError(errno.EIO, f"damaged or cut short: {error}")
