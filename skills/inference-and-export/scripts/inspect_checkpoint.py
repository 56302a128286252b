#!/usr/bin/env python3
"""Say what is in a checkpoint, a model's folder, a file of weights, a vocabulary or any pickle, without executing it.

    inspect_checkpoint.py run/bert.model.ep9

Kinds: checkpoint, hub-folder, tensors, old-model and old-vocabulary (bert-pytorch 0.0.1a4), vocabulary, torchscript,
and objects: another pickle, of which the classes and functions are listed that loading it would call.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say, wide_help
from bert_pytorch.inference.flags import add_json_flag

SHOWN = 8


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s PATH [--output FILE.json] [--json]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("path", metavar="PATH", help="a file or a folder")
    add("--output", metavar="FILE", help="every tensor and setting, as JSON")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Look into it."""
    from bert_pytorch.files import atomic_write
    from bert_pytorch.interop.inspecting import inspect

    facts: dict[str, Any] = inspect(args.path)
    if args.output:
        with atomic_write(args.output) as file:
            file.write(json.dumps(facts, indent=1, default=str).encode("ascii") + b"\n")
    tensors: dict[str, list[int]] = facts.pop("tensors", {})
    say(args, f"{facts['kind']}: {args.path}")
    for name, value in facts.items():
        if name not in ("kind", "arguments") and value not in ([], {}, None):
            shown = ", ".join(f"{k} {v}" for k, v in value.items() if v is not None) if isinstance(value, dict) else value
            say(args, f"{name}: {ascii(str(shown))[1:-1][:240]}")
    for name, shape in list(tensors.items())[:SHOWN]:
        say(args, f"  {name[:70]} {shape}")
    if len(tensors) > SHOWN:
        say(args, f"  and {len(tensors) - SHOWN} more tensors")
    names = facts.get("refers_to")
    facts |= {} if names is None else {"refers_to": names[:SHOWN], "n_names": len(names)}
    facts.pop("arguments", None)
    return {"ok": True, **facts, "n_tensors": len(tensors), "output": args.output}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and look."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
