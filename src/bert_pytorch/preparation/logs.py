"""Server logs: what varies in a line gives way to masks, and the lines of a session come together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from ..extras import import_extra
from .sources import Tally

MASK = "<[A-Z][A-Z0-9_]*>"
"""Pattern of what stands for a variable."""
MAX_HELD_LINES = 1_000_000
_CLOCK = r"[0-9]:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
_ZONE = r"(?:Z\b| ?[+-][0-9]{2}:?[0-9]{2})"
_HEX = "[0-9A-Fa-f]"
_GROUP = f"{_HEX}{{1,4}}"
# Each pattern begins with a set of characters, and only then looks back at what stands before: `re` then skips to the next
# character of the set, which took 40 % of the time. What an earlier pattern took is gone for the later ones.
_NO_WORD_BEFORE, _NO_WORD_AFTER = r"(?<![\w:].)", r"(?![\w:])"
_NO_LETTER_BEFORE, _NO_LETTER_AFTER = "(?<![A-Za-z0-9].)", "(?![A-Za-z0-9])"
_ISO_DATE = r"[0-9]{3}[-/.][0-9]{2}[-/.][0-9]{2}"
_ISO_TIME = rf"[T -][0-9]{{2}}[:.][0-9]{{2}}[:.][0-9]{{2}}(?:[.,][0-9]+)?{_ZONE}?"
_SLASH_TIME = rf"[0-9]/(?:[0-9]{{2}}|[A-Z][a-z]{{2}})/[0-9]{{2}}(?:[0-9]{{2}})?[: ][0-9]{_CLOCK}{_ZONE}?"
_MAC = f"{_HEX}(?:[:-]{_HEX}{{2}}){{5}}"
_IPV6 = f"{_HEX}{{0,3}}(?:(?::{_GROUP}){{7}}|(?::{_GROUP}){{0,6}}::(?:{_GROUP}(?::{_GROUP}){{0,5}})?)"
_MASKS = (
    ("TIME", rf"[A-Z][a-z]{{2}}(?:,? [A-Z][a-z]{{2}})? {{1,2}}[0-9]{{1,2}},? [0-9]{_CLOCK}(?: [0-9]{{4}})?"),
    ("TIME", rf"[0-9](?:{_ISO_DATE}(?:{_ISO_TIME})?|{_SLASH_TIME}|{_NO_WORD_BEFORE}{_CLOCK}{_NO_WORD_AFTER})"),
    ("TIME", r"^[0-9]{6}(?:[0-9]{2})?[ -][0-9]{6}\b"),
    ("ID", rf"{_HEX}{_NO_WORD_BEFORE}{_HEX}{{7}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}{_NO_WORD_AFTER}"),
    ("ADDRESS", rf"{_HEX}{_NO_WORD_BEFORE}(?:{_MAC}|{_IPV6}){_NO_WORD_AFTER}"),
    ("ADDRESS", rf":{_NO_WORD_BEFORE}:{_GROUP}(?::{_GROUP}){{0,6}}{_NO_WORD_AFTER}"),
    ("ADDRESS", r"[0-9](?<![\w.].)[0-9]{0,2}(?:\.[0-9]{1,3}){3}(?!\.?[0-9])(?::[0-9]{1,5})?"),
    ("HEX", rf"0{_NO_LETTER_BEFORE}[xX]{_HEX}+{_NO_LETTER_AFTER}"),
    ("HEX", rf"[0-9]{_NO_LETTER_BEFORE}(?={_HEX}*[A-Fa-f]){_HEX}{{7,}}{_NO_LETTER_AFTER}"),
    ("HEX", rf"[A-Fa-f]{_NO_LETTER_BEFORE}(?={_HEX}*[0-9]){_HEX}{{7,}}{_NO_LETTER_AFTER}"),
    ("NUM", rf"[-+\d](?:(?<=\d)|{_NO_LETTER_BEFORE}(?=\d))\d*(?:[.,]\d+)*"),
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
