#!/usr/bin/env python3
"""Predict the rows of a file with a model that finetune.py made; one JSON object a row, with confidence, to a file.

    predict.py --model tuned --input new.tsv --output predictions.jsonl
    predict.py --model tagger --input new.txt --output tagged.conll

Columns are those of training, labels that are there are ignored; a .txt has one text a line. Each object has row (the line),
text, label and confidence (by the task labels, value, output, answer, or tags and entities in place of label). Confidence is
the probability of what is said, in [0, 1]: of a set of labels that of the least sure, of tags that of the least sure word, of
an answer its share among the 20 best.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.files import atomic_write, check_writable


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s --model DIR --input FILE --output FILE.jsonl [--json]")
    add = parser.add_argument
    add("--model", required=True, metavar="DIR", help="output_dir of a finished finetune.py")
    add("--input", required=True, metavar="FILE", help="rows, in a format that finetune.py reads")
    add(
        "--output",
        required=True,
        metavar="FILE",
        help="where to, as JSONL; tags in FILE.conll: word and tag a line",
    )
    add("--batch_size", type=at_least(1), default=64, metavar="N", help="rows computed at once (64)")
    add("--skip_bad_rows", action="store_true", help="leave bad rows out and count them")
    add("--json", action="store_true", help="print the closing JSON line only")
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Predict and write."""
    from bert_pytorch.finetuning.predicting import conll_of, lines_of, predict_file

    check_writable(args.output)
    answered = predict_file(
        args.model, args.input, with_labels=False, batch_size=args.batch_size, skip_bad_rows=args.skip_bad_rows
    )
    written = conll_of(answered) if args.output.endswith(".conll") else lines_of(answered)
    with atomic_write(args.output) as file:
        file.write(written)
    sure = [value for value in answered.predictions.confidence if value is not None]
    report: dict[str, object] = {"ok": True, "rows": len(answered.examples), "cut_rows": answered.n_cut, "output": args.output}
    report["skipped_rows"] = len(answered.table.rows) - len(answered.examples)
    report["mean_confidence"] = sum(sure) / len(sure) if sure else None
    say(args, f"{report['rows']} predictions in {args.output}")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and predict."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
