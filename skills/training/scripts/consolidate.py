#!/usr/bin/env python3
"""Make one file of a run's checkpoint folder, also of one whose tensors many processes wrote in parts.

The file has what the folder has: weights, moments, random states, position, settings. --resume_from_checkpoint and every
script that takes a PATH.epN file take it. Every part is compared with its checksum on the way.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say
from bert_pytorch.errors import InputError, UsageError
from bert_pytorch.files import check_writable


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s RUN/checkpoint-STEP --output_path FILE [--json]")
    add = parser.add_argument
    add("checkpoint", metavar="FOLDER", help="checkpoint-STEP of a run")
    add("-o", "--output_path", metavar="FILE", required=True, help="where the one file goes; not there yet")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def check(folder: str, output_path: str) -> None:
    """See that the one is a checkpoint, and the other is not there yet.

    Raises:
        InputError: It is no checkpoint; the message names those of a run.
        UsageError: The file is there.
    """
    from bert_pytorch.trainer.checkpoint_folder import MANIFEST, is_checkpoint_folder

    if not is_checkpoint_folder(folder):
        found = ", ".join(sorted(path.parent.name for path in Path(folder).glob(f"*/{MANIFEST}"))) or "none"
        raise InputError(f"{folder}: is no folder checkpoint-STEP; in it are: {found}; give one [E-CHECKPOINT-NONE]")
    if os.path.exists(output_path):
        raise UsageError(f"{output_path}: is there already; give another --output_path [E-USAGE]")
    check_writable(output_path)


def work(args: argparse.Namespace) -> dict[str, object]:
    """Read the folder, write the file."""
    from bert_pytorch.trainer.checkpoint import load_checkpoint, save_checkpoint
    from bert_pytorch.trainer.shards import PREFIX

    path = args.checkpoint
    check(path, args.output_path)
    state = load_checkpoint(path)
    save_checkpoint(args.output_path, state)
    n_parts = sum(name.startswith(PREFIX) for name in os.listdir(path))
    n_numbers, n_bytes = sum(value.numel() for value in state["model"].values()), os.path.getsize(args.output_path)
    say(args, f"{args.output_path}: {path}, {n_parts or 1} parts, {n_bytes:,} bytes")
    return {
        "ok": True,
        "checkpoint": path,
        "output_path": args.output_path,
        "step": state["schedule"]["n_current_steps"],
        "parts": n_parts or 1,
        "numbers": n_numbers,
        "bytes": n_bytes,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Make one file; returns the exit status."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
