"""How often each word occurs: in any texts, and in files on every core, in memory that grows with the words' kinds only."""

from __future__ import annotations

import os
import signal
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..errors import InputError, UnreadableError, UserError
from .lines import byte_ranges, codec_and_start, read_text

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess
    from multiprocessing.sharedctypes import Synchronized

_BYTE_CODECS = ("utf-8", "ascii", "iso8859-1", "cp1252")
"""Encodings of which a byte below 128 is always the character of ASCII: their words can be parted before they are decoded."""
_LEAST_SHARED_BYTES = 1 << 22
"""Less is counted by this process alone: starting others would take longer."""
_MOST_PROCESSES = 8
"""Each holds most of the words: more would cost memory, and merging their counts as much time as they save."""
_CACHED_BYTES = 1 << 15
"""So much text is parted and counted before the next: its words are still in the processor's cache. 14 % faster than 1 MiB."""
_POLL_SECONDS = 0.1

Part = tuple[str, int, int]
"""A file, and the first byte and the end of a part of it."""


def count_words(texts: Iterable[str | list[str]]) -> Counter[str]:
    """Count white-space separated words over lines or lists of words."""
    from tqdm import tqdm  # Here, so that --help and the install hint work where it is missing.

    if isinstance(texts, str):
        raise InputError("vocabulary: texts is one string, expected lines: an open file or a list of texts [E-VOCAB-TEXTS]")
    counter: Counter[str] = Counter()
    for number, text in enumerate(tqdm(texts, desc="counting words", unit=" lines", disable=None)):
        words = text.split() if isinstance(text, str) else text
        if number == 0 and words and words[0].startswith("\ufeff"):
            words = [word for word in (words[0].removeprefix("\ufeff"), *words[1:]) if word]
        counter.update(words)
    return counter


def count_files(paths: Sequence[str], encoding: str = "utf-8", n_processes: int | None = None) -> Counter[str]:
    """Count the white-space separated words of files, exactly as `str.split` parts the decoded lines.

    Args:
        paths: The files.
        encoding: Name of a Python codec.
        n_processes: How many count; None: one a core, at most 8, and one for less than 4 MiB, for encodings other than utf-8,
            ascii, latin-1 and cp1252, and where the system cannot fork.

    Raises:
        InputError: A file cannot be read, or a line of it is not in this encoding.
        UserError: A process was killed.
    """
    counter: Counter[str] = Counter()
    parts: list[Part] = []
    codec = encoding
    for path in paths:
        codec, start = codec_and_start(path, encoding)
        if codec in _BYTE_CODECS:
            parts += [(path, first, last) for first, last in byte_ranges(path, start)]
            continue
        for text in read_text(path, encoding):
            counter.update(text.split())
    try:
        counter.update(_count_parts_shared(parts, codec, n_processes) if parts else {})
    except UnicodeDecodeError as error:
        for path in paths:
            for _ in read_text(path, encoding):
                pass  # Finds the line again and raises what is to be said about it.
        raise InputError(f"{paths[0]}: has changed since it was opened; start again on a copy [E-CORPUS-CHANGED]") from error
    except OSError as error:
        raise UnreadableError.of(", ".join(paths), error, "check the disk [E-FILE-READ]") from error
    return counter


def _count_parts_shared(parts: Sequence[Part], codec: str, n_processes: int | None) -> Counter[str]:
    from multiprocessing import get_all_start_methods

    from tqdm import tqdm

    if n_processes is None:
        n_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        is_small = sum(last - first for _, first, last in parts) < _LEAST_SHARED_BYTES
        n_processes = 1 if is_small else min(n_cores, _MOST_PROCESSES)
    if n_processes > 1 and "fork" in get_all_start_methods():
        return _count_in_processes(parts, codec, n_processes)
    return _count_parts(tqdm(parts, desc="counting words", unit=" MiB", disable=None), codec)


def _count_parts(parts: Iterable[Part], codec: str) -> Counter[str]:
    """Count words as bytes and decode each kind of word once.

    The six bytes at which `bytes.split` parts are white space to `str.split` too, and no part of another character. The other
    white space of Unicode is left inside the words, which are parted once more when they are decoded.
    """
    counter: Counter[bytes] = Counter()
    for path, first, last in parts:
        with open(path, "rb") as file:
            file.seek(first)
            content = file.read(last - first)
        start = 0
        while start < len(content):
            end = content.find(b"\n", start + _CACHED_BYTES) + 1 or len(content)
            counter.update(content[start:end].split())
            start = end
    text = b"\n".join(counter).decode(codec)
    words = text.split("\n")
    if words == text.split():
        return Counter(dict(zip(words, counter.values(), strict=True)))
    parted: Counter[str] = Counter()
    for word, n in zip(words, counter.values(), strict=False):
        for each in word.split():
            parted[each] += n
    return parted


def _count_in_processes(parts: Sequence[Part], codec: str, n_processes: int) -> Counter[str]:
    from multiprocessing import get_context
    from multiprocessing.connection import wait

    from tqdm import tqdm

    context = get_context("fork")
    n_taken = context.Value("q", 0)
    counter: Counter[str] = Counter()
    processes: list[BaseProcess] = []
    waiting: list[Connection] = []
    try:
        for _ in range(n_processes):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=_count_taken, args=(parts, codec, n_taken, sender), daemon=True)
            process.start()
            sender.close()
            processes.append(process)
            waiting.append(receiver)
        with tqdm(total=len(parts), desc="counting words", unit=" MiB", disable=None) as bar:
            while waiting:
                ready = wait(waiting, _POLL_SECONDS)
                for receiver in [each for each in waiting if each in ready]:
                    waiting.remove(receiver)
                    counter = _merged(counter, _receive(receiver))
                # Without its lock, which a killed process may hold for ever.
                bar.update(min(n_taken.get_obj().value, len(parts)) - bar.n)
    finally:
        for process in processes:
            process.kill()
            process.join()
    return counter


def _receive(receiver: Connection) -> Counter[str]:
    """What a process has counted, or its error."""
    with receiver:
        try:
            result = receiver.recv()
        except (EOFError, OSError) as error:
            message = "a process that counts words ended early: killed, perhaps for want of memory"
            raise UserError(f"{message}; free memory, or count on one core: taskset -c 0 bert-vocab ... [E-PROCESS]") from error
    if isinstance(result, BaseException):
        raise result
    text, counts = result
    return Counter(dict(zip(text.split(), counts, strict=True)))


def _merged(one: Counter[str], other: Counter[str]) -> Counter[str]:
    small, large = sorted((one, other), key=len)
    large.update(small)
    return large


def _count_taken(parts: Sequence[Part], codec: str, n_taken: Synchronized[int], sender: Connection) -> None:
    """Count what no other process has taken yet; runs in a process of its own."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent hears it too, and ends this process.

    def take() -> Iterator[Part]:
        while True:
            with n_taken.get_lock():
                number = n_taken.value
                n_taken.value += 1
            if number >= len(parts):
                return
            yield parts[number]

    try:
        counter = _count_parts(take(), codec)
        # One string and one array: the words one by one would take ten times as long to send.
        result: object = "\n".join(counter), array("Q", counter.values())
    except (UnicodeDecodeError, OSError, MemoryError) as error:
        result = error
    sender.send(result)
