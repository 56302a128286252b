"""Flags that the scripts over a trained model share, and what they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..command import at_least
from ..devices import check_device
from ..errors import InputError

if TYPE_CHECKING:
    from .loading import Loaded


def add_model_flags(parser: argparse.ArgumentParser) -> None:
    """Add those that name a model, its vocabulary and where it runs."""
    add = parser.add_argument
    add("--model", required=True, metavar="PATH", help="checkpoint, or folder in Transformers' form")
    add("--vocab_path", metavar="FILE", help="vocabulary, with a checkpoint (a folder has its own)")
    add("--device", choices=("cpu", "cuda", "auto"), default="auto", help="cuda: fail without one (auto)")


def add_cleaning_flags(parser: argparse.ArgumentParser) -> None:
    """Add those that bring lines into the form of the corpus, named as in `make_pairs.py`."""
    add = parser.add_argument
    add("--log", action="store_true", help="mask what varies in a log line, as make_pairs.py --log does")
    add("--mask", action="append", metavar="NAME=REGEX", help="with --log: one more mask")
    add("--lowercase", action="store_true", help="make all letters small")
    add("--split_punctuation", action="store_true", help="make punctuation marks words of their own")


def add_json_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="print the closing JSON line only")


def add_batch_flag(parser: argparse.ArgumentParser) -> None:
    """Add `--lines_at_once`."""
    at_once = "lines held in memory at a time (16384)"
    parser.add_argument("--lines_at_once", type=at_least(1), default=16_384, metavar="N", help=at_once)


def load_from(args: argparse.Namespace) -> Loaded:
    """The model that the flags name, on their device.

    Raises:
        InputError: It cannot be read.
        UnavailableError: There is no such device.
    """
    from .loading import open_model

    with_cuda = check_device(args.device)
    loaded = open_model(args.model, args.vocab_path)
    if with_cuda:
        loaded.model.cuda()
    return loaded


def cleaner_from(args: argparse.Namespace) -> Callable[[str], str]:
    """What brings a line into the form of the corpus.

    Raises:
        InputError: A mask has no name or no pattern.
        UnavailableError: The package that masks logs is not installed.
    """
    from ..preparation.words import plain, word_former

    if args.mask and not args.log:
        raise InputError("--mask has no effect without --log; add it, or leave both out [E-SETTING-CONFLICT]")
    if not (args.log or args.lowercase or args.split_punctuation):
        return lambda line: line
    mask, keep = _masker_from(args) if args.log else (plain, "")
    form = word_former(args.lowercase, args.split_punctuation, keep=keep)
    return lambda line: "\t".join(form(mask(text)) for text in line.split("\t"))


def _masker_from(args: argparse.Namespace) -> tuple[Callable[[str], str], str]:
    """What masks a log line, and the pattern of masks."""
    from ..preparation.logs import MASK, masker
    from ..preparation.words import plain

    parts = [text.partition("=") for text in args.mask or []]
    if any(not (name and pattern) for name, _, pattern in parts):
        raise InputError("--mask: expected NAME=REGEX; give both [E-INFER-SETTING]")
    mask = masker([(name, pattern) for name, _, pattern in parts])
    return lambda line: mask(plain(line)), MASK
