"""What a diagnosis consists of, and how a rule about a message becomes a part of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import NamedTuple

FIRST, USUAL, LISTED, FOLLOWS = range(4)
"""Ranks of findings: our own codes; rules; rows of the troubleshooting tables; consequences of something further up."""

_MOST_CAUSE, _MOST_NEXT, _MOST_WHERE = 260, 400, 110


class Rule(NamedTuple):
    """A message that is known.

    In `cause` and `next` a name in braces stands for a group of the pattern, by name or number, or, as in `{check_corpus}`, for
    the script of the bundle that bears this name.
    """

    name: str
    pattern: str
    """A regular expression; `^` and `$` are those of lines."""
    cause: str
    next: str
    """The next command, or the line to write."""
    rank: int = USUAL


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        rule: Name of the rule, or the code of an error.
        where: The line, file or place that shows it.
        cause: Why it is so.
        next: What to do next: a command, or the line to write.
        rank: What comes first among several.
    """

    rule: str
    where: str
    cause: str
    next: str
    rank: int = USUAL

    def as_dict(self) -> dict[str, str]:
        """Its texts, in ASCII and no longer than a reader needs."""
        most = {"where": _MOST_WHERE, "cause": _MOST_CAUSE, "next": _MOST_NEXT}
        texts = {name: value for name, value in asdict(self).items() if name != "rank"}
        return {name: clip(str(value), most.get(name, _MOST_NEXT)) for name, value in texts.items()}


def clip(text: str, most: int) -> str:
    """A text on one line in ASCII, cut at a sentence or a word where it is too long."""
    line = " ".join(ascii(text)[1:-1].replace("\\n", " ").replace("\\'", "'").replace("\\\\", "\\").split())
    if len(line) <= most:
        return line
    cut = line[: most - 3]
    end = max(cut.rfind(". "), cut.rfind("; "))
    return cut[: end + 1] if end > most // 2 else cut.rsplit(" ", 1)[0] + "..."


def fill_in(text: str, found: re.Match[str], script: Callable[[str], str | None]) -> str:
    """A rule's text with the groups of what was found, and the scripts, in place of names in braces; other braces stay."""

    def value(name: re.Match[str]) -> str:
        key = name.group(1)
        if key.isdigit() and int(key) <= found.re.groups:
            return found.group(int(key)) or ""
        if key in found.re.groupindex:
            return found.group(key) or ""
        return script(key) or name.group(0)

    return re.sub(r"\{(\w+)\}", value, text)


def compiled(pattern: str) -> re.Pattern[str]:
    """A rule's pattern, ready."""
    return re.compile(pattern, re.MULTILINE)
