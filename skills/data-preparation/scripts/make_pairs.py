#!/usr/bin/env python3
"""Make a corpus of pairs from documents: texts that follow each other in one document, split by document."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, between, run, say
from bert_pytorch.errors import UsageError
from bert_pytorch.files import check_writable
from bert_pytorch.preparation.documents import read_documents
from bert_pytorch.preparation.layout import FORMATS, Layout, format_of
from bert_pytorch.preparation.pairing import corpus_lines
from bert_pytorch.preparation.parts import PARTS, Part, Split, write_parts
from bert_pytorch.preparation.sources import COMPRESSIONS, STDIN, Tally

TABLES = ("csv", "tsv")
RECORDS = ("jsonl", *TABLES)
FORMATS_OF = {
    **{"document_per_file": ("text",), "field": ("jsonl",), "group_by": RECORDS},
    **dict.fromkeys(("columns", "no_header", "no_quotes", "row_pairs"), TABLES),
    **{"session": ("log",), "mask": ("log",), "split_sentences": ("text", *RECORDS), "kmer": ("text", *RECORDS, "fasta")},
}
"""Flags that belong to some formats only."""
EXCLUDES = {
    "row_pairs": ("split_sentences", "kmer", "group_by", "target_len", "single"),
    "kmer": ("split_sentences", "group_by", "document_per_file"),
    "sequences": ("split_punctuation", "split_characters"),
    "split_characters": ("split_punctuation",),
    "session": ("window",),
}
NEEDS = {
    "stride": ("sequences",),
    "window": ("log", "sequences"),
    "max_open_sessions": ("session", "group_by"),
    "short_prob": ("target_len",),
    "drop_seen": ("valid_share", "test_share"),
}
"""Flags without effect where none of the others is given."""
FEW_HELD_OUT = 50
"""At 15 % of 20 words they hide 150: the loss is known to a tenth of its spread."""
LARGE_SHARE_SEEN = 0.2
N_EXAMPLES, N_SHOWN = 3, 80


def check_flags(args: argparse.Namespace, kind: str) -> None:
    """Refuse flags that contradict each other or would do nothing."""
    given = {name for name, value in vars(args).items() if value is not None and value is not False and value != 0}
    given |= {kind} | ({"sequences"} if kind == "fasta" or args.kmer else set())
    for name in sorted(given):
        formats = FORMATS_OF.get(name, (kind,))
        if kind not in formats:
            refuse(
                f"--{name} has no effect on the format {kind}, expected {' or '.join(formats)}; leave it out or name --format"
            )
        for other in EXCLUDES.get(name, ()):
            if other in given:
                refuse(f"--{other} has no effect with {'--' * (name in vars(args))}{name}; leave one out")
        if name in NEEDS and not given & set(NEEDS[name]):
            wanted = " or ".join(f"--{flag}" for flag in NEEDS[name] if flag in vars(args)) or "--kmer"
            refuse(f"--{name} has no effect here; pass it with {wanted}, or leave it out")
    if args.row_pairs and len(args.columns or ()) != 2:
        refuse(f"--row_pairs wants two names or numbers with --columns, got {len(args.columns or ())}; name two")
    if args.valid_share + args.test_share >= 0.5:
        refuse("--valid_share and --test_share together must be below 0.5; make them smaller")
    if args.input.count(STDIN) > 1 or (STDIN in args.input and sys.stdin.isatty()):
        refuse("--input - reads from a pipe, once; pipe a file into it")


def check_outputs(args: argparse.Namespace) -> None:
    """Refuse a prefix that cannot be written to or that would put a part over an input."""
    if not os.path.basename(args.output):
        refuse(f"--output {args.output} is a folder, expected the beginning of a file's name; add one")
    for name in PARTS:
        path = Path(f"{args.output}.{name}.txt")
        if any(path.exists() and os.path.exists(source) and os.path.samefile(path, source) for source in args.input):
            refuse(f"--output would put its part {path} over an input; name another")
        check_writable(path)


def refuse(message: str) -> None:
    """End with status 2."""
    raise UsageError(f"{message} [E-SETTING-CONFLICT]")


def layout_of(args: argparse.Namespace, kind: str) -> Layout:
    """What the flags say about the sources."""
    return Layout(
        format=kind,
        encoding=args.encoding,
        compression=args.compression,
        skip_bad_lines=args.skip_bad_lines,
        document_per_file=args.document_per_file,
        language=args.split_sentences,
        field=args.field or "text",
        group_by=args.group_by,
        columns=tuple(args.columns or ("1",)),
        has_header=not args.no_header,
        is_quoted=not args.no_quotes,
        row_pairs=args.row_pairs,
        session=args.session,
        masks=tuple(args.mask or ()),
        window=args.window or (20 if kind == "log" else 60),
        max_open=args.max_open_sessions or 100_000,
        k=args.kmer or (1 if kind == "fasta" else None),
        stride=args.stride or 1,
        lowercase=args.lowercase,
        punctuation=args.split_punctuation,
        characters=args.split_characters,
    )


def work(args: argparse.Namespace) -> dict[str, object]:
    """Read the documents, write the parts, and say what was made of what."""
    began = time.perf_counter()
    kinds = sorted({args.format or format_of(path) for path in args.input})
    if len(kinds) > 1:
        refuse(f"--input names files of the formats {' and '.join(kinds)}; name one with --format, or run once for each")
    check_flags(args, kinds[0])
    check_outputs(args)
    tally, examples = Tally(), []
    documents = read_documents(args.input, layout_of(args, kinds[0]), tally)
    short_prob = 0.1 if args.short_prob is None else args.short_prob
    lines = corpus_lines(documents, tally, args.target_len, short_prob, args.single, args.seed)
    split = Split(args.valid_share, args.test_share, args.seed)
    parts = write_parts(args.output, with_examples(lines, examples), split, args.drop_seen)
    report = report_of(parts, tally, args.drop_seen)
    tell(args, parts, report, examples)
    return {**report, "elapsed_seconds": time.perf_counter() - began}


def with_examples(lines: Iterator[tuple[int, str]], examples: list[str]) -> Iterator[tuple[int, str]]:
    """The same lines; the first of them are also kept to be shown."""
    for document, line in lines:
        if len(examples) < N_EXAMPLES:
            examples.append(line)
        yield document, line


def report_of(parts: dict[str, Part], tally: Tally, drop_seen: bool) -> dict[str, object]:
    """The figures of the closing JSON."""
    held_out = [part for name, part in parts.items() if name != "train"]
    n_seen = sum(part.seen for part in held_out)
    n_held_out = sum(part.lines for part in held_out) + n_seen * drop_seen
    return {
        "ok": True,
        "documents": tally.documents,
        "sentences": tally.sentences,
        "pairs": sum(part.lines for part in parts.values()),
        **{f"{name}_pairs": parts[name].lines if name in parts else 0 for name in PARTS},
        **{f"{name}_documents": parts[name].documents if name in parts else 0 for name in PARTS},
        **{key: value for key, value in vars(tally).items() if key not in ("documents", "sentences")},
        "seen_share": n_seen / n_held_out if n_held_out else None,
        "dropped_seen": n_seen if drop_seen else 0,
        "outputs": {name: part.path for name, part in parts.items()},
    }


def tell(args: argparse.Namespace, parts: dict[str, Part], report: dict[str, object], examples: list[str]) -> None:
    """The summary for a reader, and warnings."""
    unit = "texts" if args.single else "pairs"
    for part in parts.values():
        say(args, f"{ascii(part.path)[1:-1]}: {part.lines} {unit} of {part.documents} documents")
    say(
        args,
        f"from {report['documents']} documents with {report['sentences']} sentences; {report['dropped_documents']} too short",
    )
    for example in examples:
        shown = [ascii(text[:N_SHOWN])[1:-1] + "..." * (len(text) > N_SHOWN) for text in example.split("\t")]
        say(args, f"  {' <TAB> '.join(text[: 3 * N_SHOWN] for text in shown)}")
    seen, n_early = report["seen_share"], report["closed_early"]
    if seen is not None:
        say(args, f"{seen:.1%} of the held-out {unit} also stand in train{', and were dropped' * args.drop_seen}")
    if isinstance(seen, float) and seen > LARGE_SHARE_SEEN and not args.drop_seen:
        advice = "say so with the loss; or leave them out with --drop_seen"
        message = f"{seen:.1%} of the held-out {unit} also stand in train, so that their loss measures memory"
        warnings.warn(f"{message}; {advice}", stacklevel=1)
    for message in shortages(args, report, unit):
        warnings.warn(message, stacklevel=1)
    if n_early:
        advice = "one that goes on later is two documents; a larger --max_open_sessions, or sort by it"
        warnings.warn(f"{n_early} sessions or groups were closed before the end of the input; {advice}", stacklevel=1)


def shortages(args: argparse.Namespace, report: dict[str, Any], unit: str) -> list[str]:
    """What there is too little of for a run's figures to mean anything."""
    messages = []
    n_short, n_documents = report["dropped_documents"], report["documents"]
    if n_short > n_documents / 2:
        advice = "leave --session out, windows of lines are documents too"
        if not args.session:
            advice = "see that blank lines stand between documents only, or pass --split_sentences or --single"
        messages.append(f"{n_short} of {n_documents} documents are too short for a line of the corpus; {advice}")
    for name in sorted(report["outputs"].keys() - {"train"}):
        if (n_left := report[f"{name}_pairs"]) < FEW_HELD_OUT:
            advice = "keep those seen in training and say their share with the loss, or " * args.drop_seen
            advice += f"raise --{name}_share, or take more text"
            messages.append(f"{n_left} {name} {unit} tell little, expected {FEW_HELD_OUT} to measure a loss by; {advice}")
    return messages


def language(text: str) -> str:
    """A language's code."""
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z]+)*", text):
        raise argparse.ArgumentTypeError(f"expected a code of ISO 639 such as en or zh, got {text!r}")
    return text


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression that does not match everywhere."""
    try:
        compiled = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"expected a regular expression, got {text!r}: {error}") from None
    if compiled.search(""):
        raise argparse.ArgumentTypeError(f"expected a regular expression that matches something, {text!r} matches nothing too")
    return compiled


def session(text: str) -> re.Pattern[str]:
    """A pattern with a group."""
    compiled = pattern(text)
    if not compiled.groups:
        raise argparse.ArgumentTypeError(f"expected a group in parentheses that is the session's id, got {text!r}")
    return compiled


def mask(text: str) -> tuple[str, str]:
    """The name and the pattern of a mask."""
    name, _, expression = text.partition("=")
    if not re.fullmatch("[A-Z][A-Z0-9_]*", name):
        raise argparse.ArgumentTypeError(f"expected NAME=REGEX, the name in capital letters, got {text!r}")
    return name, pattern(expression).pattern


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and make the pairs."""
    parser = Parser(
        usage="%(prog)s --input FILE [FILE ...] --output PREFIX [flags]",
        description=__doc__,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=36, width=128),
    )
    add, positive = parser.add_argument, at_least(1)
    add("--input", required=True, nargs="+", metavar="FILE", help="documents; .gz and .zst are decompressed; -: standard input")
    add("--output", required=True, metavar="PREFIX", help="writes PREFIX.train.txt, PREFIX.valid.txt, PREFIX.test.txt")
    add("--format", choices=FORMATS, help="(by the file's name, else text)")
    add("--log", dest="format", action="store_const", const="log", help="the same as --format log; variables are masked")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of the input (utf-8)")
    add("--compression", choices=COMPRESSIONS, help="of the input (by the file's name)")
    add("--skip_bad_lines", action="store_true", help="leave bad lines and records out and count them")
    add("--document_per_file", action="store_true", help="text: blank lines part no documents (they and form feeds do)")
    add("--split_sentences", type=language, metavar="LANG", help="split running text, e.g. en, zh (a line is a sentence)")
    add("--field", metavar="NAME", help="jsonl: where the text is, dotted if nested; a list has one sentence each (text)")
    add("--group_by", metavar="NAME", help="jsonl, csv: records that share this value are one document (each is one)")
    add("--columns", nargs="+", metavar="NAME", help="csv, tsv: names, or numbers from 1, of the texts (1)")
    add("--no_header", action="store_true", help="csv, tsv: the first row is a record too")
    add("--no_quotes", action="store_true", help="csv, tsv: a quote is a plain character")
    add("--row_pairs", action="store_true", help="csv, tsv: the two columns of a row are a pair")
    add("--session", type=session, metavar="REGEX", help="log: first group is a session's id, e.g. (blk_-?\\d+) (windows)")
    add("--window", type=positive, metavar="N", help="log: lines a document (20); sequences: k-mers a text (60)")
    add("--max_open_sessions", type=positive, metavar="N", help="sessions or groups held; the idle longest is closed (100000)")
    add("--mask", type=mask, action="append", metavar="NAME=REGEX", help="log: one more mask, e.g. USER=(?<=user )\\w+")
    add("--kmer", type=positive, metavar="N", help="each text is a sequence: N letters a word (fasta: 1)")
    add("--stride", type=positive, metavar="N", help="letters from one k-mer to the next (1)")
    add("--target_len", type=at_least(2), metavar="N", help="words a pair: sentences are packed and cut (a sentence a text)")
    add("--short_prob", type=between(0, 1), metavar="X", help="chance of a shorter, drawn target (0.1)")
    add("--single", action="store_true", help="one text a line, no tab")
    share = between(0, 0.5)
    add("--valid_share", type=share, default=0.05, metavar="X", help="share of documents in the valid part (0.05)")
    add("--test_share", type=share, default=0.0, metavar="X", help="share of documents in the test part (0)")
    add("--seed", type=at_least(0), default=42, metavar="N", help="same seed, same files (42)")
    add("--drop_seen", action="store_true", help="leave held-out pairs that also stand in train out")
    add("--lowercase", action="store_true", help="make all letters small")
    add("--split_punctuation", action="store_true", help="make punctuation marks and symbols words of their own")
    add("--split_characters", action="store_true", help="make each character a word: for languages without spaces")
    add("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work, argv)


if __name__ == "__main__":
    sys.exit(main())
