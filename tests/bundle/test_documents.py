"""What the documents promise about themselves: links, routes, front matter, sizes, tables, headings."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from bert_pytorch import cli

from ..unit.examples import load_script
from . import tables

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted(
    path.relative_to(ROOT)
    for path in (
        *ROOT.glob("*.md"),
        *ROOT.glob("references/*.md"),
        *ROOT.glob("skills/*/SKILL.md"),
        *ROOT.glob("skills/*/references/*.md"),
    )
)
SKILLS = [path for path in DOCUMENTS if path.name == "SKILL.md"]
SUB_SKILLS = [path for path in SKILLS if len(path.parts) > 1]
REFERENCES = [path for path in DOCUMENTS if "references" in path.parts]
SPECIFIED_FIELDS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}


def split(path):
    _, front, body = (ROOT / path).read_text(encoding="utf-8").split("---\n", 2)
    return yaml.safe_load(front), body


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_link_leads_to_a_file(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / path.parent / target).is_file(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_every_script_named_exists(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    for target in re.findall(r"(?:skills/[\w-]+/)?scripts/\w+\.py", text):
        assert (ROOT / target).is_file() or (ROOT / path.parent / target).is_file(), target


def test_every_script_and_reference_is_reachable_from_the_router():
    seen, queue = set(), [Path("SKILL.md")]
    while queue:
        path = queue.pop()
        if path in seen:
            continue
        seen.add(path)
        for target in re.findall(r"\]\(([^)#]+\.md)\)", (ROOT / path).read_text(encoding="utf-8")):
            queue.append((ROOT / path.parent / target).resolve().relative_to(ROOT))
    assert set(REFERENCES) | set(SKILLS) <= seen
    scripts = [p.relative_to(ROOT) for p in (*ROOT.glob("scripts/*.py"), *ROOT.glob("skills/*/scripts/*.py"))]
    assert scripts
    for script in scripts:
        # Those of a sub-skill stand in its own router.
        router = (ROOT / script.parent.parent / "SKILL.md").read_text(encoding="utf-8")
        assert f"scripts/{script.name}" in router, script


def test_root_front_matter():
    front, body = split(Path("SKILL.md"))
    assert front["name"] == "bert-pytorch"
    assert set(front) <= SPECIFIED_FIELDS
    assert 100 < len(front["description"]) <= 500
    assert len(body) <= 3200


def test_the_specifications_validator_accepts_the_root(bundle):
    validator = Path(sysconfig.get_path("scripts")) / "agentskills"
    done = subprocess.run([validator, "validate", bundle], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", SUB_SKILLS, ids=str)
def test_sub_skill_form(path):
    front, body = split(path)
    assert set(front) == {"name", "description", "disable-model-invocation", "license", "metadata"}
    assert front["name"] == path.parent.name
    assert front["disable-model-invocation"] is True
    assert front["license"] == "Apache-2.0"
    assert front["metadata"] == {"disco-role": "operating"}
    assert 100 < len(front["description"]) <= 1024
    assert len(body) <= 7000
    wanted = ["Use when", "Covers", "Do first", "Run", "Read next", "Outputs", "Not here"]
    assert [heading for heading in re.findall(r"^## (.+)$", body, re.M) if heading in wanted] == wanted


@pytest.mark.parametrize("path", SUB_SKILLS, ids=str)
def test_read_next_says_when_for_each_reference(path):
    _, body = split(path)
    section = body.split("## Read next\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("- ")]
    assert len(rows) >= 3
    assert [row for row in rows if ": when " not in row] == []
    own = {p.name for p in REFERENCES if p.parts[:2] == path.parts[:2]}
    assert [name for name in own if name not in section] == []


@pytest.mark.parametrize("path", REFERENCES, ids=str)
def test_reference_size(path):
    assert len((ROOT / path).read_text(encoding="utf-8")) <= 8000


def test_every_error_code_is_a_heading_and_every_heading_a_code():
    code = re.compile(r"\[(E-[A-Z0-9-]+)\]")
    sources = [*ROOT.glob("src/**/*.py"), *ROOT.glob("scripts/*.py"), *ROOT.glob("skills/*/scripts/*.py")]
    raised = {found for path in sources for found in code.findall(path.read_text(encoding="utf-8"))} - {"E-CODE"}
    headings = [
        heading
        for path in REFERENCES
        if path.name == "troubleshooting.md"
        for heading in re.findall(r"^## (E-\S+)$", (ROOT / path).read_text(encoding="utf-8"), re.M)
    ]
    assert len(raised) > 40
    assert sorted(headings) == sorted(raised)


PARSERS = {
    "bert": cli.bert_parser,
    "bert-vocab": cli.vocab_parser,
    "consolidate.py": load_script("training", "consolidate").build_parser,
    "doctor.py": load_script("..", "doctor").build_parser,
}


@pytest.mark.parametrize("name", PARSERS)
def test_command_reference_equals_the_parsers(name):
    parser = PARSERS[name]()
    text = (ROOT / "references/cli-reference.md").read_text(encoding="utf-8")
    section = text.split(f"## {name}\n")[1].split("\n## ")[0]
    if name == "bert":
        section += (ROOT / "skills/training/references/arguments.md").read_text(encoding="utf-8")
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(tables.rows(parser)), "python -m tests.bundle.tables writes the tables anew"
