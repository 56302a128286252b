#!/usr/bin/env python3
"""Say what is wrong and what to do next: of an error text, a log, the folder of a run, a checkpoint or a program.

    doctor.py --text "corpus.txt:41: expected two texts separated by one tab, got 1 field"
    bert ... 2>&1 | doctor.py -            doctor.py run/safe            doctor.py train.py

Knows every E-... code and messages of torch, CUDA, data workers, several processes, Transformers, datasets, safetensors,
Python and bert-pytorch 0.0.1a4. Nothing in a file is executed, a program is only read, nothing is written.
Exit 0: something was found; 1: nothing is recognised, and what to try instead is said.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say, wide_help
from bert_pytorch.errors import UsageError

MOST_FINDINGS, MOST_LETTERS = 3, 2000
UNKNOWN = "nothing in it is recognised; {} [E-DOCTOR-UNKNOWN]"


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s PATH | - | --text TEXT [--json]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("path", nargs="?", metavar="PATH", help="log, folder of a run, checkpoint, .py file; -: a text on stdin")
    add("--text", metavar="TEXT", help="an error text, or a code such as E-CORPUS-TAB")
    add("--json", action="store_true", help="print the closing JSON line only, with all findings")
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Look, and tell the first findings."""
    from bert_pytorch.diagnosis.handbook import Handbook, bundle_of
    from bert_pytorch.diagnosis.paths import diagnose_path
    from bert_pytorch.diagnosis.texts import diagnose_text

    if (args.path is None) == (args.text is None):
        raise UsageError("give a PATH, - for stdin, or --text TEXT, one of them [E-USAGE]")
    book = Handbook(bundle_of(__file__))
    if args.text is not None or args.path == "-":
        text = args.text if args.text is not None else sys.stdin.buffer.read().decode("utf-8", "replace")
        findings, otherwise = (
            diagnose_text(text, book),
            "give the whole output, from the first line on, not the last line alone",
        )
    else:
        findings, otherwise = diagnose_path(Path(args.path), book)
    if not findings:
        message = UNKNOWN.format(otherwise)
        say(args, message)
        print(f"doctor.py: {message}", file=sys.stderr)
        return {"ok": False, "findings": [], "error": message, "code": "E-DOCTOR-UNKNOWN"}
    shown = [finding.as_dict() for finding in findings]
    if args.json:
        return {"ok": True, "findings": shown, "n_findings": len(shown)}
    for n in range(MOST_FINDINGS, 0, -1):
        report: dict[str, object] = {"ok": True, "findings": shown[:n], "n_findings": len(shown)}
        lines = [line for number, each in enumerate(shown[:n], 1) for line in told(number, each)]
        if len("\n".join(lines)) + len(json.dumps(report)) < MOST_LETTERS:
            break
    for line in lines:
        say(args, line)
    return report


def told(number: int, finding: dict[str, str]) -> list[str]:
    """A finding for a human reader."""
    head = f"{number}. {finding['rule']}: {finding['where']}"
    return [head, f"   why: {finding['cause']}", f"   next: {finding['next']}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and look."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
