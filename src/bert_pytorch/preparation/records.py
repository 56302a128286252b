"""Records of JSON lines and tables: the texts of each, and the group it belongs to."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import InputError
from .layout import Layout
from .sources import Source

_MOST_CHARACTERS_A_CELL = 1 << 26
"""A quote that is never closed must not take the rest of a large file into memory."""
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_REMEDY = "or pass --skip_bad_lines [E-PAIRS-RECORD]"


class Record(NamedTuple):
    """What a record gives to a document."""

    group: str
    """What it shares with the other records of its document; empty where records are not grouped."""
    texts: list[str]
    are_sentences: bool
    """Each text is one sentence, whatever line ends it holds."""


class _BadRecord(Exception):
    """What is wrong with a record, and what to do."""


def read_jsonl(source: Source, layout: Layout) -> Iterator[Record]:
    """One record a line; blank lines are none.

    Raises:
        InputError: A line is no JSON object with a text under the name, and bad ones are not to be left out.
    """
    for line in source.lines():
        if line is None or not line.strip():
            continue
        try:
            yield _record(line, layout)
        except _BadRecord as fault:
            source.refuse(f"{fault}, {_REMEDY}")


def _record(line: str, layout: Layout) -> Record:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _BadRecord(f"expected a JSON object on one line, got {_kind_of_fault(error)}; mend it") from error
    found = _look_up(value, layout.field)
    texts = found if isinstance(found, list) else [found]
    texts = [text for text in texts if isinstance(text, str)]
    if isinstance(found, list) and len(texts) != len(found):
        raise _BadRecord(f"expected a text or a list of texts under {layout.field!a}, got other things in it; mend it")
    if not isinstance(found, list | str):
        raise _BadRecord(f"expected a text or a list of texts under {layout.field!a}, got {_kind(found)}; name --field")
    try:
        "".join(texts).encode("utf-8")
    except UnicodeEncodeError as error:
        raise _BadRecord("expected text, got half a character (a lone surrogate); mend it") from error
    return Record(_group(value, layout.group_by), texts, isinstance(found, list))


def _group(value: object, name: str | None) -> str:
    if name is None:
        return ""
    group = _look_up(value, name)
    if not isinstance(group, str | int | float):
        raise _BadRecord(f"expected a text or a number under {name!a}, got {_kind(group)}; name --group_by")
    return repr(group)


def _look_up(value: object, name: str) -> object:
    """What stands under a name, or under a path of names parted by dots; None where there is nothing."""
    if isinstance(value, dict) and name in value:
        return value[name]
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _kind_of_fault(error: Exception) -> str:
    return "too deep a nesting" if isinstance(error, RecursionError) else f"no JSON ({ascii(str(error))[1:-1]})"


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def read_table(source: Source, layout: Layout) -> Iterator[Record]:
    """One record a row of a CSV or TSV file; blank rows are none.

    Raises:
        InputError: A column is missing, or a row is bad and bad ones are not to be left out.
    """
    csv.field_size_limit(_MOST_CHARACTERS_A_CELL)
    quoting = csv.QUOTE_MINIMAL if layout.is_quoted else csv.QUOTE_NONE
    lines = (line + "\n" for line in source.lines() if line is not None)
    rows = csv.reader(lines, delimiter=_DELIMITERS[layout.format], quoting=quoting, strict=True)
    header: list[str] | None = None
    columns: list[int] = []
    group: int | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            advice = "mend the quotes, pass --no_quotes where they are plain characters"
            source.refuse(f"expected a row of cells, got a fault: {error}; {advice}, {_REMEDY}")
            continue
        if not row:
            continue
        if header is None:
            header = row
            names = header if layout.has_header else []
            columns = [_column(source, name, names, len(header)) for name in layout.columns]
            group = None if layout.group_by is None else _column(source, layout.group_by, names, len(header))
            if layout.has_header:
                continue
        if len(row) != len(header):
            source.refuse(f"expected {len(header)} cells as in the first row, got {len(row)}; quote the cell, {_REMEDY}")
            continue
        texts = [row[column] for column in columns]
        yield Record("" if group is None else row[group], texts, layout.row_pairs)


def _column(source: Source, name: str, header: list[str], n_columns: int) -> int:
    """Index of a column by its name, or by its number from 1."""
    if name in header:
        return header.index(name)
    if name.isdecimal() and 1 <= int(name) <= n_columns:
        return int(name) - 1
    got = f"the columns {header[:20]!a}" if header else f"{n_columns} columns without names"
    raise InputError(
        f"{source.name}: no column {name!a}, got {got}; name others, or numbers from 1, with --columns [E-PAIRS-COLUMN]"
    )
