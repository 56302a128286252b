#!/usr/bin/env python3
"""Losses and accuracies of a checkpoint on held-out text, without training: the figures that bert reports after a pass.

    evaluate_checkpoint.py --model run/bert.model.ep1 --vocab_path vocab.json --corpus held_out.txt --train_corpus train.txt

Length, objective and share of hidden words are those of the checkpoint's training where no flag says else, and with the same
--seed the same words are hidden: figures of two checkpoints compare. --train_corpus adds eval_unigram_loss, which knows only
word frequencies, and eval_seen_share, the held-out lines that stand in training too.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, between, run, say
from bert_pytorch.dataset.corpus import OBJECTIVES
from bert_pytorch.inference.flags import add_json_flag, add_model_flags

if TYPE_CHECKING:
    from bert_pytorch.inference.loading import Loaded

MASKING = ("whole_word_masking", "span_masking")
REPORTED = ("loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "unigram_loss", "unigram_accuracy", "n_targets")


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(description=__doc__, usage="%(prog)s --model PATH --vocab_path FILE --corpus FILE [flags]")
    add = parser.add_argument
    add_model_flags(parser)
    add("--corpus", required=True, metavar="FILE", help="held-out text in the corpus's form")
    add("--train_corpus", metavar="FILE", help="what it was trained on")
    add("--seq_len", type=at_least(5), metavar="N", help="tokens a pair or text (as in training)")
    add("--objective", choices=OBJECTIVES, help="what is asked (as in training; a folder: mlm)")
    add("--mlm_probability", type=between(0, 1, above=True), metavar="X", help="share of words hidden (as in training)")
    add("--batch_size", type=at_least(1), default=64, metavar="N", help="pairs at once (64)")
    add("--seed", type=at_least(0), default=42, metavar="N", help="decides what is hidden (42)")
    add_json_flag(parser)
    return parser


def flags_of_bert(args: argparse.Namespace, loaded: Loaded, folder: str) -> list[str]:
    """The command line of `bert` that reads the corpora as its training did."""
    settings = loaded.settings
    usual = {"seq_len": min(128, loaded.model.bert.max_len), "objective": "mlm", "mlm_probability": 0.15}
    assumed = [name for name in usual if name not in settings and getattr(args, name) is None]
    if assumed:
        taken = ", ".join(f"--{name} {usual[name]}" for name in assumed)
        warnings.warn(f"{args.model}: does not say how it was trained; {taken} is taken, pass what it was", stacklevel=2)
    settings = {**usual, **settings}
    chosen = {
        "train_dataset": args.train_corpus or args.corpus,
        "test_dataset": args.corpus,
        "vocab_path": args.vocab_path or args.model,
        "output_path": f"{folder}/bert.model",
        **{name: getattr(args, name) or settings[name] for name in usual},
        "batch_size": args.batch_size,
        "seed": args.seed,
        "device": args.device,
    }
    words = [word for name, value in chosen.items() for word in (f"--{name}", str(value))]
    return [*words, "--group_by_length", *(f"--{name}" for name in MASKING if settings.get(name))]


def work(args: argparse.Namespace) -> dict[str, object]:
    """Evaluate."""
    from bert_pytorch.assembly import check_length, make_loaders
    from bert_pytorch.cli import bert_parser
    from bert_pytorch.devices import check_device
    from bert_pytorch.inference.loading import open_model
    from bert_pytorch.inputs import check_data_flags, open_datasets, share_of_seen
    from bert_pytorch.interop.as_checkpoint import take_weights
    from bert_pytorch.trainer import BERTTrainer

    with_cuda = check_device(args.device)
    loaded = open_model(args.model, args.vocab_path)
    loaded.check_heads("head for masked words", "mask_lm")
    with tempfile.TemporaryDirectory() as folder:
        data_args = bert_parser().parse(flags_of_bert(args, loaded, folder))
        check_length(data_args, loaded.model.bert.max_len, args.model)
        if data_args.objective != "mlm":
            loaded.check_heads("head for next sentences", "next_sentence")
        check_data_flags(data_args)
        train_data, data = open_datasets(data_args, loaded.vocab)
        batches = make_loaders(data_args, train_data, data, with_cuda)[1]
        counts = None if args.train_corpus is None else train_data.word_counts
        trainer = BERTTrainer(
            loaded.model.bert, len(loaded.vocab), [], batches, with_cuda=with_cuda, warmup_steps=0, word_counts=counts
        )
        take_weights(trainer, loaded.model)
        found = trainer.test(0)
        share_seen = None if counts is None else share_of_seen(train_data, data)
    report: dict[str, object] = {"ok": True, "model": args.model, "corpus": args.corpus}
    report |= {f"eval_{name}": found[name] for name in REPORTED if not math.isnan(found.get(name, math.nan))}
    report |= {"eval_seen_share": share_seen, "eval_pairs": len(data), "trimmed_pairs": data.n_trimmed}
    report |= {"unk_share": data.n_unknown / data.n_words, "skipped_lines": data.n_skipped}
    report |= {name: getattr(data_args, name) for name in ("seq_len", "objective", "mlm_probability", "seed")}
    say(
        args,
        f"masked words: {found['mlm_loss']:.4f} nats, {found['mlm_accuracy']:.1%} right, of {report['eval_n_targets']:.0f}",
    )
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and evaluate."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
