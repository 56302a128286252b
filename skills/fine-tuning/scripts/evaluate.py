#!/usr/bin/env python3
"""Measure a model that finetune.py made on labelled rows: figures, labels, confusion, calibration, errors; or two models.

    evaluate.py --model tuned --data test.tsv --output report
    evaluate.py --model tuned --other better --data test.tsv

Writes report/evaluation.json, errors.jsonl (the worst first) and evaluation.html. With --other, the difference other minus
model per row (right or not, F1 of an answer or of a sentence's entities, minus the distance of a number) with its 95 % interval
by the paired bootstrap.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.files import atomic_write, check_writable

if TYPE_CHECKING:
    from bert_pytorch.finetuning.predicting import Answered


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s --model DIR --data FILE [--other DIR] [--output DIR] [--json]")
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="output_dir of a finished finetune.py")
    add("--data", required=True, metavar="FILE", help="labelled rows, in a format that finetune.py reads")
    add("--other", metavar="DIR", help="another model of the same task, to compare")
    add("--output", metavar="DIR", help="folder for evaluation.json, errors.jsonl and evaluation.html")
    add("--n_errors", type=at_least(0), default=100, metavar="N", help="errors that are listed (100)")
    add("--n_draws", type=at_least(100), default=2000, metavar="N", help="draws of the bootstrap (2000)")
    add("--seed", type=at_least(0), default=42, metavar="N", help="of the draws (42)")
    add("--batch_size", type=at_least(1), default=64, metavar="N", help="rows computed at once (64)")
    add("--skip_bad_rows", action="store_true", help="leave bad rows out and count them")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def write(folder: str, answered: Answered, report: dict[str, object], errors: Sequence[tuple[float, int]]) -> None:
    """Write the three files."""
    from bert_pytorch.finetuning.judging import confusion_of, label_table
    from bert_pytorch.finetuning.page import evaluation_page, true_of
    from bert_pytorch.finetuning.predicting import record_of
    from bert_pytorch.finetuning.tasks import SINGLE

    table = label_table(answered)
    document = {**report, "labels": table}
    if answered.model.settings.task_and_kind[1] == SINGLE:
        document["confusion"] = confusion_of(answered)
    lines = [{"loss": loss, **record_of(answered, i), "right": true_of(answered, i)} for loss, i in errors]
    contents = {
        "evaluation.json": json.dumps(document, indent=1).encode("ascii") + b"\n",
        "errors.jsonl": "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode("utf-8", "replace"),
        "evaluation.html": evaluation_page(answered, report, table, errors),
    }
    for name, content in contents.items():
        with atomic_write(Path(folder) / name) as file:
            file.write(content)


def work(args: argparse.Namespace) -> dict[str, object]:
    """Measure, compare and write."""
    from bert_pytorch.finetuning.judging import calibration_of, compare, errors_of, figures_of
    from bert_pytorch.finetuning.predicting import predict_file

    if args.output is not None:
        check_writable(f"{args.output}/evaluation.json")
    models = [args.model, *([args.other] if args.other else [])]
    answered = [
        predict_file(model, args.data, with_labels=True, batch_size=args.batch_size, skip_bad_rows=args.skip_bad_rows)
        for model in models
    ]
    one = answered[0]
    report: dict[str, object] = {"ok": True, "model": args.model, "rows": len(one.examples), **figures_of(one)}
    report |= {"skipped_rows": len(one.table.rows) - len(one.examples), "cut_rows": one.n_cut}
    calibration = calibration_of(one)
    report |= {} if calibration is None else {"calibration_error": calibration[0]}
    if args.other:
        difference = compare(one, answered[1], args.n_draws, args.seed)
        report |= {"other": args.other, "difference": difference.mean, "low": difference.low, "high": difference.high}
        report |= {f"other_{name}": value for name, value in figures_of(answered[1]).items()}
        word = "differ" if difference.excludes_zero else "cannot be told apart"
        say(args, f"the models {word}: {difference.mean:+.4f}, 95 % [{difference.low:+.4f}, {difference.high:+.4f}]")
    if args.output is not None:
        write(args.output, one, report, errors_of(one, args.n_errors))
    for name, value in figures_of(one).items():
        say(args, f"{name} {value:.4f}")
    return {**report, "output": args.output}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and measure."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
