"""Rows of files: tables (CSV, TSV, JSONL, Parquet), CoNLL columns, SQuAD JSON, a text a line, folders of `datasets`."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..errors import InputError, UnreadableError
from ..extras import import_extra

Row = Mapping[str, Any]
_ENDINGS = {
    **{".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "json"},
    **{".parquet": "parquet", ".pq": "parquet", ".conll": "conll", ".bio": "conll", ".iob": "conll", ".iob2": "conll"},
    **{".txt": "text"},
}


@dataclass(frozen=True)
class Table:
    """Rows of one file.

    Attributes:
        source: The file.
        columns: Names of the columns.
        rows: Values by column.
        lines: Where each row begins in the file, counted from 1; for files without lines its number.
    """

    source: str
    columns: Sequence[str]
    rows: Sequence[Row]
    lines: Sequence[int]

    def where(self, i: int) -> str:
        """The place of a row, for messages."""
        return f"{self.source}:{self.lines[i]}"

    def take(self, places: Sequence[int]) -> Table:
        """Some of the rows."""
        return Table(self.source, self.columns, [self.rows[i] for i in places], [self.lines[i] for i in places])


def read_table(path: str, file_format: str | None = None, text_column: str | None = None) -> Table:
    """The rows of a file.

    Args:
        path: The file.
        file_format: One of csv, tsv, jsonl, json, parquet, conll, squad, text (a text a line); None: as its name ends, and JSON
            by what is in it.
        text_column: The name under which lines of text are found again; None: `text`.

    Raises:
        UnreadableError: It cannot be read.
        InputError: It is not of this format, or has no rows; the message says where.
        UnavailableError: A package that reads it is not installed.
    """
    kind = file_format or _ENDINGS.get(Path(path).suffix.lower())
    if kind is None:
        known = ", ".join(sorted(set(_ENDINGS)))
        raise InputError(f"{path}: its ending names no format, expected one of {known}; set file_format [E-FINETUNE-FORMAT]")
    if kind == "parquet":
        table = _read_parquet(path)
    else:
        readers: dict[str, Callable[[str, str], Table]] = {
            **{"csv": _read_csv, "tsv": _read_tsv, "jsonl": _read_lines, "json": _read_json},
            **{"conll": _read_conll, "squad": _read_json, "text": partial(_read_texts, text_column or "text")},
        }
        table = readers[kind](path, _text_of(path))
    if not table.rows:
        raise InputError(f"{path}: no rows; check the file and file_format [E-FINETUNE-FORMAT]")
    return table


def read_folder(path: str) -> dict[str, Table]:
    """The splits of a folder that the datasets package saved, by name; one that has none is `train`.

    Raises:
        InputError: It is no such folder.
        UnavailableError: datasets is not installed.
    """
    datasets = import_extra("datasets", "datasets")
    try:
        loaded = datasets.load_from_disk(path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: no folder of save_to_disk: {reason}; check data_dir [E-FINETUNE-FORMAT]") from error
    splits = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    return {name: _of_dataset(f"{path}[{name}]", split) for name, split in splits.items()}


def _of_dataset(source: str, split: Iterable[Row]) -> Table:
    rows = [dict(row) for row in split]
    return Table(source, list(rows[0]) if rows else [], rows, range(1, len(rows) + 1))


def _text_of(path: str) -> str:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: no UTF-8; save the file as UTF-8 [E-FINETUNE-FORMAT]") from error


def _read_csv(path: str, text: str) -> Table:
    return _read_delimited(path, text, ",", csv.QUOTE_MINIMAL)


def _read_tsv(path: str, text: str) -> Table:
    # As in GLUE: a quotation mark is a letter of the text.
    return _read_delimited(path, text, "\t", csv.QUOTE_NONE)


def _read_delimited(path: str, text: str, delimiter: str, quoting: Literal[0, 3]) -> Table:
    csv.field_size_limit(1 << 30)
    reader = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, quoting=quoting)
    rows, lines, columns = [], [], []
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"{path}:{line}: {error}; check its quotation marks [E-FINETUNE-FORMAT]") from error
        if cells is None:
            break
        if not columns:
            columns = [cell.strip() for cell in cells]
            _check_header(path, columns)
        elif cells:
            if len(cells) != len(columns):
                counts = f"expected {len(columns)} columns as in its first line, got {len(cells)}"
                raise InputError(f"{path}:{line}: {counts}; mend the line [E-FINETUNE-FORMAT]")
            rows.append(dict(zip(columns, cells, strict=True)))
            lines.append(line)
    return Table(path, columns, rows, lines)


def _check_header(path: str, columns: Sequence[str]) -> None:
    if len(set(columns)) < len(columns) or not all(columns):
        raise InputError(f"{path}:1: expected names of columns, each once, got {columns}; add a first line [E-FINETUNE-FORMAT]")


def _read_texts(column: str, path: str, text: str) -> Table:
    found = [(line, number) for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1) if line.strip()]
    with_tab = next((number for line, number in found if "\t" in line), None)
    if with_tab is not None:
        message = "a tab, but .txt is one text a line; if it has columns, name them in a first line and the file .tsv"
        raise InputError(f"{path}:{with_tab}: {message} [E-FINETUNE-FORMAT]")
    return Table(path, [column], [{column: line} for line, _ in found], [number for _, number in found])


def _read_lines(path: str, text: str) -> Table:
    rows, lines = [], []
    # Only line feeds end a record: a text may hold other separators of lines.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{path}:{number}: no JSON: {error}; write one object a line [E-FINETUNE-FORMAT]") from error
            if not isinstance(row, dict):
                raise InputError(f"{path}:{number}: expected an object, got {type(row).__name__} [E-FINETUNE-FORMAT]")
            rows.append(row)
            lines.append(number)
    return Table(path, list(dict.fromkeys(name for row in rows for name in row)), rows, lines)


def _read_json(path: str, text: str) -> Table:
    """SQuAD's form, a list of objects, or an object whose `data` is one."""
    try:
        content = json.loads(text)
    except ValueError as error:
        if text.lstrip().startswith("{") and text.strip().count("\n"):
            return _read_lines(path, text)
        raise InputError(f"{path}: no JSON: {error} [E-FINETUNE-FORMAT]") from error
    data = content.get("data") if isinstance(content, dict) else content
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise InputError(f"{path}: expected a list of objects, or SQuAD's data [E-FINETUNE-FORMAT]")
    if data and "paragraphs" in data[0]:
        return _read_squad(path, data)
    return Table(path, list(dict.fromkeys(name for row in data for name in row)), data, range(1, len(data) + 1))


def _read_squad(path: str, articles: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    try:
        for article in articles:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = question.get("answers", [])
                    found = {"text": [a["text"] for a in answers], "answer_start": [a["answer_start"] for a in answers]}
                    asked = {"id": str(question["id"]), "question": question["question"], "context": paragraph["context"]}
                    rows.append({**asked, "answers": found})
    except (KeyError, TypeError, AttributeError) as error:
        where = f"{path}: question {len(rows) + 1}"
        raise InputError(f"{where} lacks {error}; expected SQuAD's form [E-FINETUNE-FORMAT]") from error
    return Table(path, ["id", "question", "context", "answers"], rows, range(1, len(rows) + 1))


def _read_conll(path: str, text: str) -> Table:
    """Sentences of token lines, the tag in the last column, a blank line between two; `-DOCSTART-` is left out."""
    rows, lines = [], []
    tokens: list[str] = []
    tags: list[str] = []
    n_columns = start = 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        cells = line.rstrip("\r").split("\t") if "\t" in line.strip("\r") else line.split()
        if not line.strip():
            if tokens and tokens != ["-DOCSTART-"]:
                rows.append({"tokens": tokens, "tags": tags})
                lines.append(start)
            tokens, tags = [], []
            continue
        if n_columns and len(cells) != n_columns:
            counts = f"expected {n_columns} columns as above, got {len(cells)}"
            raise InputError(f"{path}:{number}: {counts}; mend the line [E-FINETUNE-FORMAT]")
        n_columns = len(cells)
        if n_columns < 2:
            raise InputError(f"{path}:{number}: expected a token and its tag, got 1 column [E-FINETUNE-FORMAT]")
        start = start if tokens else number
        tokens.append(cells[0])
        tags.append(cells[-1].strip())
    return Table(path, ["tokens", "tags"], rows, lines)


def _read_parquet(path: str) -> Table:
    if not os.path.isfile(path):
        raise UnreadableError.of(path, FileNotFoundError(2, "No such file or directory"), "check the path [E-FILE-READ]")
    parquet, arrow = import_extra("pyarrow.parquet", "pyarrow"), import_extra("pyarrow", "pyarrow")
    try:
        content = parquet.read_table(path)
    except (OSError, arrow.ArrowInvalid) as error:
        raise InputError(f"{path}: no Parquet: {' '.join(str(error).split())} [E-FINETUNE-FORMAT]") from error
    rows = content.to_pylist()
    return Table(path, list(content.column_names), rows, range(1, len(rows) + 1))
