"""What `bert` trains on: corpora opened, encoded where they are not yet, and checked, before anything else begins."""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from typing import TYPE_CHECKING

from .errors import UsageError
from .launch import rank

if TYPE_CHECKING:
    from .dataset import BERTDataset
    from .dataset.vocab import Vocab

DATA_SETTINGS = ("objective", "mlm_probability", "whole_word_masking", "span_masking")


def check_data_flags(args: argparse.Namespace) -> None:
    """Refuse flags that have no effect beside others.

    Raises:
        UsageError: There is one; the message names it.
    """
    from .dataset.encoded_file import is_encoded

    texts = [path for path in (args.train_dataset, args.test_dataset) if path and not is_encoded(path)]
    useless = {
        "--whole_word_masking": args.whole_word_masking and args.span_masking and "with --span_masking",
        "--group_by_length": args.group_by_length and args.packing and "with --packing",
        "--pad_to_multiple_of": args.pad_to_multiple_of > 1 and args.packing and "with --packing",
        "--cache_dir": args.cache_dir and not (args.on_memory and texts) and "where no text is encoded beforehand",
        "--on_memory false": not args.on_memory and not texts and "on encoded corpora",
        "--encoding": args.encoding != "utf-8" and not texts and "on encoded corpora",
        "--skip_bad_lines": args.skip_bad_lines and not texts and "on encoded corpora",
        "--corpus_lines": args.corpus_lines and args.train_dataset not in texts and "on an encoded corpus",
    }
    for flag, reason in useless.items():
        if reason:
            raise UsageError(f"{flag} has no effect {reason}; leave one out [E-SETTING-CONFLICT]")


def open_datasets(args: argparse.Namespace, vocab: Vocab) -> tuple[BERTDataset, BERTDataset | None]:
    """The training corpus and the held-out one, as ids, with a line of facts about each on stderr.

    Raises:
        InputError: A corpus cannot be used.
    """
    if args.whole_word_masking and not any(vocab.continues_word):
        message = f"--whole_word_masking has no effect with {args.vocab_path}, whose entries are whole words; leave it out"
        raise UsageError(f"{message} [E-SETTING-CONFLICT]")
    dataset = _open_dataset(args, vocab, args.train_dataset, args.corpus_lines)
    test_dataset = _open_dataset(args, vocab, args.test_dataset, None) if args.test_dataset else None
    partners = dataset.encoded.partners
    if args.objective == "mlm+nsp" and partners is not None and int(partners.group_size[0]) == len(dataset):
        message = "all second texts are equal: there is no next sentence to learn; pass --objective mlm"
        warnings.warn(f"{args.train_dataset}: {message}", stacklevel=2)
    return dataset, test_dataset


def _open_dataset(args: argparse.Namespace, vocab: Vocab, path: str, corpus_lines: int | None) -> BERTDataset:
    from .dataset import BERTDataset
    from .dataset.cache import EncodingSettings, check_source, open_cached
    from .dataset.corpus import count_columns
    from .dataset.encoded_file import is_encoded
    from .dataset.vocab import WordVocab

    options = {name: getattr(args, name) for name in ("seed", *DATA_SETTINGS)}
    opened = path
    if is_encoded(path):
        check_source(path)
    elif args.on_memory:
        n_columns = count_columns(path, args.encoding) if args.objective == "mlm" else 2
        settings = EncodingSettings(n_columns, args.encoding, corpus_lines, args.skip_bad_lines)
        folder = args.cache_dir or args.output_dir or os.path.dirname(args.output_path) or "."
        opened = open_cached(path, vocab, folder, settings).path
    else:
        options |= {"encoding": args.encoding, "on_memory": False, "skip_bad_lines": args.skip_bad_lines}
        options["corpus_lines"] = corpus_lines
    dataset = BERTDataset(opened, vocab, args.seq_len, **options)
    kind = "pairs" if dataset.encoded.n_columns == 2 else "texts"
    unit = "words" if isinstance(vocab, WordVocab) else "pieces"
    facts = f"{path}: {len(dataset)} {kind}, {dataset.n_words} {unit}"
    counted = f"{dataset.n_skipped} bad lines left out, {dataset.n_trimmed} {kind} trimmed to {dataset.seq_len} tokens"
    if rank() == 0:
        print(f"{facts}, {dataset.n_unknown / dataset.n_words:.1%} of them <unk>, {counted}", file=sys.stderr)
    return dataset
