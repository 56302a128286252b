"""From sources of any kind to documents: sentences that follow each other, as words parted by single spaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from .layout import Layout
from .logs import MASK, gather, masker, sessions_of
from .records import Record, read_jsonl, read_table
from .sentences import in_sentences
from .sources import Source, Tally
from .words import in_kmers, plain, word_former


def read_documents(paths: Iterable[str], layout: Layout, tally: Tally) -> Iterator[Iterator[str]]:
    """The documents of all sources, in order.

    Args:
        paths: Files, or `-` for standard input.
        layout: How documents stand in them.
        tally: Where documents, sentences and what is left out are counted.

    Yields:
        The sentences of a document, without those that hold no word. Each is to be exhausted before the next is asked for.

    Raises:
        InputError: A file cannot be read, or a line or record is bad and bad ones are not to be left out.
        UnavailableError: A package that the layout needs is not installed.
    """
    sources = (Source(path, layout.encoding, layout.compression, layout.skip_bad_lines, tally) for path in paths)
    lines = _READERS[layout.format](sources, layout, tally)
    if layout.k is not None:
        lines = in_kmers(lines, layout.k, layout.stride, layout.window, tally)
    elif layout.language is not None:
        lines = in_sentences(lines, layout.language)
    keep = MASK if layout.format == "log" else ""
    form = word_former(layout.lowercase, layout.punctuation, layout.characters, keep)
    for document in _parted(lines):
        tally.documents += 1
        yield _sentences(document, form, tally)


def _sentences(lines: Iterator[str], form: Callable[[str], str], tally: Tally) -> Iterator[str]:
    for line in lines:
        if sentence := form(line):
            tally.sentences += 1
            yield sentence
        elif line:
            tally.empty_sentences += 1


def _parted(items: Iterator[str | None]) -> Iterator[Iterator[str]]:
    """The runs between the Nones; empty runs are none."""
    for item in items:
        if item is not None:
            yield _from(item, items)


def _from(first: str, items: Iterator[str | None]) -> Iterator[str]:
    yield first
    for item in items:
        if item is None:
            return
        yield item


def _text_lines(sources: Iterable[Source], layout: Layout, _: Tally) -> Iterator[str | None]:
    """Lines; an empty one ends a paragraph, None ends a document. A line that is left out parts its neighbours."""
    for source in sources:
        for line in source.lines():
            if line is None or (layout.k is None and not layout.document_per_file and not line.strip()):
                yield None
            elif layout.document_per_file:
                yield line if line.strip() else ""
            else:
                first, *others = line.split("\f")
                yield first
                for part in others:
                    yield None
                    yield part
                if layout.k is not None:
                    yield None
        yield None


def _fasta_lines(sources: Iterable[Source], _: Layout, __: Tally) -> Iterator[str | None]:
    """Lines of letters; None where a header line, or a line that is left out, ends a sequence."""
    for source in sources:
        for line in source.lines():
            yield None if line is None or line.startswith(">") else line
        yield None


def _log_lines(sources: Iterable[Source], layout: Layout, tally: Tally) -> Iterator[str | None]:
    """Masked lines, by session or in windows; a window does not reach from one file into the next, a session does."""
    mask = masker(layout.masks)
    if layout.session is not None:
        yield from gather(_events(sources, layout, mask, tally), layout.max_open, tally)
        return
    for source in sources:
        n = 0
        for line in source.lines():
            if line is None:
                yield None
                n = 0
            elif line.strip():
                yield mask(plain(line))
                n = (n + 1) % layout.window
                if not n:
                    yield None
        yield None


def _events(
    sources: Iterable[Source], layout: Layout, mask: Callable[[str], str], tally: Tally
) -> Iterator[tuple[list[str], list[str]]]:
    assert layout.session is not None
    for source in sources:
        for line in source.lines():
            if line is None or not line.strip():
                continue
            sessions = sessions_of(line, layout.session)
            tally.lines_without_session += not sessions
            tally.lines_in_several_sessions += len(sessions) > 1
            if sessions:
                yield sessions, [mask(plain(line))]


def _record_lines(sources: Iterable[Source], layout: Layout, tally: Tally) -> Iterator[str | None]:
    """The texts of records; None ends a document."""
    read = read_jsonl if layout.format == "jsonl" else read_table
    records = (record for source in sources for record in read(source, layout))
    if layout.group_by is not None:
        yield from gather((([record.group], _pieces(record, layout)) for record in records), layout.max_open, tally)
        return
    for record in records:
        if layout.k is not None:
            # A sequence goes over the lines of a text, and never into the next text.
            yield from (piece for text in record.texts for piece in (text, None))
        else:
            yield from _pieces(record, layout)
            yield None


def _pieces(record: Record, layout: Layout) -> list[str]:
    """The lines of a record's texts, or each text as one line where it is a sentence; an empty piece ends a paragraph."""
    if record.are_sentences:
        return [piece for text in record.texts for piece in (text.replace("\n", " "), "")]
    return [piece for text in record.texts for piece in (*text.split("\n"), "")]


_READERS = {
    "text": _text_lines,
    "jsonl": _record_lines,
    "csv": _record_lines,
    "tsv": _record_lines,
    "log": _log_lines,
    "fasta": _fasta_lines,
}
