"""The troubleshooting references of a bundle: what each code means, and the messages in their tables."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

_HEADING = re.compile(r"^## (E-[A-Z0-9-]+)$\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_COMMANDS = ("python", "bert", "bert-vocab", "sed", "awk", "tr", "iconv", "jq", "taskset", "unset", "torchrun", "nc")
_LEAST_LITERAL = 12


class Section(NamedTuple):
    """What the references say of a code."""

    code: str
    path: Path
    text: str

    @property
    def commands(self) -> list[str]:
        """Pieces of code in it that are whole commands."""
        pieces = [" ".join(piece.split()) for piece in re.findall(r"`([^`]+)`", self.text)]
        return [piece for piece in pieces if piece.split()[0] in _COMMANDS and len(piece.split()) > 1]


class Row(NamedTuple):
    """A row of a table of messages or symptoms."""

    path: Path
    literal: str
    """A piece of the message, as it is printed."""
    needed: tuple[str, ...]
    """Names of files that stand in the text too."""
    advice: str


class Handbook:
    """The troubleshooting references below a folder."""

    def __init__(self, bundle: Path) -> None:
        """Name the folder of the bundle; the files are read when something is asked."""
        self.bundle = bundle

    @cached_property
    def _texts(self) -> dict[Path, str]:
        paths = [*self.bundle.glob("*/troubleshooting*.md"), *self.bundle.glob("*/*/*/troubleshooting*.md")]
        return {path: path.read_text(encoding="utf-8") for path in sorted(paths)}

    @cached_property
    def sections(self) -> dict[str, Section]:
        """What each code means, by code."""
        found = ((path, match) for path, text in self._texts.items() for match in _HEADING.finditer(text))
        return {match[1]: Section(match[1], path, " ".join(match[2].split())) for path, match in found}

    @cached_property
    def rows(self) -> list[Row]:
        """The messages of the tables, longest first."""
        rows = [row for path, text in self._texts.items() for row in _rows_of(path, text)]
        return sorted(rows, key=lambda row: -len(row.literal))

    def script(self, name: str) -> str | None:
        """The command that runs a script of the bundle, by its name without ending; `BUNDLE` is the folder itself."""
        if name == "BUNDLE":
            return shlex.quote(str(self.bundle))
        paths = [*self.bundle.glob(f"[!.]*/{name}.py"), *self.bundle.glob(f"[!.]*/*/*/{name}.py")]
        paths = [path for path in paths if path.parent.name == paths[0].parent.name != "src"]
        return f"python {shlex.quote(str(paths[0]))}" if paths else None

    def with_scripts(self, text: str) -> str:
        """A text with the commands of scripts for their names in braces; other braces stay."""
        return re.sub(r"\{(\w+)\}", lambda found: self.script(found[1]) or found[0], text)

    def resolved(self, text: str) -> str:
        """A text of the references with the bundle's folder for BUNDLE, and scripts named by their full paths."""
        text = re.sub(r"\bBUNDLE\b", shlex.quote(str(self.bundle)).replace("\\", r"\\"), text)
        return re.sub(r"(?<![\w/.-])(?:python )?(\w+)\.py\b", lambda found: self.script(found[1]) or found[0], text)


def _rows_of(path: Path, text: str) -> Iterator[Row]:
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if not line.startswith("| `") or len(cells) < 2:
            continue
        literals = re.findall(r"`([^`]+)`", cells[0])
        needed = tuple(literal for literal in literals if re.fullmatch(r"\w+\.py", literal))
        for literal in literals:
            # The longest piece between dots that stand for anything.
            piece = max((part.strip() for part in literal.split("...")), key=len)
            is_message = " " in piece or piece.endswith("Error")
            if len(piece) >= _LEAST_LITERAL and is_message and not piece.startswith('"'):
                yield Row(path, piece, needed, cells[-1])


def bundle_of(script: str) -> Path:
    """The folder of the bundle that a script lies in."""
    parents = Path(script).resolve().parents
    return next((p for p in parents if (p / "src" / "bert_pytorch").is_dir()), Path(sys.argv[0]).resolve().parent)
