"""The table of settings and their tests: whole, and true."""

import ast
import re
from dataclasses import fields
from pathlib import Path

from bert_pytorch.trainer.arguments import TrainingArguments

ROOT = Path(__file__).resolve().parents[2]
BY_PYTHON = {"compute_metrics", "compute_loss", "data_collator", "callbacks"}


def table():
    text = (ROOT / "skills/training/references/proof.md").read_text(encoding="utf-8")
    return [(re.findall(r"`(\w+)`", names), test) for names, test in re.findall(r"^\| (.+) \| `(\S+::\S+)` \|$", text, re.M)]


def source_of(test):
    """A test's source, decorators and helpers of its file that it names included."""
    name, function = test.split("::")
    text = (ROOT / "tests/unit" / name).read_text(encoding="utf-8")
    tree = ast.parse(text)
    parts = {each.name: each for each in tree.body if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    assert function in parts, test
    lines = text.splitlines()

    def source(node):
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return "\n".join(lines[first - 1 : node.end_lineno])

    own = source(parts[function])
    constants = [ast.get_source_segment(text, each) or "" for each in tree.body if isinstance(each, ast.Assign)]
    used = [each for each in constants if re.match(r"\w+", each) and re.search(rf"\b{each.split()[0]}\b", own)]
    return "\n".join([own, *(source(node) for name, node in parts.items() if name != function and f"{name}(" in own), *used])


HUB = {"push_to_hub", "hub_model_id", "hub_strategy"}


def test_every_setting_stands_in_the_table_once():
    names = [name for row, _ in table() for name in row]
    assert sorted(names) == sorted({each.name for each in fields(TrainingArguments)} | BY_PYTHON | HUB)


def test_every_test_named_uses_its_settings():
    for names, test in table():
        source = source_of(test)
        missing = [name for name in names if not re.search(rf"\b{name}\b", source)]
        assert missing == [], (test, missing)
