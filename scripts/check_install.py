#!/usr/bin/env python3
"""Say what is installed: this library, torch and its devices, optional packages, the two commands; and whether it suffices."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

import bert_pytorch
from bert_pytorch.command import INSTALL_HINT, Parser, run, say
from bert_pytorch.errors import UnavailableError
from bert_pytorch.extras import installed_version

CORE = {"torch": "torch", "tqdm": "tqdm", "pyyaml": "yaml"}
EXTRAS = {
    "logs": ("drain3-improved",),
    "sentences": ("sentencex",),
    "tokenizers": ("tokenizers",),
    "zst": ("zstandard",),
    "test": ("pytest", "numpy", "transformers", "skills-ref"),
    "dev": ("ruff", "pyright", "pre-commit", "agnix", "skillsaw"),
}
LEAST_TORCH = (2, 6)
LEAST_PYTHON = (3, 10)


def check_core() -> dict[str, str | None]:
    """Import the packages the library cannot do without; their versions."""
    missing = []
    for distribution, module in CORE.items():
        try:
            import_module(module)
        except ModuleNotFoundError:
            missing.append(distribution)
    if missing:
        raise UnavailableError(f"not installed: {', '.join(missing)}; {INSTALL_HINT} [E-DEPENDENCY]")
    return {distribution: installed_version(distribution) for distribution in CORE}


def devices() -> list[str]:
    """What torch can train on here."""
    import torch

    gpus = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    return [f"cpu with {torch.get_num_threads()} threads", *gpus]


def work(args: argparse.Namespace) -> dict[str, object]:
    """Collect the facts; `ok` is true when training can start."""
    versions = check_core()
    found = {name: {package: installed_version(package) for package in packages} for name, packages in EXTRAS.items()}
    torch_is_new = tuple(int(part) for part in str(versions["torch"]).split(".")[:2]) >= LEAST_TORCH
    python_is_new = sys.version_info[:2] >= LEAST_PYTHON
    faults = []
    if not torch_is_new:
        faults.append(f"torch {versions['torch']} is older than {LEAST_TORCH[0]}.{LEAST_TORCH[1]}")
    if not python_is_new:
        faults.append(f"Python {platform.python_version()} is older than {LEAST_PYTHON[0]}.{LEAST_PYTHON[1]}")
    commands = {name: shutil.which(name) for name in ("bert", "bert-vocab")}
    report = {
        "ok": not faults,
        "version": bert_pytorch.__version__,
        "library": os.path.dirname(bert_pytorch.__file__),
        "python": platform.python_version(),
        **versions,
        "devices": devices(),
        "extras": found,
        "commands": commands,
        "faults": faults,
    }
    for name, value in report.items():
        say(args, f"{name}: {value}")
    for name, packages in found.items():
        absent = [package for package, version in packages.items() if version is None]
        if absent:
            say(args, f"optional [{name}]: {', '.join(absent)} not installed; python -m pip install {' '.join(absent)}")
    if not all(commands.values()):
        say(args, "bert and bert-vocab are not on the path; python -m pip install --no-deps BUNDLE adds them")
    say(args, "verdict: " + ("ready to train" if report["ok"] else "; ".join(faults)))
    return report


def main() -> int:
    """Parse the flags and report."""
    parser = Parser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work)


if __name__ == "__main__":
    sys.exit(main())
