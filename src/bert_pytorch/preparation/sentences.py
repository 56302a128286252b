"""Running text to sentences, by the rules of its language."""

from __future__ import annotations

from collections.abc import Iterator

from ..extras import import_extra

_LEAST_CHARACTERS = 1 << 16
_WITHOUT_SPACES = ("zh", "ja", "th", "lo", "km", "my", "yue", "wuu")


def in_sentences(lines: Iterator[str | None], language: str) -> Iterator[str | None]:
    """Sentences of text whose lines may end anywhere, in bounded memory.

    Args:
        lines: Lines of text; an empty one ends a paragraph and so a sentence, None ends a document.
        language: Code such as `en`, of ISO 639. Where words stand without spaces, lines are joined without one.

    Yields:
        Sentences; None ends a document.

    Raises:
        UnavailableError: The package `sentencex` is not installed.
    """
    segment = import_extra("sentencex", "sentencex").segment
    joint = "" if language.partition("-")[0] in _WITHOUT_SPACES else " "
    held: list[str] = []
    n_held, enough = 0, _LEAST_CHARACTERS
    for line in lines:
        if line:
            held.append(line)
            n_held += len(line)
            if n_held < enough:
                continue
        sentences = segment(language, joint.join(held)) if held else []
        held, n_held, enough = [], 0, _LEAST_CHARACTERS
        if line and sentences:
            # The last one may go on; looking at it anew only when it has doubled keeps the work in proportion.
            held = [sentences.pop()]
            n_held, enough = len(held[0]), max(_LEAST_CHARACTERS, 2 * len(held[0]))
        yield from sentences
        if line is None:
            yield None
