"""From documents to the lines of a corpus: pairs of texts that follow each other in one document, or single texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from ..dataset.draws import Draws
from ..errors import InputError
from .sources import Tally

_PACKING = 1
"""Sets the draws of packing apart from those of the split."""


def corpus_lines(
    documents: Iterable[Iterator[str]],
    tally: Tally,
    target_len: int | None = None,
    short_prob: float = 0.1,
    single: bool = False,
    seed: int = 0,
) -> Iterator[tuple[int, str]]:
    """The lines of a corpus, without line ends.

    Args:
        documents: Sentences of each document, as words parted by single spaces.
        tally: Documents without a line and sentences that are cut are counted here.
        target_len: Words a line, both texts together: sentences that follow each other are packed up to it, and those longer
            than half of it (than all of it with `single`) are cut. None: a sentence is a text.
        short_prob: Chance that a line is packed to a shorter length, drawn evenly from 2 to `target_len`.
        single: One text a line instead of two.
        seed: Decides lengths and where a packed line is parted in two.

    Yields:
        The number of the document among those that have lines, from 0, and `A<TAB>B` or a single text.

    Raises:
        InputError: There is not one line.
    """
    number = 0
    for index, document in enumerate(documents):
        draws = Draws(seed, _PACKING, index)
        if target_len is not None:
            longest = target_len if single else target_len // 2
            chunks = _chunks(_pieces(document, longest, tally), target_len, short_prob, 1 if single else 2, draws)
            lines = (" ".join(chunk) for chunk in chunks) if single else (_parted(chunk, draws) for chunk in chunks)
        else:
            lines = document if single else (f"{first}\t{second}" for first, second in pairwise(document))
        is_empty = True
        for line in lines:
            is_empty = False
            yield number, line
        tally.dropped_documents += is_empty
        number += not is_empty
    if not number:
        raise InputError(f"input: no {'text' if single else 'pair of texts'}, got {_why_none(tally)} [E-PAIRS-NONE]")


def _why_none(tally: Tally) -> str:
    if not tally.lines:
        return "an empty input; name another"
    if tally.skipped_lines and not tally.documents:
        return f"{tally.lines} lines of which {tally.skipped_lines} are bad; run without --skip_bad_lines to see the first"
    if tally.lines_without_session and not tally.documents:
        return f"{tally.lines} lines without a session; mend the pattern --session"
    if not tally.sentences:
        return f"{tally.lines} lines without a sentence or a whole k-mer; name another input, or its --format"
    advice = "pass --split_sentences, --target_len or --single, and see that blank lines stand between documents only"
    return f"{tally.documents} documents of at most one sentence each; {advice}"


def _pieces(sentences: Iterable[str], longest: int, tally: Tally) -> Iterator[tuple[str, int]]:
    """Sentences and their number of words; one longer than `longest` words comes in pieces of nearly equal size."""
    for sentence in sentences:
        words = sentence.split()
        if len(words) <= longest:
            yield sentence, len(words)
            continue
        tally.cut_sentences += 1
        n_pieces = -(-len(words) // longest)
        for i in range(n_pieces):
            piece = words[i * len(words) // n_pieces : (i + 1) * len(words) // n_pieces]
            yield " ".join(piece), len(piece)


def _chunks(
    pieces: Iterable[tuple[str, int]], target_len: int, short_prob: float, n_least: int, draws: Draws
) -> Iterator[list[str]]:
    """Runs of pieces of at most `target_len` words, or a drawn shorter length, but of at least `n_least` pieces.

    Source: the paper's data tool (Devlin et al. 2018, appendix A.2). Differs: a run ends before it is too long, instead of
    being trimmed afterwards, so that no word is lost; and a piece left over at the end of a document follows the one before it
    in a run of its own.
    """
    target = _target(target_len, short_prob, draws)
    chunk: list[str] = []
    n_words, last = 0, None
    for piece, size in pieces:
        if len(chunk) >= n_least and n_words + size > target:
            yield chunk
            last, chunk, n_words = chunk[-1], [], 0
            target = _target(target_len, short_prob, draws)
        chunk.append(piece)
        n_words += size
    if len(chunk) >= n_least:
        yield chunk
    elif chunk and last is not None:
        yield [last, *chunk]


def _target(target_len: int, short_prob: float, draws: Draws) -> int:
    return 2 + draws.integer(target_len - 1) if draws.uniform() < short_prob else target_len


def _parted(chunk: list[str], draws: Draws) -> str:
    """The pieces of a run as two texts, parted at a drawn place between two pieces."""
    place = 1 + draws.integer(len(chunk) - 1)
    return f"{' '.join(chunk[:place])}\t{' '.join(chunk[place:])}"
