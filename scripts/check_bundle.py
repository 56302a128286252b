#!/usr/bin/env python3
"""Hold this skill bundle to its rules: front matter, budgets, routes, links, flags and codes named, sources, help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))
sys.path.insert(1, str(Path(__file__).resolve().parent))

from bundle_rules.bundle import Bundle
from bundle_rules.rules import RULES, VERSIONS

from bert_pytorch.command import Parser, at_least, run, say

OWN = Path(__file__).resolve().parents[1]
DEFAULT_SHOWN = 5
LONGEST = 180


def folder(text: str) -> Path:
    """Read the flag `--bundle`."""
    if not (Path(text) / "SKILL.md").is_file():
        raise argparse.ArgumentTypeError(f"expected a folder with a SKILL.md, got {text!r}")
    return Path(text)


def work(args: argparse.Namespace) -> dict[str, object]:
    """Apply the rules; `ok` is true when there is no fault."""
    root = OWN if args.bundle is None else args.bundle
    bundle = Bundle(root)
    faults = []
    say(args, f"{'rule':<20}{'files':>6}{'faults':>8}")
    for rule in [*RULES, VERSIONS] if args.versions else RULES:
        found = list(rule.faults(bundle))
        faults += [(rule.name, fault) for fault in found]
        say(args, f"{rule.name:<20}{len(rule.files(bundle)):>6}{len(found):>8}")
    for name, fault in faults:
        print(f"{fault} [{name}]", file=sys.stderr)
    shown = faults[: args.show] if args.show else faults
    return {
        "ok": not faults,
        "bundle": str(root),
        "n_faults": len(faults),
        "faults": [
            {"rule": name, "where": fault.where, "what": fault.what[:LONGEST], "do": fault.cure} for name, fault in shown
        ],
    }


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, epilog="Every fault is a line on stderr: where, what, what to do, which rule.")
    parser.add_argument("--bundle", type=folder, metavar="FOLDER", help="the bundle to check (the one this script stands in)")
    parser.add_argument("--versions", action="store_true", help="also fail where installed packages left the tested range")
    parser.add_argument(
        "--show", type=at_least(0), default=DEFAULT_SHOWN, metavar="N", help=f"faults in the JSON; 0: all ({DEFAULT_SHOWN})"
    )
    parser.add_argument("--json", action="store_true", help="print the closing JSON line only")
    return parser


def main() -> int:
    """Parse the flags and check."""
    return run(build_parser(), work)


if __name__ == "__main__":
    sys.exit(main())
