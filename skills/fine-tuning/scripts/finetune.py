#!/usr/bin/env python3
"""Fine-tune a model on labelled data as a YAML says: six tasks, the Transformers Trainer or this project's own engine.

    finetune.py --config task.yaml train_file=train.tsv model=run/checkpoint-500 vocab=vocab.json output_dir=tuned

A setting is a line of the YAML or NAME=VALUE, which wins; references/task-recipes.md has them by task. Names that are not of
this project go to the engine: they are those of Transformers' TrainingArguments. Tasks: sequence-classification (regression,
multi-label, sentence-pair), token-classification, question-answering, masked-lm, causal-lm, seq2seq. A model is a checkpoint of
this project (with vocab), a local folder, or a hub name. Data: CSV, TSV, JSONL, Parquet, CoNLL columns, SQuAD JSON.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, run, say
from bert_pytorch.finetuning.front import SettingsParser, add_settings, settings_from

SHOWN = ("majority_share", "eval_loss", "train_rows", "validation_rows", "seen_share", "steps", "train_seconds", "output_dir")


def build_parser() -> Parser:
    """The flags."""
    parser = SettingsParser(description=__doc__, usage="%(prog)s [--config FILE] [NAME=VALUE ...] [--engine ENGINE] [--json]")
    add_settings(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Fine-tune and show the closing figures."""
    settings = settings_from(args)
    if os.environ.get("RANK", "0") != "0":
        # Of several processes the first alone reports.
        sys.stdout = open(os.devnull, "w", encoding="ascii")
    from bert_pytorch.finetuning.run import finetune

    report = finetune(settings)
    say(args, f"{report['task']} by {report['engine']}: {report['metric']} {report['score']}")
    for name in SHOWN:
        if report.get(name) is not None:
            say(args, f"  {name} {report[name]}")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and fine-tune."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
