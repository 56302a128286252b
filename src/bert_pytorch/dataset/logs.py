"""Server logs: what varies in a line gives way to masks, and the lines of a session come together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..extras import import_extra
from .sources import Tally

MASK = "<[A-Z][A-Z0-9_]*>"
"""Pattern of what stands for a variable."""
MAX_HELD_LINES = 1_000_000
_MONTH_DAY = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s{1,2}\d{1,2}"
_CLOCK = r"\d{2}:\d{2}:\d{2}(?:[.,]\d+)?"
_ZONE = r"(?:Z\b| ?[+-]\d{2}:?\d{2})"
_HEX = "[0-9A-Fa-f]"
_GROUPS = rf"(?:{_HEX}{{1,4}}(?::{_HEX}{{1,4}}){{0,6}})?"
# In this order: what an earlier pattern took is gone for the later ones, and the last takes every digit that is left.
_MASKS = (
    ("TIME", rf"\d{{4}}[-/.]\d{{2}}[-/.]\d{{2}}(?:[T -]\d{{2}}[:.]\d{{2}}[:.]\d{{2}}(?:[.,]\d+)?{_ZONE}?)?"),
    ("TIME", rf"\d{{2}}/(?:\d{{2}}|[A-Z][a-z]{{2}})/(?:\d{{4}}|\d{{2}})[: ]{_CLOCK}{_ZONE}?"),
    ("TIME", rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?{_MONTH_DAY},? {_CLOCK}(?: \d{{4}})?"),
    ("TIME", r"^\d{6}(?:\d{2})?[ -]\d{6}\b"),
    ("TIME", rf"(?<![\w:]){_CLOCK}(?![\w:])"),
    ("ID", rf"(?<!\w){_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?!\w)"),
    ("ADDRESS", rf"(?<![\w:])(?:{_HEX}{{2}}[:-]){{5}}{_HEX}{{2}}(?![\w:])"),
    ("ADDRESS", rf"(?<![\w:])(?:{_HEX}{{1,4}}:){{7}}{_HEX}{{1,4}}(?![\w:])"),
    ("ADDRESS", rf"(?<![\w:])(?=:*{_HEX}){_GROUPS}::{_GROUPS}(?![\w:])"),
    ("ADDRESS", r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\.?\d)(?::\d{1,5})?"),
    ("HEX", rf"(?<![A-Za-z0-9])0[xX]{_HEX}+(?![A-Za-z0-9])"),
    ("HEX", rf"(?<![A-Za-z0-9])(?={_HEX}*[0-9])(?={_HEX}*[A-Fa-f]){_HEX}{{8,}}(?![A-Za-z0-9])"),
    ("NUM", r"(?:(?<![A-Za-z0-9])[-+])?\d+(?:[.,]\d+)*"),
)


def masker(extra: Sequence[tuple[str, str]] = ()) -> Callable[[str], str]:
    """A function that puts masks such as `<TIME>`, `<ADDRESS>` and `<NUM>` where a log line varies.

    The masks are a function of the line alone, through the masking stage of Drain3, and no digit is left. Its template mining
    is not used: a mined template depends on the lines before, so that the same line would be another text later on or in
    another file, and it takes out words that carry the meaning (`opened`, `closed`) where two templates are else alike.

    Args:
        extra: Name and pattern of masks that come before the built-in ones.

    Raises:
        UnavailableError: The package `drain3` is not installed.
    """
    masking = import_extra("drain3.masking", "drain3-improved")
    instructions = [masking.MaskingInstruction(pattern, name) for name, pattern in (*extra, *_MASKS)]
    return masking.LogMasker(instructions, "<", ">").mask


def sessions_of(line: str, session: re.Pattern[str]) -> list[str]:
    """The ids of the sessions that a line belongs to, each once, in order: the first group of each match."""
    return list(dict.fromkeys(found.group(1) for found in session.finditer(line) if found.group(1) is not None))


def gather(records: Iterable[tuple[Sequence[str], list[str]]], max_open: int, tally: Tally) -> Iterator[str | None]:
    """The texts of each key together, in order, as one document.

    Args:
        records: Keys (sessions, groups) and the texts that belong to each of them.
        max_open: Most keys held at once. Past that, or past `MAX_HELD_LINES` texts, the key that was idle longest is closed.
        tally: Keys closed before the end of the input are counted here.

    Yields:
        Texts; None ends a document.
    """
    held: dict[str, list[str]] = {}
    n_held = 0
    for keys, texts in records:
        for key in keys:
            # The key moves to the end: the first one is always that which was idle longest.
            group = held.pop(key, [])
            group += texts
            held[key] = group
            n_held += len(texts)
        while len(held) > max_open or n_held > MAX_HELD_LINES:
            group = held.pop(next(iter(held)))
            n_held -= len(group)
            tally.closed_early += 1
            yield from group
            yield None
    for group in held.values():
        yield from group
        yield None
