"""Functions that a user names in the settings: a Python file of theirs, run because they asked for it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, UnreadableError


def load_function(path: str, name: str) -> Callable[..., Any]:
    """A function of a file.

    Raises:
        InputError: There is no such file or function, or it is no Python.
    """
    function = getattr(_module_of(path), name, None)
    if not callable(function):
        raise InputError(f"{path}: no function {name}; define it there [E-FINETUNE-CODE]")
    return function


def load_list(path: str, name: str) -> list[Any]:
    """A list of a file.

    Raises:
        InputError: There is no such file or list, or it is no Python.
    """
    values = getattr(_module_of(path), name, None)
    if not isinstance(values, list):
        raise InputError(f"{path}: no list {name}; define it there [E-FINETUNE-CODE]")
    return values


def _module_of(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise UnreadableError.of(path, FileNotFoundError(2, "No such file or directory"), "check the path [E-FILE-READ]")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: no Python file; its name ends in .py [E-FINETUNE-CODE]")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError, AttributeError, TypeError, ValueError) as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}; mend the file [E-FINETUNE-CODE]") from error
    return module
