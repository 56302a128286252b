#!/usr/bin/env python3
"""Find the lines of a text that lie nearest to a query, by the angle between their vectors.

    similar.py --model run/bert.model.ep9 --vocab_path vocab.json --input lines.txt --query "the miller helped mia"

Queries are texts, or the lines of another file; without either, each line's nearest among the others. All vectors are held in
memory: 4 bytes a number.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say, wide_help
from bert_pytorch.inference.flags import add_cleaning_flags, add_json_flag, add_model_flags, cleaner_from, load_from


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --model PATH --input FILE [--query TEXT | --queries FILE] [--output FILE.jsonl] [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add_model_flags(parser)
    add("--input", required=True, metavar="FILE", help="the lines to search, a text each; -: standard input")
    add("--query", action="append", metavar="TEXT", help="may be given several times")
    add("--queries", metavar="FILE", help="a query a line")
    add("--output", metavar="FILE", help="all answers, an object a query, as JSONL")
    add("--top_k", type=at_least(1), default=5, metavar="N", help="lines a query (5)")
    add("--pooling", choices=("mean", "cls", "max"), help="over tokens, markers included (the folder's, else mean)")
    add("--layer", type=int, default=-1, metavar="N", help="after this layer: 1 first, 0 embedding, -1 last (-1)")
    add_cleaning_flags(parser)
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Embed and search."""
    from bert_pytorch.errors import InputError, UsageError
    from bert_pytorch.files import atomic_write, check_writable
    from bert_pytorch.inference.embedding import Embedder
    from bert_pytorch.inference.loading import read_texts
    from bert_pytorch.inference.nearest import nearest

    if args.query and args.queries:
        raise UsageError("expected --query or --queries, not both; leave one out [E-USAGE]")
    if not (args.query or args.output):
        raise UsageError("many answers go to a file; name it with --output [E-USAGE]")
    if args.output:
        check_writable(args.output)
    clean, loaded = cleaner_from(args), load_from(args)
    pooling = args.pooling or loaded.recipe.pooling
    embed = Embedder(loaded.model.bert, loaded.vocab, pooling, args.layer, max_tokens=loaded.recipe.max_tokens)
    lines = list(read_texts(args.input))
    is_same = not (args.query or args.queries)
    if len(lines) <= is_same:
        raise InputError(f"{args.input}: {len(lines)} lines, expected some to search; give a larger file [E-INFER-EMPTY]")
    queries = lines if is_same else args.query or list(read_texts(args.queries))
    vectors = embed([clean(line) for line in lines])
    asked = vectors if is_same else embed([clean(query) for query in queries])
    found = nearest(asked, vectors, args.top_k, is_same=is_same)
    answers = [
        {
            "query": query,
            "nearest": [{"line": each.number + 1, "similarity": each.similarity, "text": lines[each.number]} for each in near],
        }
        for query, near in zip(queries, found, strict=True)
    ]
    report: dict[str, object] = {"ok": True, "lines": len(lines), "queries": len(queries), "cut_lines": embed.n_cut}
    for answer in answers[:3] if args.query else []:
        say(args, f"to {ascii(answer['query'])[1:-1][:80]}:")
        for each in answer["nearest"][:5]:
            say(args, f"  {each['similarity']:.4f} line {each['line']}: {ascii(each['text'])[1:-1][:80]}")
    if args.output:
        with atomic_write(args.output) as file:
            file.write("".join(json.dumps(answer) + "\n" for answer in answers).encode("ascii"))
        return {**report, "output": args.output}
    return {**report, "answers": [{**answer, "nearest": [_short(each) for each in answer["nearest"]]} for answer in answers]}


def _short(near: dict[str, object]) -> dict[str, object]:
    """Without the text, which stands in the file."""
    return {name: value for name, value in near.items() if name != "text"}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and search."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
