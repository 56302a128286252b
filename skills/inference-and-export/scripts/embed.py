#!/usr/bin/env python3
"""Turn each line of a text into a vector: the encoder's output, pooled over the line's real tokens.

    embed.py --model run/bert.model.ep9 --vocab_path vocab.json --input lines.txt --output vectors.npy

Any number of lines: they are read, computed by like length, and written part by part. A line's vector is at its number in the
file; .jsonl has the texts too. A folder of sentence-transformers says itself how its vectors are pooled; flags come before.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, boolean, run, say, wide_help
from bert_pytorch.inference.flags import (
    add_batch_flag,
    add_cleaning_flags,
    add_json_flag,
    add_model_flags,
    cleaner_from,
    load_from,
)


def build_parser() -> Parser:
    """The flags."""
    parser = Parser(
        description=__doc__,
        usage="%(prog)s --model PATH --input FILE --output FILE [flags]",
        formatter_class=wide_help,
    )
    add = parser.add_argument
    add_model_flags(parser)
    add("--input", required=True, metavar="FILE", help="a text a line; -: standard input")
    add("--output", required=True, metavar="FILE", help="vectors.npy, .safetensors (tensor `vectors`) or .jsonl")
    add("--pooling", choices=("mean", "cls", "max"), help="over tokens, markers included (the folder's, else mean)")
    add("--layer", type=int, default=-1, metavar="N", help="after this layer: 1 first, 0 embedding, -1 last (-1)")
    add("--normalize", type=boolean, metavar="BOOL", help="vectors of length 1 (the folder's, else false)")
    add("--max_tokens", type=at_least(3), metavar="N", help="cut longer lines, and count them (the folder's or model's)")
    add("--tokens_per_batch", type=at_least(1), default=512, metavar="N", help="tokens computed at a time (512)")
    add_batch_flag(parser)
    add_cleaning_flags(parser)
    add_json_flag(parser)
    return parser


def work(args: argparse.Namespace) -> dict[str, object]:
    """Read, embed and write."""
    from tqdm import tqdm

    from bert_pytorch.files import check_writable
    from bert_pytorch.inference.embedding import Embedder
    from bert_pytorch.inference.loading import read_texts
    from bert_pytorch.inference.vector_files import kind_of, open_vectors

    began = time.perf_counter()
    kind_of(args.output)
    check_writable(args.output)
    clean, loaded = cleaner_from(args), load_from(args)
    recipe = loaded.recipe
    pooling = args.pooling or recipe.pooling
    normalize = recipe.normalize if args.normalize is None else args.normalize
    embed = Embedder(
        loaded.model.bert,
        loaded.vocab,
        pooling=pooling,
        layer=args.layer,
        normalize=normalize,
        max_tokens=args.max_tokens or recipe.max_tokens,
        tokens_per_batch=args.tokens_per_batch,
    )
    texts, seconds = read_texts(args.input), 0.0
    with (
        open_vectors(args.output, loaded.model.bert.hidden) as vectors,
        tqdm(desc="embed", unit=" lines", disable=None, file=sys.stderr) as bar,
    ):
        while some := list(islice(texts, args.lines_at_once)):
            start = time.perf_counter()
            found = embed([clean(text) for text in some])
            seconds += time.perf_counter() - start
            vectors.write(found, some)
            bar.update(len(some))
    report: dict[str, object] = {"ok": True, "lines": vectors.n_vectors, "features": loaded.model.bert.hidden}
    report |= {"pooling": pooling, "layer": args.layer, "normalize": normalize, "max_tokens": embed.max_tokens}
    report |= {"cut_lines": embed.n_cut, "tokens": embed.n_tokens, "embed_seconds": seconds}
    say(args, f"{report['lines']} vectors of {report['features']} numbers in {args.output}")
    if embed.n_cut:
        say(args, f"{embed.n_cut} lines were longer than {embed.max_tokens} tokens and lost their ends")
    return {**report, "output": args.output, "elapsed_seconds": time.perf_counter() - began}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and embed."""
    return run(build_parser(), work, argv)


if __name__ == "__main__":
    sys.exit(main())
