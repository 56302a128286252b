"""From the lines of a corpus file to ids, block by block, on every core."""

from __future__ import annotations

import multiprocessing
import os
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import chain, islice
from typing import NamedTuple, Protocol

from ..errors import InputError
from .corpus import Faults, split_line
from .lines import byte_ranges, codec_and_start, progress_bar, read_lines

_BLOCK_BYTES = 1 << 20
_BLOCK_LINES = 1 << 14
_LEAST_SHARED_BYTES = 1 << 23
"""Smaller files are encoded by this process alone: starting others would take longer."""


class Encoder(Protocol):
    """What a vocabulary offers to encode with."""

    unk_index: int
    encodes_in_threads: bool
    """Whether it keeps all cores busy by itself; it is then not to be shared with forked processes."""

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies that encode alike."""
        ...

    def __len__(self) -> int:
        """Count the ids."""
        ...

    def to_ids(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of all texts, one after the other, and how many each text has."""
        ...


class Block(NamedTuple):
    """The ids of some neighbouring lines."""

    ids: array[int]
    """Ids of all texts, one after the other; 16 bits where the vocabulary allows, else 32."""
    lengths: array[int]
    """How many ids each text has."""
    n_lines: int
    """Lines read, the bad ones too."""
    n_bytes: int
    """Bytes read."""
    faults: list[tuple[int, str]]
    """Bad lines: their number within the block, from 1, and what is wrong."""


def id_type(n_ids: int) -> str:
    """The array type that holds the ids of a vocabulary of this size."""
    return "H" if n_ids <= 1 << 16 else "i"


def encode_file(
    path: str, vocab: Encoder, encoding: str, n_columns: int, corpus_lines: int | None = None, n_processes: int | None = None
) -> Iterator[Block]:
    """Encode a corpus file in bounded memory, with a progress bar on a terminal.

    Args:
        path: The file.
        vocab: Gives the ids.
        encoding: Name of a Python codec.
        n_columns: Texts a line.
        corpus_lines: Encode the first this many lines; None: all.
        n_processes: How many encode; None: one a core, for large files. An encoding whose line feed is more than one byte, and
            a vocabulary that uses threads, take one.

    Raises:
        InputError: The file cannot be read.
    """
    codec, start = codec_and_start(path, encoding)
    size = os.path.getsize(path)
    is_plain = "\n".encode(codec) == b"\n"
    if n_processes is None:
        n_processes = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    can_fork = "fork" in multiprocessing.get_all_start_methods() and not vocab.encodes_in_threads
    with progress_bar(path, "encoding") as bar:
        if is_plain and corpus_lines is None and n_processes > 1 and can_fork and size >= _LEAST_SHARED_BYTES:
            blocks = _encode_in_processes(path, start, vocab, codec, n_columns, n_processes)
        else:
            blocks = _encode_here(path, vocab, encoding, codec, n_columns, corpus_lines)
        for block in blocks:
            bar.update(block.n_bytes)
            yield block


def encode_lines(contents: Iterable[bytes], vocab: Encoder, codec: str, n_columns: int) -> Block:
    """Encode lines given as bytes, without their line feeds."""
    texts: list[str] = []
    faults: list[tuple[int, str]] = []
    number = n_bytes = 0
    for number, content in enumerate(contents, start=1):
        n_bytes += len(content) + 1
        try:
            fields = content.decode(codec).rstrip("\r\n").split("\t")
            if len(fields) == n_columns and all(map(str.strip, fields)):
                texts += fields
                continue
        except UnicodeDecodeError:
            pass
        # Every other line is refused, with the reason.
        try:
            texts += split_line(content, codec, n_columns)[:n_columns]
        except InputError as fault:
            faults.append((number, str(fault)))
    return _encode_texts(texts, vocab, number, n_bytes, faults)


def encode_pairs(pairs: Iterable[Sequence[str]], vocab: Encoder, n_columns: int) -> Iterator[Block]:
    """Encode pairs of texts that are in memory, or of which the second is empty when there is one column."""
    pairs = iter(pairs)
    while some := list(islice(pairs, _BLOCK_LINES)):
        texts = [text for pair in some for text in pair[:n_columns]]
        yield _encode_texts(texts, vocab, len(some), 0, [])


def gather_faults(faults: Faults, blocks: Iterable[Block], corpus_lines: int | None, skip_bad_lines: bool) -> Iterator[Block]:
    """Pass blocks on and note their faults; at the end refuse the file if it is to be, see `Faults.check`."""
    n_lines = 0
    for block in blocks:
        for number, message in block.faults:
            faults.add(n_lines + number, InputError(message))
        n_lines += block.n_lines
        yield block
    faults.check(n_lines, corpus_lines, skip_bad_lines)


def _encode_texts(texts: list[str], vocab: Encoder, n_lines: int, n_bytes: int, faults: list[tuple[int, str]]) -> Block:
    ids, lengths = vocab.to_ids(texts)
    if 0 in lengths:
        # A text that the vocabulary's treatment leaves nothing of is one unknown word.
        numbers = iter(ids)
        seqs = [list(islice(numbers, length)) or [vocab.unk_index] for length in lengths]
        ids, lengths = list(chain.from_iterable(seqs)), list(map(len, seqs))
    return Block(array(id_type(len(vocab)), ids), array("I", lengths), n_lines, n_bytes, faults)


def _encode_here(
    path: str, vocab: Encoder, encoding: str, codec: str, n_columns: int, corpus_lines: int | None
) -> Iterator[Block]:
    some: list[bytes] = []
    n_bytes = 0
    for line in read_lines(path, encoding, corpus_lines, is_shown=False):
        some.append(line.content)
        n_bytes += len(line.content)
        if n_bytes > _BLOCK_BYTES or len(some) == _BLOCK_LINES:
            yield encode_lines(some, vocab, codec, n_columns)
            some, n_bytes = [], 0
    if some:
        yield encode_lines(some, vocab, codec, n_columns)


def _encode_in_processes(
    path: str, start: int, vocab: Encoder, codec: str, n_columns: int, n_processes: int
) -> Iterator[Block]:
    """Encode ranges of the file in processes of their own; blocks come in the order of the file, few of them at a time."""
    waiting: deque[Future[Block]] = deque()
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(n_processes, context, _set_up, (path, vocab, codec, n_columns)) as pool:
        try:
            for first, last in byte_ranges(path, start, _BLOCK_BYTES):
                waiting.append(pool.submit(_encode_range, first, last))
                if len(waiting) > 2 * n_processes:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise MemoryError(f"{path}: a process that encodes was killed: out of memory") from error
        finally:
            for future in waiting:
                future.cancel()


_job: tuple[str, Encoder, str, int]
"""What a process encodes, set once when it starts."""


def _set_up(path: str, vocab: Encoder, codec: str, n_columns: int) -> None:
    global _job
    _job = path, vocab, codec, n_columns


def _encode_range(first: int, last: int) -> Block:
    path, vocab, codec, n_columns = _job
    with open(path, "rb") as file:
        file.seek(first)
        content = file.read(last - first)
    contents = content.split(b"\n")
    if not contents[-1]:
        contents.pop()
    return encode_lines(contents, vocab, codec, n_columns)
