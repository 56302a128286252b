"""Packages that only some capabilities need: imported when one is used, named with their install line when absent."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from .errors import UnavailableError


def import_extra(module: str, package: str) -> ModuleType:
    """Import a module of an optional package.

    Args:
        module: Full name of the module.
        package: What pip installs it by.

    Raises:
        UnavailableError: The package is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = f"the package {package!r} is not installed"
        raise UnavailableError(f"{module}: {missing}; python -m pip install {package} [E-DEPENDENCY]") from error


def installed_version(package: str) -> str | None:
    """The version of a package as pip names it; None: it is not installed."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
