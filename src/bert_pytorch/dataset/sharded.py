"""A corpus in many encoded files, of which a process opens those that it needs at the moment.

`manifest.json` names the shards, each an encoded corpus of its own, with counts and SHA-256 of each, and has the counts of the
whole. Lines are numbered through all shards. Partners of "not next" examples are drawn within a shard.

Shapes: n lines, c texts a line, V vocabulary size.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import OrderedDict
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..errors import InputError, UsageError
from .batching import EpochOrder
from .draws import mix
from .encoded import EncodedCorpus, MappedCorpus
from .encoded_file import is_encoded
from .examples import Texts
from .ragged import ramps
from .remote import Cache, beside, damaged, is_remote, missing, read_file, sha256_of
from .tensor_draws import example_keys

FORMAT, VERSION = "bert_pytorch.shards", 1
MANIFEST = "manifest.json"
TOGETHER = 8
"""So many shards are read at a time; what divides it is a good number of processes."""
CACHE_GIB = 50.0


class Shard(NamedTuple):
    """A shard, as the manifest has it."""

    path: str
    n_lines: int
    n_bytes: int
    sha256: str


def is_sharded(path: str | os.PathLike[str]) -> bool:
    """Whether a path is that of a manifest, by its name."""
    return os.path.basename(os.fspath(path)) == MANIFEST


def open_encoded(corpus: str | os.PathLike[str] | ShardedCorpus, fingerprint: str) -> MappedCorpus | ShardedCorpus | None:
    """An encoded corpus, in one file or many; None where this is a text.

    Raises:
        InputError: It cannot be used, or belongs to another vocabulary.
    """
    if isinstance(corpus, ShardedCorpus):
        return corpus
    if is_sharded(corpus):
        return ShardedCorpus(corpus, fingerprint)
    return MappedCorpus(corpus, fingerprint) if is_encoded(corpus) else None


class ShardedCorpus(EncodedCorpus):
    """The ids of a corpus in shards, by line, as `EncodedCorpus` has them.

    Attributes:
        path: The manifest.
        manifest: What it says.
        shards: The shards.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fingerprint: str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_gib: float = CACHE_GIB,
    ) -> None:
        """Read the manifest; shards are opened when they are needed.

        Args:
            path: The manifest, here or elsewhere (`s3://...`).
            fingerprint: Of the vocabulary that it must belong to; None: any.
            cache_dir: Folder for shards that lie elsewhere; needed for these.
            cache_gib: Most that they take there, GiB.

        Raises:
            InputError: It cannot be read, is none, or belongs to another vocabulary.
        """
        self.path, self._limits = os.fspath(path), (fingerprint, cache_dir, cache_gib)
        self.manifest = _read(self.path)
        size = self.manifest["vocab"]["size"]
        if fingerprint is not None and self.manifest["vocab"]["fingerprint"] != fingerprint:
            raise InputError(
                f"{path}: was encoded with another vocabulary, of {size} ids; "
                "encode the corpus with this one, or pass the one it belongs to [E-ENCODED-VOCAB]"
            )
        self.shards = [
            Shard(beside(self.path, each["path"]), each["n_lines"], each["n_bytes"], each["sha256"])
            for each in self.manifest["shards"]
        ]
        if cache_dir is None and any(is_remote(each.path) for each in self.shards):
            raise UsageError(f"{path}: shards lie elsewhere: name a folder for copies, cache_dir [E-SETTING-CONFLICT]")
        self._cache = None if cache_dir is None else Cache(cache_dir, int(cache_gib * (1 << 30)))
        self._firsts = [0, *accumulate(each.n_lines for each in self.shards)]
        self._edges = torch.tensor(self._firsts)
        self._open: OrderedDict[int, MappedCorpus] = OrderedDict()
        self._checked: set[int] = set()
        self.n_columns = self.manifest["n_columns"]
        self.word_counts = torch.tensor(self.manifest["word_counts"])
        self.partners = _Partners(self) if self.n_columns == 2 else None

    def __len__(self) -> int:
        """Count the lines."""
        return self._firsts[-1]

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the shards anew."""
        return ShardedCorpus, (self.path, *self._limits)

    @property
    def together(self) -> int:
        """How many shards are read at a time."""
        return self.manifest["together"]

    @property
    def hashes(self) -> Tensor:
        """A hash of each line's ids, `[N]` int64; every shard is opened for it."""
        return torch.cat([self.shard(number).hashes for number in range(len(self.shards))])

    def n_longer_than(self, n_words: int) -> int:
        """How many lines have more words than this."""
        return sum(n for length, n in self.manifest["line_lengths"] if length > n_words)

    def shard(self, number: int) -> MappedCorpus:
        """A shard, fetched and checked when it is opened first.

        Raises:
            InputError: It is not there, or is another one than the manifest says.
        """
        if number in self._open:
            self._open.move_to_end(number)
            return self._open[number]
        path, n_lines, n_bytes, sha256 = self.shards[number]
        local = path
        if is_remote(path):
            assert self._cache is not None
            local = self._cache.get(path, n_bytes, sha256)
        elif not os.path.isfile(path):
            raise missing(path)
        elif number not in self._checked and (os.path.getsize(path) != n_bytes or sha256_of(path) != sha256):
            raise damaged(path, "size or SHA-256 are others")
        corpus = MappedCorpus(local, self.manifest["vocab"]["fingerprint"])
        if len(corpus) != n_lines or corpus.n_columns != self.n_columns:
            raise damaged(path, f"it has {len(corpus)} lines, expected {n_lines}")
        self._checked.add(number)
        self._open[number] = corpus
        if len(self._open) > self.together:
            self._open.popitem(last=False)
        return corpus

    def parts(self, lines_n: Tensor) -> list[tuple[int, Tensor, Tensor]]:
        """Lines by shard: its number, which of the lines are in it, and their numbers there."""
        shard_n = torch.bucketize(lines_n, self._edges, right=True) - 1
        parts = []
        for number in shard_n.unique().tolist():
            places = (shard_n == number).nonzero()[:, 0]
            parts.append((number, places, lines_n[places] - self._firsts[number]))
        return parts

    def fetch(self, lines: Tensor) -> Texts:
        """The texts of some lines."""
        starts_nc = lines.new_zeros(len(lines), self.n_columns)
        lengths_nc, ids, base = torch.zeros_like(starts_nc), [], 0
        for number, places, own in self.parts(lines):
            texts = self.shard(number).fetch(own)
            lengths = texts.lengths.flatten()
            ids.append(texts.ids.index_select(0, ramps(texts.starts.flatten(), lengths)))
            lengths_nc[places] = texts.lengths
            starts_nc[places] = (base + lengths.cumsum(0) - lengths).view_as(texts.lengths)
            base += len(ids[-1])
        return Texts(torch.cat(ids) if ids else torch.zeros(0, dtype=torch.int16), starts_nc, lengths_nc)

    def order(self, seed: int, epoch: int, shuffle: bool) -> EpochOrder | ShardOrder:
        """The order of a pass; that of one shard is that of one file."""
        if not shuffle or len(self.shards) == 1:
            return EpochOrder(len(self), seed, epoch, shuffle)
        return ShardOrder([each.n_lines for each in self.shards], self.together, seed, epoch)


class ShardOrder:
    """All lines once, shards in an order of `(seed, epoch)`, some of them at a time.

    From shards that are read together lines come by turns: the first of each, the second of each, ...; within a shard in an
    order of its own. With shards of equal length a batch's rows 0, k, 2k, ... are of one shard, k of them read together: N
    processes of which each takes every N-th row need k / N shards each at a time, where N divides k and the batch.
    """

    def __init__(self, sizes: list[int], together: int, seed: int, epoch: int) -> None:
        """Set the order."""
        self.sizes, self.seed, self.epoch, self.n = sizes, seed, epoch, sum(sizes)
        self.firsts = [0, *accumulate(sizes)]
        order = example_keys(mix(seed, len(sizes)) >> 1, epoch, torch.arange(len(sizes))).argsort().tolist()
        self.groups = [order[start : start + together] for start in range(0, len(order), together)]
        self.starts = [0, *accumulate(sum(sizes[shard] for shard in group) for group in self.groups)]

    def __getitem__(self, places: slice) -> Tensor:
        """The lines at these places, int64."""
        start, end, _ = places.indices(self.n)
        lines = torch.zeros(max(0, end - start), dtype=torch.int64)
        number = bisect_right(self.starts, start) - 1
        while number < len(self.groups) and self.starts[number] < end:
            self._fill(lines, start, self.groups[number], self.starts[number])
            number += 1
        return lines

    def _fill(self, lines: Tensor, start: int, group: list[int], begin: int) -> None:
        """Put the lines of a group, whose first has the place `begin`, where they belong from the place `start` on."""
        for low, high in pairwise(sorted({0, *(self.sizes[shard] for shard in group)})):
            # So long as these shards last, each has every so-many-th place.
            active = [shard for shard in group if self.sizes[shard] > low]
            for turn, shard in enumerate(active):
                step, first = len(active), begin + turn
                from_round = max(0, -(-(start - first) // step))
                to_round = min(high - low, -(-(start + len(lines) - first) // step))
                if from_round >= to_round:
                    continue
                order = EpochOrder(self.sizes[shard], mix(self.seed, shard) >> 1, self.epoch)
                own = order[slice(low + from_round, low + to_round)] + self.firsts[shard]
                lines[first + from_round * step - start : first + to_round * step - start : step] = own
            begin += (high - low) * len(active)


class _Partners(NamedTuple):
    """Draws partners within each line's shard."""

    corpus: ShardedCorpus

    def draw(self, lines_n: Tensor, bits_n: Tensor) -> tuple[Tensor, Tensor]:
        """As `Partners.draw`."""
        others_n, has_any_n = lines_n.clone(), torch.zeros_like(lines_n, dtype=torch.bool)
        for number, places, own in self.corpus.parts(lines_n):
            partners = self.corpus.shard(number).partners
            assert partners is not None
            others, has_any_n[places] = partners.draw(own, bits_n[places])
            others_n[places] = others + (lines_n[places] - own)
        return others_n, has_any_n


def _read(path: str) -> dict[str, Any]:
    """The manifest, with all that it must have."""
    content = read_file(path)
    try:
        manifest = json.loads(content)
        if manifest["format"] != FORMAT or manifest["version"] != VERSION:
            raise _no_manifest(path, f"its version is {manifest['version']!r}, this library reads {VERSION}")
        shards = manifest["shards"]
        counts = [int(each["n_lines"]) for each in shards]
        if not shards or min(counts) < 1 or sum(counts) != manifest["n_lines"] or manifest["together"] < 1:
            raise _no_manifest(path, "its counts do not fit")
        texts = [manifest["vocab"]["fingerprint"], *(each[name] for each in shards for name in ("path", "sha256"))]
        if not all(isinstance(each, str) for each in texts) or manifest["n_columns"] not in (1, 2):
            raise _no_manifest(path, "its entries are of another kind")
        if len(manifest["word_counts"]) != manifest["vocab"]["size"] or not manifest["corpus"]["path"]:
            raise _no_manifest(path, "its counts do not fit")
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise _no_manifest(path, "it is damaged") from error
    return manifest


def _no_manifest(path: str, reason: str) -> InputError:
    return InputError(f"{path}: no manifest of an encoded corpus: {reason}; encode the corpus again [E-SHARDS-FILE]")
