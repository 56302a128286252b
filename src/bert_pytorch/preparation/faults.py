"""The kinds of fault that a line of a corpus can have: how they are found, counted, shown and mended.

Precedence, so that counts are exact: a line that is not of the encoding is nothing else; a blank line is only blank. Every
other line has at most one fault of form (no tab, more than one, a backslash and a t, an empty text), and beside it each fault
of its characters once. Only a line that `bert` reads can be a duplicate, an overlap or a pair of equal texts.
"""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..dataset.corpus import split_line
from ..dataset.lines import Line, codec_and_start, read_lines
from ..dataset.vocab_file import SPECIALS
from ..errors import InputError, UsageError
from .duplicates import key_of


class Kind(NamedTuple):
    """What a kind of fault means."""

    meaning: str
    is_refused: bool = False
    """Whether `bert` refuses a line that has it."""


KINDS = {
    "encoding": Kind("bytes that are not of the encoding", True),
    "no_tab": Kind("no tab", True),
    "backslash_t": Kind("a backslash and a t where a tab belongs", True),
    "many_tabs": Kind("more tabs than expected", True),
    "empty_text": Kind("a text without a word", True),
    "blank": Kind("blank lines", True),
    "overlap": Kind("pairs of the other file that stand in this one"),
    "nul": Kind("NUL characters"),
    "control": Kind("control characters"),
    "special_word": Kind("words that become special ids"),
    "zero_width": Kind("zero-width and direction characters"),
    "bom": Kind("byte-order mark"),
    "long_line": Kind("over-long lines"),
    "same_texts": Kind("both texts are the same"),
    "duplicate": Kind("pairs that stand further up too"),
    "crlf": Kind("CR LF line ends"),
}
"""Most serious first."""
READABLE_KINDS = [name for name, kind in KINDS.items() if not kind.is_refused]
N_SHOWN = 5
"""How many line numbers are kept of each kind."""

_REMOVED = {
    "nul": "\x00",
    # Of the category Cc all but tab; and lone surrogates, which some codecs give and no text can hold.
    "control": "\x01-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff",
    # The joiners U+200C and U+200D belong to the spelling of Persian, Hindi and emoji, and the vowel separator U+180E to that
    # of Mongolian, so they are none of these.
    "zero_width": "\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufff9-\ufffb\U000e0001",
    "bom": "\ufeff",
}
_PATTERNS = {
    **{kind: re.compile(f"[{characters}]") for kind, characters in _REMOVED.items()},
    "special_word": re.compile(rf"(?<!\S)(?:{'|'.join(map(re.escape, SPECIALS))})(?!\S)"),
}
_SUSPICIOUS = re.compile(f"[<{''.join(_REMOVED.values())}]")
_BY_CODE = {
    "E-CORPUS-ENCODING": "encoding",
    "E-CORPUS-BLANK": "blank",
    "E-CORPUS-BACKSLASH-T": "backslash_t",
    "E-CORPUS-EMPTY-TEXT": "empty_text",
}


class Finding(NamedTuple):
    """What was found in one line."""

    text: str
    """Decoded, with the carriage returns at its end; empty when it is not of the encoding."""
    words: tuple[list[str], ...]
    """The words of each text; none when `bert` refuses the line."""
    places: dict[str, int]
    """Kind of fault -> the first character that shows it (byte, of what cannot be decoded)."""

    @property
    def key(self) -> bytes:
        """Equal for lines whose words are equal, white space aside; empty for a line that `bert` refuses."""
        return key_of("\t".join(map(" ".join, self.words))) if self.words else b""


class Plain(NamedTuple):
    """Consecutive lines without any fault, their words parted by single spaces."""

    texts: list[str]
    """The lines; each is its own key."""
    words: list[str]
    """Of all lines."""
    lengths: list[tuple[int, ...]]
    """Words of the texts of each line."""


_NO_PLACES: dict[str, int] = {}
NO_FAULT = Finding("", (), _NO_PLACES)
"""Of a line that was not looked at alone."""


class Rules:
    """What a corpus is checked for, line by line."""

    def __init__(self, columns: int = 2, max_chars: int = 100_000, allowed: Collection[str] = ()) -> None:
        """Choose the rules.

        Args:
            columns: Texts a line: 2, or 1 where no tab is expected.
            max_chars: A longer line is a fault; in characters.
            allowed: Kinds that are no fault and stay as they are, of those that `bert` does not refuse.

        Raises:
            UsageError: `allowed` names another kind.
        """
        self.columns = columns
        self.max_chars = max_chars
        self.allowed = frozenset(allowed)
        wrong = [kind for kind in allowed if kind not in READABLE_KINDS]
        if wrong:
            message = f"{wrong[0]!a} cannot be allowed, expected some of {', '.join(READABLE_KINDS)}; leave it out"
            raise UsageError(f"rules: {message} [E-SETTING-CONFLICT]")
        mended = "".join(characters for kind, characters in _REMOVED.items() if kind not in self.allowed)
        # A line feed or a lone surrogate, from a codec that gives such, cannot be written, allowed or not.
        self._mended = re.compile(f"[{mended}\n\ud800-\udfff]")

    def examine_file(self, path: str, encoding: str) -> Iterator[tuple[Line, Finding]]:
        """Look at each line of a file, with a progress bar on a terminal."""
        codec, _ = codec_and_start(path, encoding)
        for line in read_lines(path, encoding):
            yield line, self.examine(line.content, codec)

    def examine_together(self, contents: Sequence[bytes], codec: str) -> Plain | None:
        """Look at some lines at once, which is twice as fast; None when one of them needs a look of its own."""
        try:
            text = "\n".join([content.decode(codec) for content in contents])
        except UnicodeDecodeError:
            return None
        n_tabs = len(contents) if self.columns == 2 else 0
        # What is printable has no control and no format character, and no white space but spaces.
        if "<" in text or text.count("\t") != n_tabs or not text.replace("\t", " ").replace("\n", " ").isprintable():
            return None
        texts, words, lengths = text.split("\n"), text.split(), []
        # As many separators as gaps between words: each gap is one character, and no text is empty.
        if text.count(" ") + n_tabs + len(texts) != len(words) or len(texts) != len(contents):
            return None
        for each in texts:
            first, tab, second = each.partition("\t")
            if (n_tabs and not tab) or first == second or len(each) > self.max_chars:
                return None
            lengths.append((first.count(" ") + 1, second.count(" ") + 1) if tab else (first.count(" ") + 1,))
        return Plain(texts, words, lengths)

    def examine(self, content: bytes, codec: str) -> Finding:
        """Look at one line, given without its line feed."""
        try:
            text = content.decode(codec)
        except UnicodeDecodeError as error:
            return Finding("", (), {"encoding": error.start})
        body = text.rstrip("\r\n")
        first, tab, second = body.partition("\t")
        if len(body) <= self.max_chars and "\t" not in second and not _SUSPICIOUS.search(body):
            one, two = first.split(), second.split()
            if one and one != two and (two if self.columns == 2 else not tab):
                places = _NO_PLACES if len(body) == len(text) else {"crlf": 0}
                return Finding(text, (one, two) if tab else (one,), places)
        return self._examine_closely(content, codec, text)

    def _examine_closely(self, content: bytes, codec: str, text: str) -> Finding:
        body = text.rstrip("\r\n")
        places: dict[str, int] = {}
        words: tuple[list[str], ...] = ()
        try:
            texts = split_line(content, codec, self.columns)
            words = tuple(each.split() for each in texts[: self.columns])
        except InputError as refusal:
            kind = _BY_CODE.get(str(refusal.code), "many_tabs" if "\t" in body else "no_tab")
            places[kind] = 0
            if kind == "blank":
                return Finding(text, (), places)
        for kind, pattern in _PATTERNS.items():
            if found := pattern.search(body):
                places[kind] = found.start()
        if len(body) < len(text):
            places["crlf"] = 0
        if len(body) > self.max_chars:
            places["long_line"] = 0
        if len(words) == 2 and words[0] == words[1]:
            places["same_texts"] = 0
        return Finding(text, words, places)

    def fix(self, finding: Finding) -> str | None:
        """The line as it goes into a clean corpus, without its line feed; None when it must be left out."""
        if not finding.places:
            return finding.text
        if "encoding" in finding.places:
            return None
        body = finding.text.rstrip("\r\n")
        ending = finding.text[len(body) :].replace("\n", "") if "crlf" in self.allowed else ""
        # A control character that is white space parts words: it gives way to a space, or two words would become one.
        body = self._mended.sub(lambda found: " " if found.group().isspace() else "", body).rstrip("\r\n")
        if self.columns == 2 and "\t" not in body and body.count("\\t") == 1:
            body = body.replace("\\t", "\t")
        line = body + ending
        return line if self.examine(line.encode("utf-8"), "utf-8").places.keys() <= self.allowed else None


class Tally:
    """Faults by kind: how many lines have one, the first of these, and an example."""

    def __init__(self) -> None:
        """Begin with none."""
        self.counts = dict.fromkeys(KINDS, 0)
        self.first_lines: dict[str, list[int]] = {kind: [] for kind in KINDS}
        self.examples: dict[str, str] = {}

    def add(self, kind: str, number: int) -> None:
        """Count a line, in whatever order they come."""
        self.counts[kind] += 1
        first = self.first_lines[kind]
        if len(first) < N_SHOWN or number < first[-1]:
            insort(first, number)
            del first[N_SHOWN:]

    def add_all(self, finding: Finding, number: int, content: bytes) -> None:
        """Count a line for each kind of fault that was found in it, with an example of the first."""
        for kind, place in finding.places.items():
            self.add(kind, number)
            if kind not in self.examples:
                self.examples[kind] = excerpt(content if kind == "encoding" else finding.text, place)

    def report(self, kinds: Collection[str]) -> dict[str, dict[str, object]]:
        """Those of `kinds` that occurred, most serious first."""
        return {
            kind: {
                "count": self.counts[kind],
                "first_lines": self.first_lines[kind],
                "example": self.examples.get(kind, ""),
                "refused_by_bert": KINDS[kind].is_refused,
            }
            for kind in KINDS
            if kind in kinds and self.counts[kind]
        }


def excerpt(source: str | bytes, place: int = 0, width: int = 60) -> str:
    """At most `width` characters of ASCII around a place: escapes for the rest, dots where something was cut off."""
    start = max(0, place - 8)
    part = source[start : start + width]
    text = part.decode("latin-1") if isinstance(part, bytes) else part
    pieces = [character.encode("unicode_escape").decode("ascii") for character in text]
    shown = "..." if start else ""
    is_whole = len(source) - start <= width and len(shown) + sum(map(len, pieces)) <= width
    for piece in pieces:
        if not is_whole and len(shown) + len(piece) > width - 3:
            return shown + "..."
        shown += piece
    return shown if is_whole else shown + "..."
