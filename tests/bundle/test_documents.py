"""What the bundle promises about itself: `scripts/check_bundle.py` knows the rules, and finds no fault."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest
from bundle_rules.bundle import Bundle
from bundle_rules.rules import RULES, VERSIONS

from bert_pytorch import cli

from ..unit.examples import load_root_script, load_script
from . import tables

ROOT = Path(__file__).resolve().parents[2]
BUNDLE = Bundle(ROOT)


@pytest.mark.parametrize("rule", [*RULES, VERSIONS], ids=lambda rule: rule.name)
def test_the_bundle_keeps_the_rule(rule):
    assert rule.files(BUNDLE)
    assert [str(fault) for fault in rule.faults(BUNDLE)] == []


def test_the_specifications_validator_accepts_the_root(bundle):
    validator = Path(sysconfig.get_path("scripts")) / "agentskills"
    done = subprocess.run([validator, "validate", bundle], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


PARSERS = {
    "bert": cli.bert_parser,
    "bert-vocab": cli.vocab_parser,
    "install_skill.py": load_root_script("install_skill").build_parser,
    "consolidate.py": load_script("training", "consolidate").build_parser,
    "check_bundle.py": load_root_script("check_bundle").build_parser,
    "doctor.py": load_root_script("doctor").build_parser,
}


@pytest.mark.parametrize("name", PARSERS)
def test_command_reference_equals_the_parsers(name):
    parser = PARSERS[name]()
    page = "maintaining" if name == "check_bundle.py" else "cli-reference"
    text = (ROOT / f"references/{page}.md").read_text(encoding="utf-8")
    section = text.split(f"## {name}\n")[1].split("\n## ")[0]
    if name == "bert":
        section += (ROOT / "skills/training/references/arguments.md").read_text(encoding="utf-8")
    rows = [line for line in section.splitlines() if line.startswith("| `-")]
    assert sorted(rows) == sorted(tables.rows(parser)), "python -m tests.bundle.tables writes the tables anew"
