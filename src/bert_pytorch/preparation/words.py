"""From a line of raw text to words parted by single spaces, the form that a vocabulary counts."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache

from .sources import Tally

# The mark of byte order is no character of a text; at the start of a file it would be taken for the mark it is.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ufeff]+")
_ASCII_PARTS = r"[A-Za-z0-9]+|[^A-Za-z0-9\s]"
_JOINERS = "\u200c\u200d"
_EMOJI_EXTENSIONS = "\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f"
_FLAG_LETTERS = "\U0001f1e6-\U0001f1ff"
# Signs that tie two consonants into one shape: Devanagari, Bengali, Gujarati, Oriya, Telugu, Malayalam.
_INDIC_TIES = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d"
_INDIC_LETTERS = "\u0904-\u0d7f"
_HANGUL = "[\u1100-\u115f]+[\u1160-\u11ff]*"


def plain(text: str) -> str:
    """Part the words by single spaces; tabs, line ends and control characters are no part of a word."""
    text = text.strip()
    # Printable text has no white space but the space.
    if text.isprintable() and "  " not in text:
        return text
    return " ".join(_CONTROL.sub(" ", text).split())


def word_former(
    lowercase: bool = False, punctuation: bool = False, characters: bool = False, keep: str = ""
) -> Callable[[str], str]:
    """A function from a raw sentence to its words, parted by single spaces; it returns an empty text where there is no word.

    Args:
        lowercase: Make all letters small.
        punctuation: Part punctuation and symbols from words, each as a word of its own. Combining marks stay with their letter,
            and what is read as one sign (an emoji with its modifiers, a flag) stays whole.
        characters: Make each character, as a reader counts them, a word of its own: for languages without spaces.
        keep: Pattern of words that are never parted, such as masks.
    """
    if not (punctuation or characters):
        return (lambda text: plain(text).lower()) if lowercase else plain
    kept = f"{keep}|" if keep else ""
    parts = re.compile(kept + (_cluster() if characters else f"[^{_no_word_characters()}]+|{_cluster()}"))
    # Most lines of most corpora are ASCII, where the short pattern finds the same.
    quick = parts if characters else re.compile(kept + _ASCII_PARTS)

    def form(text: str) -> str:
        pattern = quick if text.isascii() else parts
        words = " ".join(pattern.findall(plain(text)))
        return words.lower() if lowercase else words

    return form


@cache
def _cluster() -> str:
    """Pattern of a character as a reader counts them.

    Source: Unicode Standard Annex 29, extended grapheme clusters. Differs: without the rules for prepended marks.
    """
    extensions = f"[{_ranges(lambda kind: kind[0] == 'M')}{_JOINERS}{_EMOJI_EXTENSIONS}]*"
    tied = f"(?:(?<=[{_INDIC_TIES}])|(?<=[{_INDIC_TIES}]\u200d))[{_INDIC_LETTERS}]"
    joined = r"(?<=\u200d)[^\w\s]"
    return rf"(?:[{_FLAG_LETTERS}]{{2}}|{_HANGUL}|\S){extensions}(?:(?:{tied}|{joined}){extensions})*"


@cache
def _no_word_characters() -> str:
    """What is no letter, digit, mark or joiner, as the inside of a character class."""
    return _ranges(lambda kind: kind[0] not in "LNM", without=_JOINERS)


def _ranges(belongs: Callable[[str], bool], without: str = "") -> str:
    """Characters whose Unicode category belongs, as the inside of a character class."""
    found: list[str] = []
    start = None
    for code in range(sys.maxunicode + 2):
        character = chr(min(code, sys.maxunicode))
        inside = code <= sys.maxunicode and character not in without and belongs(unicodedata.category(character))
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            found.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(found)


def in_kmers(lines: Iterator[str | None], k: int, stride: int, window: int, tally: Tally) -> Iterator[str | None]:
    """Windows of k-mers that follow each other, of sequences whose letters stand on any number of lines.

    Args:
        lines: Lines of letters; None ends a sequence.
        k: Letters a word.
        stride: Letters from the start of a word to that of the next.
        window: Words a text.
        tally: Letters that no word holds are counted here: the end of a sequence, and those between words where `stride` > `k`.

    Yields:
        Texts of `window` words, the last of a sequence may have fewer; None ends a sequence.
    """
    size = k + (window - 1) * stride
    rest, position, n_letters, n_words = "", 0, 0, 0
    for line in lines:
        if line is not None:
            letters = "".join(_CONTROL.sub(" ", line).split())
            rest, position = rest[position:] + letters, max(0, position - len(rest))
            n_letters += len(letters)
        least = k if line is None else size
        while len(rest) - position >= least:
            n = min(window, (len(rest) - position - k) // stride + 1)
            yield " ".join(rest[start : start + k] for start in range(position, position + n * stride, stride))
            position += n * stride
            n_words += n
        if line is None:
            tally.dropped_letters += n_letters - (k + (n_words - 1) * min(stride, k) if n_words else 0)
            rest, position, n_letters, n_words = "", 0, 0, 0
            yield None
