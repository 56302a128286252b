#!/usr/bin/env python3
"""Encode a corpus once: a file of token ids that bert maps instead of reading the text. Exit 0: written, 1: refused.

With --shard_lines: many files and a manifest over them, --output is their folder, also elsewhere (s3://bucket/folder).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.errors import UsageError
from bert_pytorch.files import check_writable

DEFAULT_CORPUS, DEFAULT_VOCAB = "bert-smoke/corpus.txt", "bert-smoke/vocab.json"
SUFFIX = ".tokens"


def work(args: argparse.Namespace) -> dict[str, object]:
    """Encode, and report what the file holds."""
    # Torch is imported here, so that --help needs none.
    from bert_pytorch.dataset.cache import EncodingSettings, encode_corpus

    began = time.perf_counter()
    if args.together is not None and args.shard_lines is None:
        raise UsageError("--together has no effect without --shard_lines; leave it out [E-SETTING-CONFLICT]")
    if args.shard_lines is not None:
        return work_in_shards(args)
    output = args.output or args.corpus + SUFFIX
    check_writable(output)
    vocab = Vocab.load_vocab(args.vocab)
    settings = EncodingSettings(args.columns, args.encoding, args.corpus_lines, args.skip_bad_lines)
    encoded = encode_corpus(args.corpus, vocab, output, settings, args.processes)
    n_tokens, n_unknown = encoded.manifest["n_tokens"], int(encoded.word_counts[vocab.unk_index])
    seconds = time.perf_counter() - began
    n_bytes = os.path.getsize(output)
    say(args, f"{output}: {len(encoded)} lines, {n_tokens} tokens, {n_unknown / n_tokens:.2%} of them <unk>, {n_bytes} bytes")
    say(args, f"train with: bert -c {output} -v {args.vocab} -o NAME")
    return {
        "ok": True,
        "output": output,
        "lines": len(encoded),
        "columns": args.columns,
        "skipped_lines": encoded.manifest["corpus"]["n_skipped"],
        "tokens": n_tokens,
        "unk_share": n_unknown / n_tokens,
        "id_type": encoded.manifest["arrays"]["ids"]["type"],
        "bytes": n_bytes,
        "corpus_sha256": encoded.manifest["corpus"]["sha256"],
        "vocab_fingerprint": vocab.fingerprint,
        "lines_per_second": len(encoded) / seconds,
        "elapsed_seconds": seconds,
    }


def work_in_shards(args: argparse.Namespace) -> dict[str, object]:
    """Encode into many files."""
    from bert_pytorch.dataset.cache import EncodingSettings
    from bert_pytorch.dataset.shard_writer import encode_shards
    from bert_pytorch.dataset.sharded import MANIFEST, TOGETHER

    began = time.perf_counter()
    folder = (args.output or args.corpus + ".shards").rstrip("/")
    vocab = Vocab.load_vocab(args.vocab)
    settings = EncodingSettings(args.columns, args.encoding, args.corpus_lines, args.skip_bad_lines)
    together = args.together or TOGETHER
    made = encode_shards(args.corpus, vocab, folder, settings, args.shard_lines, together=together, n_processes=args.processes)
    seconds, n_unknown = time.perf_counter() - began, made["word_counts"][vocab.unk_index]
    output, n_bytes = f"{folder}/{MANIFEST}", sum(each["n_bytes"] for each in made["shards"])
    say(args, f"{output}: {made['n_lines']} lines in {len(made['shards'])} shards, {made['n_tokens']} tokens, {n_bytes} bytes")
    say(args, f"train with: bert -c {output} -v {args.vocab} -o NAME")
    return {
        "ok": True,
        "output": output,
        "shards": len(made["shards"]),
        "lines": made["n_lines"],
        "columns": args.columns,
        "skipped_lines": made["corpus"]["n_skipped"],
        "tokens": made["n_tokens"],
        "unk_share": n_unknown / made["n_tokens"],
        "bytes": n_bytes,
        "corpus_sha256": made["corpus"]["sha256"],
        "vocab_fingerprint": vocab.fingerprint,
        "lines_per_second": made["n_lines"] / seconds,
        "elapsed_seconds": seconds,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and encode."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--corpus", default=DEFAULT_CORPUS, metavar="FILE", help=f"pairs, two texts and a tab a line ({DEFAULT_CORPUS})")
    add("--vocab", default=DEFAULT_VOCAB, metavar="FILE", help=f"vocabulary made by bert-vocab ({DEFAULT_VOCAB})")
    add("--output", metavar="FILE", help=f"the encoded corpus (that of --corpus, with {SUFFIX} at its end)")
    add("--columns", type=int, choices=(1, 2), default=2, help="texts a line; 1: for bert --objective mlm (2)")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of the corpus (utf-8)")
    add("--corpus_lines", type=at_least(1), metavar="N", help="encode the first N lines (all)")
    add("--skip_bad_lines", action="store_true", help="leave bad lines out and count them")
    add("--processes", type=at_least(1), metavar="N", help="processes that encode (one a core, for files above 8 MB)")
    add("--shard_lines", type=at_least(1), metavar="N", help="lines a shard: write many files and manifest.json")
    add("--together", type=at_least(1), metavar="N", help="shards that training reads at a time; processes divide it (8)")
    add("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work, argv)


if __name__ == "__main__":
    sys.exit(main())
