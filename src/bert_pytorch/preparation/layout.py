"""How documents stand in the sources of a corpus."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .sources import COMPRESSIONS, STDIN

FORMATS = ("text", "jsonl", "csv", "tsv", "log", "fasta")
_FORMAT_OF = {
    **{"jsonl": "jsonl", "ndjson": "jsonl", "json": "jsonl", "csv": "csv", "tsv": "tsv", "log": "log"},
    **{"fasta": "fasta", "fa": "fasta", "fna": "fasta", "faa": "fasta"},
}


@dataclass(frozen=True)
class Layout:
    """How documents stand in their sources, and how their words are formed.

    Attributes:
        format: One of `FORMATS`.
        encoding: Name of a Python codec.
        compression: `gz` or `zst`; None: by the end of a file's name.
        skip_bad_lines: Leave bad lines and records out and count them.
        document_per_file: Text: nothing but the end of a file ends a document.
        language: Split running text into sentences by the rules of this language; None: a line is a sentence.
        field: JSONL: name of the text, dotted where it is nested; a list holds one sentence each.
        group_by: JSONL, CSV: name of the value that records of one document share; None: a record is a document.
        columns: CSV: names, or numbers from 1, of the texts of a row, in order.
        has_header: CSV: the first row has the names.
        is_quoted: CSV: a cell may stand in quotes, with delimiters and line ends in it.
        row_pairs: CSV: the two cells of a row are a pair of their own.
        session: Log: pattern whose first group is the id of a session; None: windows of `window` lines.
        masks: Log: names and patterns of masks before the built-in ones.
        window: Log: lines a document. Sequences: words a text.
        max_open: Sessions or groups held at once.
        k, stride: Sequences: letters a word, and from word to word; None: texts are no sequences.
        lowercase, punctuation, characters: As `word_former` takes them.
    """

    format: str = "text"
    encoding: str = "utf-8"
    compression: str | None = None
    skip_bad_lines: bool = False
    document_per_file: bool = False
    language: str | None = None
    field: str = "text"
    group_by: str | None = None
    columns: tuple[str, ...] = ("1",)
    has_header: bool = True
    is_quoted: bool = True
    row_pairs: bool = False
    session: re.Pattern[str] | None = None
    masks: tuple[tuple[str, str], ...] = ()
    window: int = 20
    max_open: int = 100_000
    k: int | None = None
    stride: int = 1
    lowercase: bool = False
    punctuation: bool = False
    characters: bool = False


def format_of(path: str) -> str:
    """The format that the end of a file's name stands for, a compression's left out; `text` where it says nothing."""
    for kind in COMPRESSIONS:
        path = path.removesuffix(f".{kind}")
    return "text" if path == STDIN else _FORMAT_OF.get(path.rpartition(".")[2].lower(), "text")
