"""Rules of a skill's head and form: front matter, budgets, sections, routes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .bundle import Bundle, Fault, line_of

NAME = "bert-pytorch"
SPECIFIED = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
SUB_SKILL = {
    "disable-model-invocation": True,
    "license": "Apache-2.0",
    "metadata": {"disco-role": "operating"},
}
DESCRIPTION = (100, 500)
DESCRIPTIONS = 1500
ROOT_BODY, SUB_BODY, REFERENCE = 3200, 7000, 8000
SECTIONS = ("Use when", "Covers", "Do first", "Run", "Read next", "Outputs", "Not here")
LEAST_ROWS = 3


def front_of(bundle: Bundle, path: Path) -> dict[str, object]:
    """A skill's front matter; empty where it cannot be read."""
    import yaml

    try:
        front = yaml.safe_load(bundle.front(path)[0])
    except yaml.YAMLError:
        return {}
    return front if isinstance(front, dict) else {}


def front_matter(bundle: Bundle) -> Iterator[Fault]:
    """The root has the specification's fields only, a sub-skill exactly its form."""
    for path in bundle.skills:
        front = front_of(bundle, path)
        text = bundle.text(path)
        if not front:
            yield Fault(f"{path}:1", "no front matter that YAML can read", "begin with ---, name, description, ---")
            continue
        is_root = path == Path("SKILL.md")
        name = NAME if is_root else path.parent.name
        allowed = SPECIFIED if is_root else ("name", "description", *SUB_SKILL)
        for field in front:
            if field not in allowed:
                where = f"{path}:{line_of(text, str(field))}"
                yield Fault(where, f"field {field!r} is none of {', '.join(allowed)}", "take it out")
        if front.get("name") != name:
            where = f"{path}:{line_of(text, 'name:')}"
            yield Fault(where, f"name: expected {name!r}, got {front.get('name')!r}", "name the skill as its folder")
        for field, value in {} if is_root else SUB_SKILL.items():
            if front.get(field) != value:
                where = f"{path}:{line_of(text, field)}"
                yield Fault(where, f"{field}: expected {value!r}, got {front.get(field)!r}", "copy it from another sub-skill")


def budgets(bundle: Bundle) -> Iterator[Fault]:
    """Nothing is longer than a reader is asked to bear."""
    together = 0
    for path in bundle.skills:
        front = front_of(bundle, path)
        description = str(front.get("description", ""))
        together += len(description)
        # Without front matter that is the fault, and told by its own rule.
        if front and not DESCRIPTION[0] <= len(description) <= DESCRIPTION[1]:
            where = f"{path}:{line_of(bundle.text(path), 'description')}"
            what = f"description of {len(description)} characters, expected {DESCRIPTION[0]} to {DESCRIPTION[1]}"
            yield Fault(where, what, "say what it does and when to use it")
        _, body, first = bundle.front(path)
        most = ROOT_BODY if path == Path("SKILL.md") else SUB_BODY
        if len(body) > most:
            yield Fault(f"{path}:{first}", f"body of {len(body)} characters, at most {most}", "move details to a reference")
    if together > DESCRIPTIONS:
        where = f"SKILL.md:{line_of(bundle.text(Path('SKILL.md')), 'description')}"
        yield Fault(where, f"descriptions of {together} characters together, at most {DESCRIPTIONS}", "shorten the longest")
    for path in bundle.references:
        if len(bundle.text(path)) > REFERENCE:
            yield Fault(f"{path}:1", f"{len(bundle.text(path))} characters, at most {REFERENCE}", "split it by subject")


def sections(bundle: Bundle) -> Iterator[Fault]:
    """A sub-skill has its sections in order, and says of each reference when to read it."""
    for path in bundle.sub_skills:
        text = bundle.text(path)
        found = [heading for heading in re.findall(r"^## (.+)$", text, re.M) if heading in SECTIONS]
        if found != list(SECTIONS):
            where = f"{path}:{line_of(text, '## ')}"
            yield Fault(where, f"sections {', '.join(found)}", f"have {', '.join(SECTIONS)}, in this order")
            continue
        start = line_of(text, "## Read next")
        # A row may go on in the next line.
        section = text.split("## Read next\n")[1].split("\n## ")[0]
        rows = [(start + 1 + number, row) for number, row in enumerate(section.splitlines()) if row.startswith("- ")]
        for number, row in rows:
            if ": when " not in row:
                yield Fault(f"{path}:{number}", "a row does not say when to read", "end it with ': when ...'")
        if len(rows) < LEAST_ROWS:
            yield Fault(f"{path}:{start}", f"{len(rows)} rows under Read next, at least {LEAST_ROWS}", "name the references")
        for page in bundle.references:
            if page.parts[:2] == path.parts[:2] and page.name not in section:
                yield Fault(f"{path}:{start}", f"{page.name} is not under Read next", "add a row with ': when ...'")


def routes(bundle: Bundle) -> Iterator[Fault]:
    """The root's table leads to every sub-skill, and each leads back."""
    root = Path("SKILL.md")
    text = bundle.text(root)
    rows = [(number, line) for number, line in bundle.lines(root) if line.startswith("|")]
    table = rows[0][0] if rows else 1
    for path in bundle.sub_skills:
        if not any(f"]({path.as_posix()})" in row for _, row in rows):
            yield Fault(f"{root}:{table}", f"no route to {path.as_posix()}", "add a row with the nouns that lead there")
        if "](../../SKILL.md)" not in bundle.text(path):
            yield Fault(f"{path}:{bundle.front(path)[2]}", "no link back to the root", "link ../../SKILL.md")
    for number, row in rows:
        for name in re.findall(r"\]\((skills/[^)]+)\)", row):
            if Path(name) not in bundle.sub_skills:
                yield Fault(f"{root}:{number}", f"a route to {name}, which is no sub-skill", "lead to a skills/NAME/SKILL.md")
    if "Tie-break" not in text:
        yield Fault(f"{root}:{table}", "no tie-breaker for requests with several nouns", "add a paragraph 'Tie-break: ...'")
