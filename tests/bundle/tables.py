"""Tables of settings in the references, made from the parsers: `python -m tests.bundle.tables` writes them anew."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from bert_pytorch import cli
from bert_pytorch.trainer.arguments import TrainingArguments

from ..unit.examples import load_root_script

ROOT = Path(__file__).resolve().parents[2]
HEAD = "| flags | default | what |\n|---|---|---|\n"
SETTINGS = {f"--{each.name}" for each in fields(TrainingArguments)}


def rows(parser: argparse.ArgumentParser, *, settings: bool | None = None) -> Iterator[str]:
    """A row a flag; only settings of training, or only others, where `settings` says so."""
    for action in parser._actions:
        is_setting = not SETTINGS.isdisjoint(action.option_strings)
        if not action.option_strings or "--help" in action.option_strings or settings not in (None, is_setting):
            continue
        value = str(action.default).lower() if isinstance(action.default, bool) else str(action.default)
        default = "required" if action.required else "" if action.default is None else f"`{value}`"
        what = str(action.help).replace("%%", "%")
        yield f"| `{', '.join(action.option_strings)}` | {default} | {what} |"


def section(text: str, heading: str) -> tuple[int, int]:
    """Where the first table below a heading begins and ends."""
    start = text.index(HEAD, text.index(heading)) + len(HEAD)
    end = text.find("\n\n", start)
    return start, len(text) if end < 0 else end + 1


def write() -> None:
    """Put the tables in their places."""
    places = [
        ("references/cli-reference.md", "## bert\n", rows(cli.bert_parser(), settings=False)),
        ("references/cli-reference.md", "## bert-vocab\n", rows(cli.vocab_parser())),
        ("references/cli-reference.md", "## install_skill.py\n", rows(load_root_script("install_skill").build_parser())),
        ("references/maintaining.md", "## check_bundle.py\n", rows(load_root_script("check_bundle").build_parser())),
        ("skills/training/references/arguments.md", "# Settings", rows(cli.bert_parser(), settings=True)),
    ]
    for name, heading, lines in places:
        text = (ROOT / name).read_text(encoding="utf-8")
        start, end = section(text, heading)
        (ROOT / name).write_text(text[:start] + "".join(f"{line}\n" for line in lines) + text[end:], encoding="utf-8")


if __name__ == "__main__":
    write()
