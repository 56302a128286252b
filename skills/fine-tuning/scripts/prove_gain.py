#!/usr/bin/env python3
"""Does pretraining help? Fine-tune from the checkpoint and from new weights, same head, data and budget, several seeds.

    prove_gain.py --config task.yaml model=run/checkpoint-500 vocab=vocab.json output_dir=gain --seeds 5

Settings are those of finetune.py. The answer is one line: the mean gain in the task's figure with its 95 % interval (Student's
t over the seeds, paired). `helps` is true where the interval lies above 0.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.finetuning.front import SettingsParser, add_settings, settings_from


def build_parser() -> Parser:
    """The flags."""
    parser = SettingsParser(description=__doc__, usage="%(prog)s [--config FILE] [NAME=VALUE ...] [--seeds N] [--json]")
    add_settings(parser)
    parser.add_argument("--seeds", type=at_least(2), default=5, metavar="N", help="runs each way, seeds 1 to N (5)")
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Fine-tune both ways and compare."""
    settings = settings_from(args)
    from bert_pytorch.finetuning.gain import prove

    def tell(seed: int, scratch: float, pretrained: float) -> None:
        say(args, f"seed {seed}: from scratch {scratch:.4f}, from the checkpoint {pretrained:.4f}")

    report = prove(settings, list(range(1, args.seeds + 1)), tell)
    say(args, str(report["answer"]))
    return {"ok": True, **report}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and compare."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
