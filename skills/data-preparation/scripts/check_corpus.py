#!/usr/bin/env python3
"""Find every fault of a corpus and the figures to choose settings by; --fix writes a clean one. Exit 0: no fault, 1: faults."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.preparation.checking import CheckOptions, check_corpus
from bert_pytorch.preparation.faults import KINDS, READABLE_KINDS, Rules

DEFAULT_CORPUS = "bert-smoke/corpus.txt"
SUMMARY_CHARS = 1800
"""Of the lines of faults and facts together; a few more tell what was written."""


def fault_lines(faults: dict[str, dict], room: int) -> list[str]:
    """One line a kind: how many, where first, what it is, and as much of the example as there is room for."""
    width = min(150, room // max(1, len(faults)) - 1)
    lines = []
    for kind, fault in faults.items():
        where = f"{kind:12} {fault['count']:>9} from line {fault['first_lines'][0]}"
        refused = ", bert refuses them" if fault["refused_by_bert"] else ""
        lines.append(f"{where}: {KINDS[kind].meaning}{refused}: {fault['example']}"[:width])
    return lines


def fact_lines(report: dict) -> list[str]:
    """Sizes, lengths, vocabulary and proposals."""
    kind = "texts" if "text" in report["lengths"] else "pairs"
    lines = [f"{report['lines']} lines, {report['pairs']} {kind}, {report['words']} words, {report['types']} different"]
    if report["likely_encoding"]:
        lines.append(f"likely encoding: {report['likely_encoding']}; where you named that one, single bytes are damaged")
    if not report["pairs"]:
        return lines
    vocabulary = report["vocabulary"]
    unit = "words" if report["tokens"] == report["words"] else "pieces"
    for name, at in report["lengths"].items():
        lines.append(f"{unit} in {name}: " + ", ".join(f"{key} {value}" for key, value in at.items()))
    trimmed = report["trimmed"]
    lost = f"{trimmed['pair_share']:.2%} of the {kind} are trimmed, {trimmed['token_share']:.2%} of the {unit} lost"
    lines.append(f"--seq_len {trimmed['seq_len']}: {lost}")
    if given := vocabulary.get("given"):
        per_word = f", {given['tokens_per_word']:.2f} pieces a word" * (unit == "pieces")
        lines.append(f"the vocabulary leaves {given['unk_share']:.2%} of the {unit} <unk>{per_word}")
    if "best" in vocabulary:
        sizes = ", ".join(f"{row['unk_share']:.1%} at {row['size']}" for row in vocabulary["best"])
        lines.append(f"<unk> with the best vocabulary of words: {sizes}")
    for name, proposal in report["proposals"].items():
        lines.append(f"propose --{name.removeprefix('subword_')} {proposal['value']}: {proposal['reason']}")
    return lines


def work(args: argparse.Namespace) -> dict[str, object]:
    """Check the corpus; `ok` is true only when it has no fault."""
    began = time.perf_counter()
    rules = Rules(args.columns, args.max_chars, args.allow)
    options = CheckOptions(args.encoding, args.other, args.vocab, args.seq_len, args.fix)
    report = check_corpus(args.corpus, rules, options)
    facts = fact_lines(report)
    for line in (*fault_lines(report["faults"], SUMMARY_CHARS - len("\n".join(facts))), *facts):
        say(args, line)
    if args.fix is not None:
        done = report["fixed"]
        counts = f"{done['pairs']} pairs, {done['changed']} of them changed; {done['left_out']} lines left out"
        place = ascii(done["output"])[1:-1][-150:] if done["output"] else "nothing written, no pair would be left"
        say(args, f"{place}: {counts}")
    verdict = {}
    if not report["ok"]:
        counts = ", ".join(f"{kind} {fault['count']}" for kind, fault in report["faults"].items())
        remedy = "see the clean corpus" if args.fix else "write a clean corpus with --fix OUT"
        message = f"{args.corpus}: expected no fault, got {counts}; {remedy}, or accept a kind with --allow [E-CHECK-FAULTS]"
        print(f"check_corpus.py: {ascii(message)[1:-1]}", file=sys.stderr)
        verdict = {"error": message, "code": "E-CHECK-FAULTS"}
    return {"ok": report.pop("ok"), **verdict, "corpus": args.corpus, **report, "elapsed_seconds": time.perf_counter() - began}


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the flags and check."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--corpus", default=DEFAULT_CORPUS, metavar="FILE", help=f"pairs, two texts and a tab a line ({DEFAULT_CORPUS})")
    add("--other", metavar="FILE", help="held-out pairs: those that stand in the corpus too are a fault (overlap)")
    add("--vocab", metavar="FILE", help="vocabulary: report how much of the corpus it covers")
    add("--seq_len", type=at_least(5), metavar="N", help="report trimming at so many tokens, markers included (as proposed)")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of the corpus and of --other (utf-8)")
    add("--columns", type=int, choices=(1, 2), default=2, help="texts a line; 1: no tab is expected (2)")
    add("--max_chars", type=at_least(1), default=100_000, metavar="N", help="characters a line; more is a fault (100000)")
    add("--fix", metavar="OUT", help="write a clean corpus (UTF-8, LF) to OUT, what was done to OUT.changes.tsv")
    kinds = ", ".join(READABLE_KINDS)
    add("--allow", nargs="+", default=(), choices=READABLE_KINDS, metavar="KIND", help=f"no faults, left as they are: {kinds}")
    add("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work, argv)


if __name__ == "__main__":
    sys.exit(main())
