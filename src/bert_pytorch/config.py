"""YAML files that stand for flags of a command."""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping

from .errors import InputError, UnreadableError


def load_yaml(path: str, example: str) -> object:
    """What a YAML file holds: values, lists and mappings of them.

    Args:
        path: The file.
        example: A good line, for the message.

    Raises:
        UnreadableError: The file cannot be read.
        InputError: It is no YAML.
    """
    import yaml

    try:
        with open(path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except OSError as error:
        raise UnreadableError.of(path, error, "check --config [E-CONFIG-READ]") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: no YAML: {reason}; write lines such as `{example}` [E-CONFIG-YAML]") from error


def flags_of(path: str, flags: Mapping[str, argparse.Action]) -> list[str]:
    """The command line that a configuration file stands for; the parser then checks its values as it checks any.

    Args:
        path: A YAML file that maps names of flags, without dashes, to values: `hidden: 256`, `packing: true`.
        flags: What the command knows.

    Raises:
        UnreadableError: The file cannot be read.
        InputError: It is no mapping, names a flag that there is not, or gives one a value that no command line could.
    """
    values = load_yaml(path, "hidden: 256")
    if values is None:
        return []
    if not isinstance(values, dict):
        got = type(values).__name__
        raise InputError(f"{path}: expected names and values, got a {got}; write lines such as `hidden: 256` [E-CONFIG-YAML]")
    words: list[str] = []
    for name, value in values.items():
        flag = f"--{str(name).replace('-', '_')}"
        if flag not in flags or flag in ("--config", "--help"):
            names = [known.removeprefix("--") for known in flags if known.startswith("--")]
            near = difflib.get_close_matches(str(name), names, n=1)
            hint = f"did you mean {near[0]}?" if near else "bert --help lists the names"
            raise InputError(f"{path}: unknown setting {name}; {hint} [E-CONFIG-KEY]")
        words += _words(path, flag, value, flags[flag])
    return words


def _words(path: str, flag: str, value: object, action: argparse.Action) -> list[str]:
    is_switch = action.nargs == 0
    if is_switch and not isinstance(value, bool):
        raise InputError(f"{path}: {flag[2:]} is {value!r}, expected true or false [E-CONFIG-VALUE]")
    if is_switch:
        return [flag] if value else []
    if isinstance(value, list) and action.nargs == "+" and value:
        return [flag, *map(_word, value)]
    if isinstance(value, dict):
        return [f"{flag}={json.dumps(value)}"]
    if isinstance(value, (bool, int, float, str)):
        return [f"{flag}={_word(value)}"]
    raise InputError(
        f"{path}: {flag[2:]} is {value!r}, expected one value; leave the line out for the default [E-CONFIG-VALUE]"
    )


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
