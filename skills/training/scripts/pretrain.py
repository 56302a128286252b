#!/usr/bin/env python3
"""Pretrain as a YAML file says: the command `bert` without installing it, settings as name=value.

    pretrain.py --config run.yaml train_dataset=train.txt vocab_path=vocab.json output_dir=run max_steps=2000

A setting is a flag of `bert` without its dashes, old or new name: `bert --help` lists all, references/arguments.md explains
those of training. The command line wins over the file. Ends with the JSON line of `bert`; exit status as of `bert`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.cli import bert_parser, train
from bert_pytorch.command import Parser


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s [--config FILE] [NAME=VALUE ...] [--json]")
    parser.reads_config = False  # The file's settings are those of `bert`.
    add = parser.add_argument
    add("settings", nargs="*", metavar="NAME=VALUE", help="a setting; a switch is NAME=true")
    add("--config", metavar="FILE", help="YAML of settings by name")
    add("--json", action="store_true", help="print the closing JSON line only, as is done anyway")
    return parser


def words_of(parser: Parser, settings: list[str]) -> list[str]:
    """Settings as the flags of `bert`."""
    flags, words = bert_parser().flags, []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name:
            parser.error(f"{setting}: expected NAME=VALUE")
        flag = f"--{name.replace('-', '_')}"
        is_switch = flag in flags and flags[flag].nargs == 0
        if is_switch and value.lower() not in ("true", "false"):
            parser.error(f"{setting}: {name} is a switch, expected true or false")
        words += ([flag] if value.lower() == "true" else []) if is_switch else [f"{flag}={value}"]
    return words


def main(argv: Sequence[str] | None = None) -> int:
    """Read the settings and train; returns the exit status."""
    parser = build_parser()
    args = parser.parse(argv)
    config = [] if args.config is None else ["--config", args.config]
    return train([*config, *words_of(parser, args.settings)])


if __name__ == "__main__":
    sys.exit(main())
