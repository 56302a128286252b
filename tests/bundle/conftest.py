"""The bundle as its user has it: a copy in a folder of its own, run from elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..unit.examples import load_root_script

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = load_root_script("install_skill").SHIPPED


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    copy = tmp_path_factory.mktemp("copied") / "bert-pytorch"
    copy.mkdir()
    for name in SHIPPED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(source, copy / name)
    return copy


@pytest.fixture(scope="session")
def environment(bundle, tmp_path_factory):
    """Environment variables under which `python`, `bert` and `bert-vocab` are this interpreter and the copied library."""
    shims = tmp_path_factory.mktemp("shims")
    commands = {
        "python": "",
        "bert": "-m bert_pytorch",
        "bert-vocab": "-c 'import sys; from bert_pytorch.cli import build_vocab; sys.exit(build_vocab())'",
    }
    for name, arguments in commands.items():
        (shims / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (shims / name).chmod(0o755)
    path = f"{shims}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(bundle / "src"), "PYTHONWARNINGS": "default"}


@pytest.fixture(scope="session")
def shell(environment):
    """Runs a bash command line in a folder, stopping at its first failing part."""

    def run(command, folder, timeout=300):
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    return run
