#!/usr/bin/env python3
"""Bring a model from the hub's form into this library's, to train it on: a checkpoint and its vocabulary.

    import_model.py --model FOLDER --output start.ckpt --output_vocab vocab.json --corpus train.txt --n_words 500
    bert -c train.txt -v vocab.json --model_name_or_path start.ckpt --objective mlm -o run/bert.model

FOLDER is a BERT, a model of the same graph, or a ModernBERT, as Transformers saves it. With --corpus, its commonest words that
the vocabulary does not have whole are added, each begun as the mean of the pieces that spelled it (words, WordPiece).
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
        usage="%(prog)s --model FOLDER --output FILE --output_vocab FILE [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="FOLDER", help="in Transformers' form, with tokenizer files")
    add("--output", required=True, metavar="FILE", help="checkpoint of this library")
    add("--output_vocab", required=True, metavar="FILE", help="vocabulary of this library")
    add("--words", metavar="FILE", help="words to add, one a line")
    add("--corpus", nargs="+", metavar="FILE", help="texts whose commonest missing words are added")
    add("--n_words", type=at_least(1), default=1000, metavar="N", help="with --corpus: at most so many (1000)")
    add("--min_freq", type=at_least(1), default=10, metavar="N", help="with --corpus: least occurrences (10)")
    add("--seed", type=at_least(0), default=42, metavar="N", help="of heads that begin anew (42)")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Import."""
    import torch

    from bert_pytorch.dataset.counting import count_files
    from bert_pytorch.errors import InputError
    from bert_pytorch.files import check_writable
    from bert_pytorch.inference.loading import read_texts
    from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
    from bert_pytorch.interop.extending import extend, missing_words
    from bert_pytorch.interop.huggingface import load_pretrained

    for path in (args.output, args.output_vocab):
        check_writable(path)
    torch.manual_seed(args.seed)
    found = load_pretrained(args.model)
    if found.vocab is None:
        raise InputError(f"{args.model}: has no tokenizer files; copy them there [E-HUB-TOKENIZER]")
    model, vocab, added = found.model, found.vocab, []
    words = list(read_texts(args.words)) if args.words else []
    if args.corpus:
        words += missing_words(vocab, count_files(args.corpus), args.n_words, args.min_freq)
    if words:
        model, vocab, added = extend(model, vocab, words)
    write_as_checkpoint(args.output, model, vocab, found.new)
    vocab.save_vocab(args.output_vocab)
    heads = sorted({name.partition(".")[0] for name in found.new})
    say(args, f"{args.output}: {model.bert.config}")
    say(args, f"{args.output_vocab}: {len(vocab)} entries, {len(added)} of them new")
    if heads:
        say(args, f"{' and '.join(heads)} are not in the folder and begin anew")
    report: dict[str, object] = {"ok": True, "sizes": model.bert.config, "vocab_size": len(vocab), "added_words": len(added)}
    report |= {"first_added": added[:10], "begins_anew": heads, "left_out": found.left_out[:10]}
    return {**report, "output": args.output, "output_vocab": args.output_vocab}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and import."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
