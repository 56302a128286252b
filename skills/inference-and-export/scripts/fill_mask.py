#!/usr/bin/env python3
"""Say which words may stand at the masks of a text, with their probabilities.

    fill_mask.py --model run/bert.model.ep9 --vocab_path vocab.json --text "the miller <mask> mia"

A mask is <mask> or [MASK]; each is predicted alone. A tab parts the two texts of a pair.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say, wide_help
from bert_pytorch.inference.flags import add_json_flag, add_model_flags, load_from


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --model PATH (--text TEXT | --input FILE --output FILE.jsonl) [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add_model_flags(parser)
    add("--text", action="append", metavar="TEXT", help="with masks; may be given several times")
    add("--input", metavar="FILE", help="a text with masks a line; -: standard input")
    add("--output", metavar="FILE", help="the answers, an object a text, as JSONL (with --input)")
    add("--top_k", type=at_least(1), default=5, metavar="N", help="words a mask (5)")
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Fill the masks."""
    from bert_pytorch.errors import UsageError
    from bert_pytorch.files import atomic_write, check_writable
    from bert_pytorch.inference.filling import fill_mask
    from bert_pytorch.inference.loading import read_texts

    if bool(args.text) == bool(args.input) or bool(args.input) != bool(args.output):
        raise UsageError("expected --text, or --input with --output; give one of the two [E-USAGE]")
    if args.output:
        check_writable(args.output)
    loaded = load_from(args)
    loaded.check_heads("masked-word head", "mask_lm.")
    texts: Iterable[str] = args.text or read_texts(args.input)
    n_masks, answers = 0, []
    for text in texts:
        masks = fill_mask(loaded.model, loaded.vocab, text, args.top_k)
        n_masks += len(masks)
        answers.append({"text": text, "masks": [[choice._asdict() for choice in choices] for choices in masks]})
    if args.output:
        with atomic_write(args.output) as file:
            file.write("".join(json.dumps(answer) + "\n" for answer in answers).encode("ascii"))
        say(args, f"{n_masks} masks of {len(answers)} texts in {args.output}")
        return {"ok": True, "texts": len(answers), "masks": n_masks, "output": args.output}
    for answer in answers:
        for number, choices in enumerate(answer["masks"], start=1):
            shown = ", ".join(f"{ascii(choice['token'])[1:-1]} {choice['probability']:.3f}" for choice in choices[:5])
            say(args, f"mask {number}: {shown}")
    return {"ok": True, "texts": len(answers), "masks": n_masks, "answers": answers}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and fill."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
