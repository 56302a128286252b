"""A bundle as its rules see it: documents, sub-skills, sources, and a fault with its place."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```+)(.*)$")


@dataclass(frozen=True)
class Fault:
    """What is wrong, where (`file:line`), and what to do."""

    where: str
    what: str
    cure: str

    def __str__(self) -> str:
        """One line, in the form of every message of this project."""
        return f"{self.where}: {self.what}; {self.cure}"


@dataclass(frozen=True)
class Rule:
    """A rule by its name: the files it looks at, and the faults it finds in them."""

    name: str
    files: Callable[[Bundle], Sequence[Path]]
    faults: Callable[[Bundle], Iterator[Fault]]


class Bundle:
    """A folder with a root `SKILL.md`. All paths are relative to it, and the texts are read once.

    Args:
        root: The folder.
    """

    def __init__(self, root: Path) -> None:
        """Look at nothing yet."""
        self.root = root.resolve()
        self._texts: dict[Path, str] = {}

    def text(self, path: Path) -> str:
        """A file's text."""
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(encoding="utf-8")
        return self._texts[path]

    def lines(self, path: Path) -> Iterator[tuple[int, str]]:
        """A file's lines, numbered from 1."""
        return enumerate(self.text(path).splitlines(), start=1)

    def find(self, *patterns: str) -> list[Path]:
        """Files by glob patterns, sorted, caches left out."""
        found = {path.relative_to(self.root) for pattern in patterns for path in self.root.glob(pattern) if path.is_file()}
        return sorted(path for path in found if "__pycache__" not in path.parts)

    @cached_property
    def documents(self) -> list[Path]:
        """Every Markdown file that a reader is given."""
        return self.find("*.md", "references/**/*.md", "skills/**/*.md", "evals/*.md")

    @cached_property
    def manuals(self) -> list[Path]:
        """Documents that say what is true today; a changelog tells what was."""
        return [path for path in self.documents if path.name != "CHANGELOG.md"]

    @cached_property
    def sub_skills(self) -> list[Path]:
        """The sub-skills' `SKILL.md`, which an installed copy calls `GUIDE.md`."""
        return self.find("skills/*/SKILL.md", "skills/*/GUIDE.md")

    def router(self, folder: Path) -> Path:
        """The page from which a skill's folder is entered."""
        return next((path for path in self.sub_skills if path.parent == folder), Path("SKILL.md"))

    @cached_property
    def skills(self) -> list[Path]:
        """The root's `SKILL.md` and those of the sub-skills."""
        return [Path("SKILL.md"), *self.sub_skills]

    @cached_property
    def references(self) -> list[Path]:
        """Pages in a folder `references`."""
        return [path for path in self.documents if "references" in path.parts]

    @cached_property
    def scripts(self) -> list[Path]:
        """Files that a user runs."""
        return self.find("scripts/*.py", "skills/*/scripts/*.py")

    @cached_property
    def programs(self) -> list[Path]:
        """Scripts, and what is run to evaluate the bundle."""
        return [*self.scripts, *self.find("evals/run.py")]

    @cached_property
    def sources(self) -> list[Path]:
        """Every Python file: library, scripts, what stands beside them, evaluations."""
        return self.find("src/**/*.py", "scripts/**/*.py", "skills/*/scripts/**/*.py", "evals/*.py")

    def front(self, path: Path) -> tuple[str, str, int]:
        """A skill's front matter, its body, and the number of the body's first line; an empty front where there is none."""
        text = self.text(path)
        parts = text.split("---\n", 2)
        if len(parts) != 3 or parts[0]:
            return "", text, 1
        return parts[1], parts[2], parts[1].count("\n") + 3

    def steps(self, path: Path) -> Iterator[tuple[int, str, str]]:
        """The lines of a document with their number and kind: `text`, or the language of the block they stand in."""
        language = ""
        for number, line in self.lines(path):
            fence = FENCE.match(line)
            if fence:
                language = "" if language else fence[2].strip() or "none"
            else:
                yield number, language or "text", line

    def targets(self, path: Path) -> Iterator[tuple[int, str]]:
        """Where a document's links lead, the web left out; with the number of their line."""
        for number, kind, line in self.steps(path):
            if kind == "text":
                yield from ((number, target) for target in LINK.findall(line) if "://" not in target)


@cache
def tree_of(text: str) -> ast.Module:
    """A Python file, parsed; several rules look at each."""
    return ast.parse(text)


def line_of(text: str, wanted: str) -> int:
    """The number of the first line that begins so, or 1."""
    return next((number for number, line in enumerate(text.splitlines(), start=1) if line.startswith(wanted)), 1)
