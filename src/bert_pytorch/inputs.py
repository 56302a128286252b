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


def fetch_remote_files(args: argparse.Namespace) -> None:
    """Put local copies in the place of corpora and a vocabulary that lie elsewhere, but for those in shards.

    Raises:
        InputError: One cannot be read.
        SaveError: A copy cannot be written.
    """
    from .dataset.remote import fetch, is_remote
    from .dataset.sharded import is_sharded

    for name in ("train_dataset", "test_dataset", "vocab_path"):
        path = getattr(args, name)
        if path and is_remote(path) and not is_sharded(path):
            if args.cache_dir is args.output_dir is args.output_path is None:
                raise UsageError(f"{path}: no folder for a copy of it; give --cache_dir, --output_dir or -o [E-USAGE]")
            setattr(args, name, fetch(path, _cache_folder(args)))
            args.has_copies = True


def _cache_folder(args: argparse.Namespace) -> str:
    return args.cache_dir or args.output_dir or os.path.dirname(args.output_path or "") or "."


def check_data_flags(args: argparse.Namespace) -> None:
    """Refuse flags that have no effect beside others; what lies elsewhere is fetched first.

    Raises:
        UsageError: There is one; the message names it.
        InputError: What lies elsewhere cannot be read.
    """
    fetch_remote_files(args)
    from .dataset.encoded_file import is_encoded
    from .dataset.remote import is_remote
    from .dataset.sharded import is_sharded

    paths = [path for path in (args.train_dataset, args.test_dataset) if path]
    texts = [path for path in paths if not is_encoded(path) and not is_sharded(path)]
    has_remote_shards = any(is_sharded(path) and is_remote(path) for path in paths)
    has_copies = has_remote_shards or getattr(args, "has_copies", False)
    useless = {
        "--whole_word_masking": args.whole_word_masking and args.span_masking and "with --span_masking",
        "--group_by_length": args.group_by_length and args.packing and "with --packing",
        "--pad_to_multiple_of": args.pad_to_multiple_of > 1 and args.packing and "with --packing",
        "--cache_dir": args.cache_dir
        and not ((args.on_memory and texts) or has_copies)
        and "where no text is encoded beforehand and nothing is fetched",
        "--cache_limit": args.cache_limit and not has_remote_shards and "without remote shards",
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
    from .dataset.negatives import Partners

    dataset = _open_dataset(args, vocab, args.train_dataset, args.corpus_lines)
    test_dataset = _open_dataset(args, vocab, args.test_dataset, None) if args.test_dataset else None
    partners = dataset.encoded.partners
    if args.objective == "mlm+nsp" and isinstance(partners, Partners) and int(partners.group_size[0]) == len(dataset):
        message = "all second texts are equal: there is no next sentence to learn; pass --objective mlm"
        warnings.warn(f"{args.train_dataset}: {message}", stacklevel=2)
    return dataset, test_dataset


def share_of_seen(dataset: BERTDataset, test_dataset: BERTDataset | None) -> float | None:
    """The share of held-out lines that stand in the training corpus too; None for one in shards, which would all be read."""
    from .dataset.sharded import ShardedCorpus

    if test_dataset is None or isinstance(dataset.encoded, ShardedCorpus):
        return None
    return test_dataset.encoded.share_in(dataset.encoded)


def _open_dataset(args: argparse.Namespace, vocab: Vocab, path: str, corpus_lines: int | None) -> BERTDataset:
    from .dataset import BERTDataset
    from .dataset.cache import EncodingSettings, check_source, open_cached
    from .dataset.corpus import count_columns
    from .dataset.encoded_file import is_encoded
    from .dataset.remote import is_remote
    from .dataset.sharded import CACHE_GIB, ShardedCorpus, is_sharded
    from .dataset.vocab import WordVocab

    options = {name: getattr(args, name) for name in ("seed", *DATA_SETTINGS)}
    opened = path
    if is_sharded(path):
        folder = _cache_folder(args) if is_remote(path) else None
        opened = ShardedCorpus(path, vocab.fingerprint, folder, args.cache_limit or CACHE_GIB)
    elif is_encoded(path):
        check_source(path)
    elif args.on_memory:
        n_columns = count_columns(path, args.encoding) if args.objective == "mlm" else 2
        settings = EncodingSettings(n_columns, args.encoding, corpus_lines, args.skip_bad_lines)
        opened = open_cached(path, vocab, _cache_folder(args), settings).path
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
