"""The rule of the tested versions: what is installed lies in the range that the tests have passed with."""

from __future__ import annotations

import datetime
import platform
import re
from collections.abc import Iterator
from pathlib import Path

from bert_pytorch.extras import installed_version

from .bundle import Bundle, Fault, line_of

TESTED = Path("references/tested-versions.yaml")
FIELDS = {"lowest", "highest", "date"}
PYTHON = "python"


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version; what stands behind them, such as `+cpu`, names a build."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def installed(package: str) -> str | None:
    """The version of a package here, or None."""
    return platform.python_version() if package == PYTHON else installed_version(package)


def tested(bundle: Bundle) -> dict[str, dict[str, object]]:
    """The table: a row a package."""
    import yaml

    try:
        table = yaml.safe_load(bundle.text(TESTED)) if (bundle.root / TESTED).is_file() else None
    except yaml.YAMLError:
        return {}
    return table if isinstance(table, dict) else {}


def table(bundle: Bundle) -> Iterator[Fault]:
    """The table can be read: each row has a lowest and a highest release and the day of the last run."""
    rows = tested(bundle)
    if not rows:
        yield Fault(
            f"{TESTED}:1", "no table of tested versions that YAML can read", "write rows: package: {lowest, highest, date}"
        )
    for package, row in rows.items():
        where = f"{TESTED}:{line_of(bundle.text(TESTED), f'{package}:')}"
        if not isinstance(row, dict) or set(row) != FIELDS:
            yield Fault(where, f"the row of {package} has not the fields {', '.join(sorted(FIELDS))}", "write them")
            continue
        low, high = release(str(row["lowest"])), release(str(row["highest"]))
        if not low or not high or low > high:
            yield Fault(where, f"{package}: no range from {row['lowest']} to {row['highest']}", "write two releases, in quotes")
        if not isinstance(row["date"], datetime.date):
            yield Fault(where, f"{package}: {row['date']!r} is no day", "write it as 2026-12-31")


def staleness(bundle: Bundle) -> Iterator[Fault]:
    """No package installed here has left the range that was tested."""
    if any(table(bundle)):
        return
    for package, row in tested(bundle).items():
        version = installed(package)
        low, high = str(row["lowest"]), str(row["highest"])
        if version is None or release(low) <= release(version) <= release(high):
            continue
        where = f"{TESTED}:{line_of(bundle.text(TESTED), f'{package}:')}"
        what = f"{package} {version} is installed, tested were {low} to {high}"
        yield Fault(where, what, "run the tests, and if they pass widen the row and its date")


def files(bundle: Bundle) -> list[Path]:
    """The table."""
    return [TESTED] if (bundle.root / TESTED).is_file() else []
