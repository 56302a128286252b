"""Encoding a corpus into shards of so many lines and the manifest over them, here or elsewhere."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..files import atomic_write
from .cache import EncodingSettings, stamp_of
from .corpus import Faults
from .encoded import MappedCorpus, write_encoded
from .encoding import Block, Encoder, encode_file, gather_faults
from .remote import SUFFIX, beside, exists, is_remote, send, sha256_of
from .sharded import FORMAT, MANIFEST, TOGETHER, VERSION


def encode_shards(
    corpus_path: str | os.PathLike[str],
    vocab: Encoder,
    folder: str,
    settings: EncodingSettings,
    shard_lines: int,
    *,
    together: int = TOGETHER,
    n_processes: int | None = None,
) -> dict[str, Any]:
    """Encode a corpus into files of so many lines each; no more than one of them is held here when they go elsewhere.

    Args:
        corpus_path: The corpus, on this disk.
        vocab: Gives the ids.
        folder: Of the shards and their manifest, here or elsewhere (`s3://...`); the manifest is written last.
        settings: How the corpus is read.
        shard_lines: Lines a shard; the last one has the rest.
        together: Shards that are read at a time in training; a number that the numbers of processes divide.
        n_processes: How many encode; None: one a core where that is faster.

    Returns:
        The manifest.

    Raises:
        InputError: The corpus cannot be read, has bad lines or changes meanwhile, or there is a manifest already.
        SaveError: A file cannot be written.
    """
    path, manifest_path = os.fspath(corpus_path), f"{folder.rstrip('/')}/{MANIFEST}"
    if exists(manifest_path):
        raise InputError(f"{manifest_path}: is there already; delete it with its shards, or name another [E-SHARDS-FILE]")
    stamp, faults = stamp_of(path), Faults(path)
    blocks = encode_file(path, vocab, settings.encoding, settings.n_columns, settings.corpus_lines, n_processes)
    lines = _Lines(gather_faults(faults, blocks, settings.corpus_lines, settings.skip_bad_lines), settings.n_columns)
    source = {"path": path, "absolute_path": os.path.realpath(path), "encoding": settings.encoding, "n_skipped": 0}
    about = {"size": len(vocab), "fingerprint": vocab.fingerprint}
    total, shards = _Totals(len(vocab)), []
    with tempfile.TemporaryDirectory() as scratch:
        while lines.are_left():
            name = f"shard-{len(shards):05d}{SUFFIX}"
            target = beside(manifest_path, name)
            local = os.path.join(scratch, name) if is_remote(target) else target
            of_shard = {"corpus": {**source, "first_line": total.n_lines}, "vocab": about}
            write_encoded(local, lines.take(shard_lines), len(vocab), settings.n_columns, lambda of_shard=of_shard: of_shard)
            n_lines = total.add(MappedCorpus(local))
            size = {"n_bytes": os.path.getsize(local), "sha256": sha256_of(local)}
            shards.append({"path": name, "n_lines": n_lines, **size})
            if local != target:
                send(local, target)
                os.unlink(local)
    if stamp_of(path) != stamp:
        raise InputError(f"{path}: changed while it was encoded; start again [E-CORPUS-CHANGED]")
    manifest = {
        **{"format": FORMAT, "version": VERSION, "n_lines": total.n_lines, "n_columns": settings.n_columns},
        **{"n_tokens": int(total.word_counts.sum()), "together": together, "vocab": about},
        **{"corpus": {**source, **stamp, "sha256": sha256_of(path), **settings._asdict(), "n_skipped": faults.n_bad}},
        **{"line_lengths": sorted(total.lengths.items()), "word_counts": total.word_counts.tolist(), "shards": shards},
    }
    _write(manifest_path, manifest)
    return manifest


class _Totals:
    """What the manifest says of all shards together."""

    def __init__(self, n_ids: int) -> None:
        self.n_lines, self.word_counts = 0, torch.zeros(n_ids, dtype=torch.int64)
        self.lengths: Counter[int] = Counter()

    def add(self, shard: MappedCorpus) -> int:
        """Add a shard; returns how many lines it has."""
        self.word_counts += shard.word_counts
        lengths: Tensor = shard.offsets[:: shard.n_columns].diff()
        values, counts = lengths.unique(return_counts=True)
        self.lengths.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
        self.n_lines += len(shard)
        return len(shard)


class _Lines:
    """Encoded lines, of which one takes as many as one wants."""

    def __init__(self, blocks: Iterator[Block], n_columns: int) -> None:
        self._blocks, self._n_columns = blocks, n_columns
        self._held: Block | None = None

    def are_left(self) -> bool:
        """Whether any line is left."""
        while self._held is None or not self._held.lengths:
            self._held = next(self._blocks, None)
            if self._held is None:
                return False
        return True

    def take(self, n_lines: int) -> Iterator[Block]:
        """The next lines, as blocks; fewer where there are no more."""
        while n_lines and self.are_left():
            block = self._held
            assert block is not None
            n_here = min(n_lines, len(block.lengths) // self._n_columns)
            n_texts = n_here * self._n_columns
            n_ids = sum(block.lengths[:n_texts])
            self._held = Block(block.ids[n_ids:], block.lengths[n_texts:], 0, 0, [])
            n_lines -= n_here
            yield Block(block.ids[:n_ids], block.lengths[:n_texts], n_here, 0, [])


def _write(path: str, manifest: dict[str, Any]) -> None:
    content = json.dumps(manifest).encode("ascii")
    if not is_remote(path):
        with atomic_write(path) as file:
            file.write(content)
        return
    with tempfile.TemporaryDirectory() as scratch:
        local = os.path.join(scratch, MANIFEST)
        with atomic_write(local) as file:
            file.write(content)
        send(local, path)
