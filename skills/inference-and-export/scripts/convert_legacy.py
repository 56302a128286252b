#!/usr/bin/env python3
"""Bring files of bert-pytorch 0.0.1a4 here: a pickled vocabulary to text, a whole-object model to a checkpoint.

    convert_legacy.py --model old/bert.model.ep9 --vocab old/vocab.pkl --output bert.ep9 --output_vocab vocab.json

Nothing in the files is executed: classes that the old package has become empty shells, any other is refused by its name. The
model becomes architecture "bert-pytorch", which gives the old outputs. Files that the old trainer wrote hold the encoder
alone: heads begin anew.
Vocabularies of programs that took the class over under another module name are read too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say, wide_help
from bert_pytorch.inference.flags import add_json_flag


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s [--model FILE --output FILE] [--vocab FILE --output_vocab FILE] [--json]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("--model", metavar="FILE", help="old model, such as bert.model.ep9")
    add("--output", metavar="FILE", help="checkpoint of this library")
    add("--vocab", metavar="FILE", help="old vocabulary, such as vocab.pkl")
    add("--output_vocab", metavar="FILE", help="vocabulary of this library")
    add("--seed", type=at_least(0), default=42, metavar="N", help="of heads that begin anew (42)")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Convert."""
    from bert_pytorch.errors import InputError, UsageError
    from bert_pytorch.files import check_writable

    if not (args.model or args.vocab) or bool(args.model) != bool(args.output) or bool(args.vocab) != bool(args.output_vocab):
        raise UsageError("expected --model with --output, --vocab with --output_vocab, or both pairs [E-USAGE]")
    import torch

    from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
    from bert_pytorch.interop.legacy import load_old_model, load_old_vocab

    for path in filter(None, (args.output, args.output_vocab)):
        check_writable(path)
    report: dict[str, object] = {"ok": True, "output": args.output, "output_vocab": args.output_vocab}
    vocab = None if args.vocab is None else load_old_vocab(args.vocab)
    if args.model is not None:
        torch.manual_seed(args.seed)
        model, new = load_old_model(args.model)
        if vocab is not None and len(vocab) != model.bert.vocab_size:
            sizes = f"the vocabulary has {len(vocab)} entries, the model {model.bert.vocab_size}"
            raise InputError(f"{args.vocab}: {sizes}; give the one it was trained with [E-EXPORT-VOCAB]")
        write_as_checkpoint(args.output, model, vocab, new)
        heads = sorted({name.partition(".")[0] for name in new})
        report |= {"sizes": model.bert.config, "begins_anew": heads}
        say(args, f"{args.output}: {model.bert.config}")
        if heads:
            say(args, f"{' and '.join(heads)} were not in the file and begin anew: embed lines, or train on, before using them")
    if vocab is not None:
        vocab.save_vocab(args.output_vocab)
        report |= {"vocab_size": len(vocab)}
        say(args, f"{args.output_vocab}: {len(vocab)} words")
    return report


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and convert."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
