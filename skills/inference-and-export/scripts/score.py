#!/usr/bin/env python3
"""Score each line by how little the model expects it, and rank the lines, the oddest first.

    score.py --model run/bert.model.ep9 --vocab_path vocab.json --input new.log --output ranked.jsonl --log

Per line: pseudo-perplexity (each word hidden in turn), the share of its words that are not among the top_k likeliest (LogBERT's
score), and for lines of two texts with a tab the probability that the second follows. Masks and words are made as make_pairs.py
makes them; the lines that come out are the original ones.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say, wide_help
from bert_pytorch.inference.flags import add_cleaning_flags, add_json_flag, add_model_flags, cleaner_from, load_from

if TYPE_CHECKING:
    from bert_pytorch.inference.scoring import Score

LINES_AT_ONCE = 256
RANKINGS = {"perplexity": ("perplexity", -1), "outside": ("outside_share", -1), "next": ("next_sentence", 1)}


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --model PATH --input FILE --output FILE.jsonl [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add_model_flags(parser)
    add("--input", required=True, metavar="FILE", help="a line of one text, or of two with a tab; -: standard input")
    add("--output", required=True, metavar="FILE", help="the lines, oddest first, as JSONL")
    add("--rank_by", choices=tuple(RANKINGS), default="perplexity", help="what counts as odd (perplexity)")
    add("--top_k", type=at_least(1), default=5, metavar="N", help="likeliest words that count as expected (5)")
    add("--passes", type=at_least(1), metavar="N", help="hide each N-th word together: faster, less exact (one by one)")
    add("--show", type=at_least(0), default=5, metavar="N", help="lines to show (5)")
    add_cleaning_flags(parser)
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Score and rank."""
    from tqdm import tqdm

    from bert_pytorch.files import atomic_write, check_writable
    from bert_pytorch.inference.loading import read_texts
    from bert_pytorch.inference.scoring import score_lines

    began = time.perf_counter()
    check_writable(args.output)
    clean, loaded = cleaner_from(args), load_from(args)
    loaded.check_heads("masked-word head", "mask_lm.")
    if args.rank_by == "next":
        loaded.check_heads("next-sentence head", "next_sentence.")
    lines = list(read_texts(args.input))
    # A log repeats itself: lines that are the same when masked are computed once.
    cleaned = [clean(line) for line in lines]
    kinds = list(dict.fromkeys(cleaned))
    scores: dict[str, Score] = {}
    for start in tqdm(range(0, len(kinds), LINES_AT_ONCE), desc="score", disable=None, file=sys.stderr):
        some = kinds[start : start + LINES_AT_ONCE]
        scores |= zip(some, score_lines(loaded.model, loaded.vocab, some, args.top_k, args.passes), strict=True)
    name, sign = RANKINGS[args.rank_by]

    def key(i: int) -> tuple[bool, float, int]:
        value = getattr(scores[cleaned[i]], name)
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value, i

    order = sorted(range(len(lines)), key=key)
    with atomic_write(args.output) as file:
        for rank, i in enumerate(order, start=1):
            values = {k: None if math.isnan(v) else v for k, v in scores[cleaned[i]]._asdict().items()}
            row = {"rank": rank, "line": i + 1, **values, "text": lines[i]}
            file.write(json.dumps(row).encode("ascii") + b"\n")
    for i in order[: args.show]:
        value = getattr(scores[cleaned[i]], name)
        say(args, f"{args.rank_by} {value:.4g} line {i + 1}: {ascii(lines[i])[1:-1][:120]}"[:160])
    finite = [value for each in cleaned if not math.isnan(value := scores[each].perplexity)]
    report: dict[str, object] = {"ok": True, "lines": len(lines), "kinds": len(kinds)}
    report["lines_without_words"] = sum(scores[each].n_words == 0 for each in cleaned)
    report["mean_log_perplexity"] = sum(map(math.log, finite)) / len(finite) if finite else None
    return {**report, "rank_by": args.rank_by, "output": args.output, "elapsed_seconds": time.perf_counter() - began}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and score."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
