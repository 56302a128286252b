"""How the scripts of fine-tuning read settings: a YAML by `--config`, and words `name=value` that win over it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from ..command import Parser
from .settings import ENGINES, Settings, read_settings


class SettingsParser(Parser):
    """A parser whose `--config` is a file of settings, not of flags; settings may stand between flags."""

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parse a command line, `sys.argv` by default; exits with status 2 on wrong usage."""
        words: list[str] = []
        settings: list[str] = []
        is_value = False
        for word in sys.argv[1:] if argv is None else argv:
            action = self.flags.get(word.replace("-", "_").replace("__", "--", 1)) if word.startswith("--") else None
            # argparse wants all settings in one place.
            is_setting = not is_value and "=" in word and not word.startswith("-")
            (settings if is_setting else words).append(word)
            is_value = action is not None and action.nargs != 0
        return super().parse([*words, *settings])

    def _with_config(self, words: list[str]) -> list[str]:
        return words


def add_settings(parser: Parser) -> None:
    """Add the flags that stand for settings."""
    add = parser.add_argument
    add("settings", nargs="*", metavar="NAME=VALUE", help="a setting of the run or of the Trainer")
    add("--config", metavar="FILE", help="YAML of settings by name")
    add("--engine", choices=ENGINES, help="transformers: the Trainer; native: this project's, torch alone (transformers)")
    add("--allow_network", action="store_true", help="may fetch a model by its hub name")
    add("--json", action="store_true", help="print the closing JSON line only")


def settings_from(args: argparse.Namespace, more: Sequence[str] = ()) -> Settings:
    """The settings of a command line.

    Raises:
        UserError: They cannot be read, or one is wrong.
    """
    words = [*more, *args.settings]
    words += [f"engine={args.engine}"] if args.engine else []
    words += ["allow_network=true"] if args.allow_network else []
    return read_settings(args.config, words)
