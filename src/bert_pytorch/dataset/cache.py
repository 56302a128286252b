"""Encoded corpora on disk: made once for a corpus, a vocabulary and settings, found again as long as these are the same."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, UnreadableError
from .corpus import Faults
from .encoded import MappedCorpus, write_encoded
from .encoded_file import read_manifest
from .encoding import Encoder, encode_file, gather_faults
from .remote import SUFFIX, sha256_of


class EncodingSettings(NamedTuple):
    """What decides, beside the file and the vocabulary, which ids come out."""

    n_columns: int = 2
    """Texts a line."""
    encoding: str = "utf-8"
    """Name of a Python codec."""
    corpus_lines: int | None = None
    """Encode the first this many lines; None: all."""
    skip_bad_lines: bool = False
    """Leave bad lines out and count them, instead of refusing the file."""


def encode_corpus(
    corpus_path: str | os.PathLike[str],
    vocab: Encoder,
    output_path: str | os.PathLike[str],
    settings: EncodingSettings,
    n_processes: int | None = None,
) -> MappedCorpus:
    """Encode a corpus of any size into a file, in memory that grows by some 30 bytes a line.

    Args:
        corpus_path: The corpus.
        vocab: Gives the ids.
        output_path: The encoded corpus; nothing stands there before it is whole.
        settings: How the corpus is read.
        n_processes: How many encode; None: one a core where that is faster.

    Raises:
        InputError: The corpus cannot be read, has bad lines, or changes meanwhile.
        SaveError: The file cannot be written.
    """
    path = os.fspath(corpus_path)
    stamp = stamp_of(path)
    faults = Faults(path)
    blocks = encode_file(path, vocab, settings.encoding, settings.n_columns, settings.corpus_lines, n_processes)

    def describe() -> dict[str, object]:
        sha256 = sha256_of(path)
        if stamp_of(path) != stamp:
            raise InputError(f"{path}: changed while it was encoded; start again [E-CORPUS-CHANGED]")
        source = {"path": path, "absolute_path": os.path.realpath(path), **stamp, "sha256": sha256, "n_skipped": faults.n_bad}
        return {"corpus": {**source, **settings._asdict()}, "vocab": {"size": len(vocab), "fingerprint": vocab.fingerprint}}

    checked = gather_faults(faults, blocks, settings.corpus_lines, settings.skip_bad_lines)
    write_encoded(output_path, checked, len(vocab), settings.n_columns, describe)
    return MappedCorpus(output_path, vocab.fingerprint)


def open_cached(
    corpus_path: str | os.PathLike[str], vocab: Encoder, folder: str | os.PathLike[str], settings: EncodingSettings
) -> MappedCorpus:
    """The encoded corpus from an earlier call in this folder, or a new one where corpus, vocabulary or settings are others.

    Raises:
        InputError: The corpus cannot be used.
        SaveError: The folder cannot be written to.
    """
    # Part of the name, so that runs with other vocabularies or settings do not push one another out.
    key = json.dumps([os.path.realpath(corpus_path), vocab.fingerprint, *settings]).encode()
    path = Path(folder, f"{Path(corpus_path).name}.{hashlib.sha256(key).hexdigest()[:12]}{SUFFIX}")
    if path.exists():
        try:
            found = MappedCorpus(path, vocab.fingerprint)
            if not _has_changed(corpus_path, found.manifest["corpus"]):
                print(f"{corpus_path}: encoded before, in {path}", file=sys.stderr)
                return found
            reason = f"{corpus_path} has changed"
        except InputError as error:
            if isinstance(error, OSError):
                raise
            reason = str(error)
        print(f"{path}: encoding again: {reason}", file=sys.stderr)
    return encode_corpus(corpus_path, vocab, path, settings)


def check_source(encoded_path: str) -> None:
    """Refuse an encoded corpus whose text, where that is still there, is another one now.

    Raises:
        InputError: The text has changed, or this is no encoded corpus.
    """
    source = read_manifest(encoded_path)["corpus"]
    path = source["absolute_path"]
    if os.path.exists(path) and _has_changed(path, source):
        raise InputError(
            f"{encoded_path}: was made of {source['path']}, which has changed since; encode it again [E-ENCODED-CHANGED]"
        )


def _has_changed(path: str | os.PathLike[str], source: dict[str, Any]) -> bool:
    """Whether a file is another one than an encoded corpus was made of; it is read only where size or times differ."""
    if "size" not in source:
        return False  # A shard, of a part of a text.
    stamp = stamp_of(path)
    if all(source[name] == value for name, value in stamp.items()):
        return False
    return stamp["size"] != source["size"] or sha256_of(path) != source["sha256"]


def stamp_of(path: str | os.PathLike[str]) -> dict[str, int]:
    """Size and times of a file, which change when it does."""
    try:
        status = os.stat(path)
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    return {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "ctime_ns": status.st_ctime_ns}
