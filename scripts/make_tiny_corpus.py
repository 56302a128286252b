#!/usr/bin/env python3
"""Write a small corpus of generated stories in which masked words and the next sentence can be learned."""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents if (p / "src" / "bert_pytorch").is_dir())))

from bert_pytorch.command import Parser, at_least, run, say
from bert_pytorch.dataset.draws import Draws
from bert_pytorch.files import atomic_write

DEFAULT_OUTPUT = "bert-smoke/corpus.txt"
NAMES = ("mia", "tom", "ada", "ben", "eva", "max", "ida", "leo", "zoe", "jan", "amy", "sam")
COLOURS = ("red", "blue", "green", "white", "brown", "golden")
# Per trade: place, tool, material, product, helper, buyer.
TRADES = (
    ("bakery", "oven", "flour", "bread", "miller", "school"),
    ("forge", "hammer", "iron", "gate", "smith", "castle"),
    ("farm", "plough", "seed", "corn", "shepherd", "market"),
    ("harbour", "net", "rope", "boat", "sailor", "island"),
    ("library", "pen", "paper", "book", "printer", "museum"),
    ("garden", "spade", "bulb", "tulip", "florist", "palace"),
    ("workshop", "saw", "timber", "table", "carpenter", "tavern"),
    ("kiln", "wheel", "clay", "vase", "potter", "temple"),
)
SENTENCES = (
    "in the morning {name} opened the {place} and took the {colour} {tool} .",
    "first {name} put the {material} beside the {colour} {tool} in the {place} .",
    "then the {helper} helped {name} to turn the {material} into a {colour} {product} .",
    "by noon the {colour} {product} of {name} and the {helper} was ready .",
    "later {name} carried the {colour} {product} from the {place} to the {buyer} .",
    "at last the {buyer} paid {name} for the {colour} {product} and all went home .",
)


def tell(seed: int, story: int) -> list[str]:
    """The sentences of one story, a function of `(seed, story)`."""
    draws = Draws(seed, 0, story)
    words = dict(
        zip(("place", "tool", "material", "product", "helper", "buyer"), TRADES[draws.integer(len(TRADES))], strict=True)
    )
    words |= {"name": NAMES[draws.integer(len(NAMES))], "colour": COLOURS[draws.integer(len(COLOURS))]}
    return [sentence.format(**words) for sentence in SENTENCES]


def work(args: argparse.Namespace) -> dict[str, object]:
    """Write the pairs of consecutive sentences, story by story."""
    lines: list[str] = []
    story = 0
    while len(lines) < args.pairs:
        sentences = tell(args.seed, story)
        lines += [f"{first}\t{second}\n" for first, second in pairwise(sentences)]
        story += 1
    with atomic_write(args.output) as file:
        file.write("".join(lines[: args.pairs]).encode("utf-8"))
    say(args, f"{args.output}: {args.pairs} pairs from {story} stories; next: train_smoke.py or bert-vocab")
    return {"ok": True, "output": args.output, "pairs": args.pairs, "stories": story, "seed": args.seed}


def main() -> int:
    """Parse the flags and write the corpus."""
    parser = Parser(description=__doc__)
    parser.add_argument("--output", default=DEFAULT_OUTPUT, metavar="FILE", help=f"where to write ({DEFAULT_OUTPUT})")
    parser.add_argument("--pairs", type=at_least(1), default=600, metavar="N", help="pairs, one a line (600)")
    parser.add_argument("--seed", type=at_least(0), default=0, metavar="N", help="same seed, same file (0)")
    parser.add_argument("--json", action="store_true", help="print the closing JSON line only")
    return run(parser, work)


if __name__ == "__main__":
    sys.exit(main())
