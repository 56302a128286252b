"""Rules of the Python files: error codes and their headings, calls that never occur, encodings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from .bundle import Bundle, Fault, tree_of

RAISED = re.compile(r"\[(E-[A-Z0-9-]+)\]")
NAMED = re.compile(r"(?<![\w-])E-[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*(-?\.\.\.|-\*)?")
EXAMPLES = {"E-CODE"}
"""Codes that stand for any."""
HEADING = re.compile(r"^## (E-\S+)$")
NEVER = ("eval", "exec", "input")
READERS = {"read_text": 0, "write_text": 1}
"""Where the encoding stands among the positional arguments."""
OPENERS = ("open", "fdopen", "NamedTemporaryFile", "TemporaryFile")
RUNNERS = ("run", "Popen", "check_output")


def raised(bundle: Bundle) -> dict[str, str]:
    """The codes that the sources raise, and where each stands first."""
    found: dict[str, str] = {}
    for path in bundle.sources:
        for number, line in bundle.lines(path):
            for code in RAISED.findall(line):
                found.setdefault(code, f"{path}:{number}")
    return {code: where for code, where in found.items() if code not in EXAMPLES}


def headings(bundle: Bundle) -> list[tuple[str, str]]:
    """The codes that are headings of a page on troubleshooting, and where."""
    pages = [path for path in bundle.references if path.name == "troubleshooting.md"]
    return [
        (match[1], f"{path}:{number}")
        for path in pages
        for number, line in bundle.lines(path)
        if (match := HEADING.match(line)) is not None
    ]


def codes(bundle: Bundle) -> Iterator[Fault]:
    """A code named in a text is raised somewhere, and every code raised has one heading."""
    known = raised(bundle)
    places: dict[str, list[str]] = {}
    for code, where in headings(bundle):
        places.setdefault(code, []).append(where)
    for code, where in known.items():
        if code not in places:
            yield Fault(where, f"{code} has no heading", f"write '## {code}' with its cure in a troubleshooting.md")
    for code, wheres in places.items():
        if len(wheres) > 1:
            yield Fault(wheres[1], f"{code} is a heading in {wheres[0]} too", "keep one")
    for path in bundle.manuals:
        for number, line in bundle.lines(path):
            for match in NAMED.finditer(line):
                code, rest = match[0].removesuffix(match[1] or ""), match[1]
                is_known = any(each.startswith(f"{code}-") for each in known) if rest else code in known
                if not is_known and code not in EXAMPLES:
                    yield Fault(f"{path}:{number}", f"no source raises {match[0]}", "correct the code, or take it out")


def calls(bundle: Bundle, path: Path) -> Iterator[ast.Call]:
    """Every call in a file."""
    return (node for node in ast.walk(tree_of(bundle.text(path))) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    """What is called, without the object it belongs to."""
    function = call.func
    return function.id if isinstance(function, ast.Name) else function.attr if isinstance(function, ast.Attribute) else ""


def never_called(bundle: Bundle) -> Iterator[Fault]:
    """Nothing asks a question, and nothing runs a text as code."""
    for path in bundle.sources:
        for call in calls(bundle, path):
            if isinstance(call.func, ast.Name) and call.func.id in NEVER:
                cure = "take a flag" if call.func.id == "input" else "read the text as data"
                yield Fault(f"{path}:{call.lineno}", f"{call.func.id}() is called", cure)


def encodings(bundle: Bundle) -> Iterator[Fault]:
    """Text is read and written by a named encoding: what a system takes by default is not the same everywhere."""
    for path in bundle.sources:
        for call in calls(bundle, path):
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            if "encoding" not in given and _takes_text(call, given):
                yield Fault(f"{path}:{call.lineno}", f"{name_of(call)}() of text without an encoding", 'add encoding="utf-8"')


def _takes_text(call: ast.Call, given: dict[str | None, ast.expr]) -> bool:
    """Whether a call opens a file, or a process, as text."""
    name, function = name_of(call), ast.unparse(call.func)
    if name in READERS:
        return len(call.args) <= READERS[name]
    if name in RUNNERS:
        flag = given.get("text", given.get("universal_newlines"))
        return isinstance(flag, ast.Constant) and flag.value is True
    if name not in OPENERS or function == "os.open":
        return False
    # The mode stands first in a path's method and in what makes temporary files, else second.
    place = 0 if function.endswith(".open") or name.endswith("File") else 1
    mode = given.get("mode", call.args[place] if len(call.args) > place else None)
    if mode is None:
        # Temporary files are binary unless told; not everything with a method `open` is a path.
        return not name.endswith("File") and (place == 1 or "path" in function.lower())
    return isinstance(mode, ast.Constant) and isinstance(mode.value, str) and "b" not in mode.value
