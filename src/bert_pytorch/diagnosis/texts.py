"""A text - an error, a traceback, a log - told by the codes of this library and by known messages of others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..finetuning.names import GONE, RENAMED
from .codes import finding_of
from .handbook import Handbook
from .messages_libraries import LIBRARIES
from .messages_machine import MACHINE
from .messages_torch import TORCH
from .rules import LISTED, USUAL, Finding, Rule, compiled, fill_in

RULES: tuple[Rule, ...] = (*TORCH, *LIBRARIES, *MACHINE)
_CODE = re.compile(r"\bE-[A-Z]+(?:-[A-Z0-9]+)*\b")
_PACKAGES = {
    **{"sklearn": "scikit-learn", "yaml": "pyyaml", "drain3": "drain3-improved", "rouge_score": "rouge-score"},
    **{"huggingface_hub": "huggingface_hub", "google": "protobuf", "PIL": "pillow"},
}
_OLD_ARGUMENT = re.compile(r"(?<!\w)(\w{1,80})\.__init__\(\) got an unexpected keyword argument '(\w+)'")
_NO_MODULE = re.compile(r"No module named '([\w.]+)'")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def diagnose_text(text: str, book: Handbook) -> list[Finding]:
    """What the text tells, most specific and earliest first.

    Args:
        text: An error, a traceback or a log, of any length.
        book: The references that say what codes mean.
    """
    text = _COLOURS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    found = [*_codes(text, book), *_rules(text, book), *_arguments(text), *_modules(text)]
    seen_lines = {_line_at(text, place) for place, _ in found}
    found += [(place, each) for place, each in _rows(text, book) if _line_at(text, place) not in seen_lines]
    found.sort(key=lambda item: (item[1].rank, item[0]))
    by_rule: dict[str, Finding] = {}
    for _, finding in found:
        by_rule.setdefault(finding.rule, finding)
    return list(by_rule.values())


def of_old_argument(name: str, where: str, rank: int = USUAL) -> Finding | None:
    """What to write for a setting that Transformers no longer has under this name; None: it is no such name."""
    if name in RENAMED:
        step = f"write {RENAMED[name][0]} in place of {name}"
        return Finding("hf-argument-renamed", where, f"Transformers renamed {name}", step, rank)
    if name in GONE:
        return Finding("hf-argument-gone", where, f"Transformers took {name} away", f"{name}: {GONE[name]}", rank)
    return None


def _codes(text: str, book: Handbook) -> Iterator[tuple[int, Finding]]:
    seen: set[str] = set()
    for match in _CODE.finditer(text):
        if match[0] in seen:
            continue
        seen.add(match[0])
        line = _line_at(text, match.start())
        closing = re.search(r'"error": "((?:[^"\\]|\\.)*)"', line)
        finding = finding_of(match[0], closing[1] if closing else line, book)
        if finding:
            yield match.start(), finding


def _rules(text: str, book: Handbook) -> Iterator[tuple[int, Finding]]:
    taken: list[re.Match[str]] = []
    for rule in RULES:
        found = compiled(rule.pattern).search(text)
        if found is None:
            continue
        # Of rules for one message the first in the table, the more special one, tells.
        if any(other.start() <= found.start() < other.end() for other in taken):
            continue
        taken.append(found)
        cause, next_step = (fill_in(each, found, book.script) for each in (rule.cause, rule.next))
        yield found.start(), Finding(rule.name, _line_at(text, found.start()).strip(), cause, next_step, rule.rank)


def _arguments(text: str) -> Iterator[tuple[int, Finding]]:
    for found in _OLD_ARGUMENT.finditer(text):
        owner, name = found.groups()
        finding = of_old_argument(name, _line_at(text, found.start()).strip()) if "Arguments" in owner else None
        if finding:
            yield found.start(), finding


def _modules(text: str) -> Iterator[tuple[int, Finding]]:
    for found in _NO_MODULE.finditer(text):
        root = found[1].partition(".")[0]
        if root != "bert_pytorch":
            package = _PACKAGES.get(root, root)
            cause = f"the package {package} is not installed for the Python that runs"
            line = _line_at(text, found.start()).strip()
            yield found.start(), Finding("module-missing", line, cause, f"python -m pip install {package}", LISTED)


def _rows(text: str, book: Handbook) -> Iterable[tuple[int, Finding]]:
    for row in book.rows:
        place = text.find(row.literal)
        if place >= 0 and all(name in text for name in row.needed):
            line = _line_at(text, place).strip()
            advice = row.advice.replace("`", "")
            cause, _, cure = advice.partition(": ")
            finding = Finding(f"listed: {row.literal}", line, cause, book.resolved(cure or advice), LISTED)
            yield place, finding


def _line_at(text: str, place: int) -> str:
    end = text.find("\n", place)
    return text[text.rfind("\n", 0, place) + 1 : end if end >= 0 else len(text)]
