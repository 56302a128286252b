#!/usr/bin/env python3
"""Check a corpus of pairs, build its vocabulary, and prove that the vocabulary counts, saves, loads and encodes rightly."""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.dataset.corpus import PairCorpus
from bert_pytorch.dataset.lines import read_text
from bert_pytorch.dataset.vocab import WordVocab
from bert_pytorch.files import check_writable

DEFAULT_CORPUS = "bert-smoke/corpus.txt"
DEFAULT_OUTPUT = "bert-smoke/vocab.json"
WORD = re.compile(r"\S+")
N_ROUND_TRIPS = 1000


def count_apart(corpus: PairCorpus) -> int:
    """Words of the corpus, counted without the vocabulary's own code."""
    return sum(len(WORD.findall(text)) for pair in corpus for text in pair)


def round_trips(corpus: PairCorpus, vocab: WordVocab) -> bool:
    """Whether texts come back from their ids, with `<unk>` for the words that were left out."""
    known = set(vocab.itos)
    for _, pair in zip(range(N_ROUND_TRIPS), corpus, strict=False):
        for text in pair:
            expected = " ".join(word if word in known else "<unk>" for word in text.split())
            if vocab.from_seq(vocab.to_seq(text), join=True) != expected:
                return False
    return True


def work(args: argparse.Namespace) -> dict[str, object]:
    """Build the vocabulary and check it; `ok` is true only when every proof holds."""
    began = time.perf_counter()
    check_writable(args.output)
    corpus = PairCorpus(args.corpus, args.encoding, on_memory=False, skip_bad_lines=args.skip_bad_lines)
    n_words = count_apart(corpus)
    lines = (f"{first}\t{second}" for first, second in corpus) if args.skip_bad_lines else read_text(args.corpus, args.encoding)
    vocab = WordVocab(lines, max_size=args.vocab_size, min_freq=args.min_freq)
    vocab.save_vocab(args.output)
    loaded = WordVocab.load_vocab(args.output)
    proofs = {
        "counts_agree": sum(vocab.freqs.values()) == n_words,
        "specials_lead": loaded.itos[:5] == ["<pad>", "<unk>", "<eos>", "<sos>", "<mask>"],
        "loads_equal": loaded == vocab,
        "round_trips": round_trips(corpus, loaded),
    }
    for name, holds in proofs.items():
        say(args, f"{'yes' if holds else 'NO ':3} {name}")
    unk_share = 1 - sum(vocab.counts) / n_words
    say(args, f"{args.output}: {len(vocab)} ids for {len(corpus)} pairs, {unk_share:.2%} of the words are <unk>")
    return {
        "ok": all(proofs.values()),
        **proofs,
        "vocab_path": args.output,
        "vocab_size": len(vocab),
        "pairs": len(corpus),
        "skipped_lines": corpus.n_skipped,
        "words": n_words,
        "types": len(vocab.freqs),
        "unk_share": unk_share,
        "elapsed_seconds": time.perf_counter() - began,
    }


def main() -> int:
    """Parse the flags and run the proof."""
    parser = Parser(description=__doc__)
    add = parser.add_argument
    add("--corpus", default=DEFAULT_CORPUS, metavar="FILE", help=f"pairs, two texts and a tab a line ({DEFAULT_CORPUS})")
    add("--output", default=DEFAULT_OUTPUT, metavar="FILE", help=f"where the vocabulary is written ({DEFAULT_OUTPUT})")
    add("--vocab_size", type=at_least(1), metavar="N", help="most words, beside the 5 specials (all)")
    add("--min_freq", type=at_least(1), default=1, metavar="N", help="least occurrences of a word (1)")
    add("--encoding", default="utf-8", metavar="NAME", help="encoding of the corpus (utf-8)")
    add("--skip_bad_lines", action="store_true", help="leave bad lines out and count them")
    add("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work)


if __name__ == "__main__":
    sys.exit(main())
