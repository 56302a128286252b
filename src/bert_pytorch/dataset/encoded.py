"""An encoded corpus: the ids of all texts with what is needed to draw from them, in memory or mapped from a file.

Shapes: N lines, c texts a line, V vocabulary size.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, BinaryIO, Protocol

import torch
from torch import Tensor

from ..errors import InputError
from ..files import atomic_write
from .corpus import PairCorpus
from .encoded_file import TYPES, ArrayWriter, map_array, read_array, read_manifest, tensor_of, write_tensor
from .encoding import Block, Encoder, encode_pairs, id_type
from .examples import Texts
from .negatives import PartnerDraws, Partners
from .tensor_draws import text_hashes

_AT_ONCE = 1 << 20


class EncodedCorpus:
    """The ids of a corpus, by line.

    Attributes:
        n_columns: Texts a line.
        arrays: All of it, as `encoded_file` names them.
        offsets: Where each text begins in the ids, and the end of the last, `[N * c + 1]`.
        partners: Draws second texts; None for single texts.
        word_counts: Occurrences by id, `[V]`.
    """

    def __init__(self, arrays: Mapping[str, Tensor], n_columns: int, reader: Reader | None = None) -> None:
        """Take the arrays that `encoded_file` names.

        Args:
            arrays: Without `ids`, these are read at each access.
            n_columns: Texts a line.
            reader: Reads them.
        """
        self.n_columns = n_columns
        self.arrays = dict(arrays)
        self.reader = reader
        self.offsets, self.word_counts = arrays["offsets"], arrays["word_counts"]
        self.partners: PartnerDraws | None = None
        if n_columns == 2:
            self.partners = Partners(*(arrays[name] for name in Partners._fields))

    def __len__(self) -> int:
        """Count the lines."""
        return (self.offsets.numel() - 1) // self.n_columns

    @property
    def hashes(self) -> Tensor:
        """A hash of each line's ids, `[N]` int64: equal ids, equal hash."""
        return self.arrays["hashes"]

    def fetch(self, lines: Tensor) -> Texts:
        """The texts of some lines."""
        texts_t = (lines[:, None] * self.n_columns + torch.arange(self.n_columns)).view(-1)
        starts_t = self.offsets.index_select(0, texts_t).long()
        lengths_t = self.offsets.index_select(0, texts_t + 1).long() - starts_t
        starts_nc, lengths_nc = starts_t.view(-1, self.n_columns), lengths_t.view(-1, self.n_columns)
        if self.reader is None:
            return Texts(self.arrays["ids"], starts_nc, lengths_nc)
        ids = self.reader.read(lines, starts_nc, lengths_nc)
        return Texts(ids, lengths_nc.flatten().cumsum(0).view_as(lengths_nc) - lengths_nc, lengths_nc)

    def share_in(self, other: EncodedCorpus) -> float:
        """The share of lines whose ids are those of a line of another corpus too."""
        known, counts = self.hashes.unique(return_counts=True)
        is_there = torch.zeros_like(known, dtype=torch.bool)
        for hashes in other.hashes.split(_AT_ONCE):
            places = torch.searchsorted(known, hashes).clamp_(max=known.numel() - 1)
            is_there[places[known[places] == hashes]] = True
        return int(counts[is_there].sum()) / len(self)

    def n_longer_than(self, n_words: int) -> int:
        """How many lines have more words than this."""
        n_longer = 0
        for start in range(0, len(self), _AT_ONCE):
            bounds = self.offsets[start * self.n_columns : (start + _AT_ONCE) * self.n_columns + 1 : self.n_columns]
            n_longer += int((bounds.diff() > n_words).sum())
        return n_longer

    @classmethod
    def of(cls, blocks: Iterable[Block], n_ids: int, n_columns: int, reader: Reader | None = None) -> EncodedCorpus:
        """Keep encoded lines in memory, or with a reader what is needed to draw from them.

        Args:
            blocks: The lines.
            n_ids: Vocabulary size.
            n_columns: Texts a line.
            reader: Reads ids when they are needed, in place of keeping them.
        """
        ids, lengths = array(id_type(n_ids)), array("I")
        facts = _Facts(n_ids, n_columns)
        hashes: list[tuple[Tensor, Tensor]] = []
        for block in blocks:
            if reader is None:
                ids.extend(block.ids)
            lengths.extend(block.lengths)
            hashes.append(facts.add(block))
        sizes = tensor_of(lengths).long()
        arrays = {"offsets": torch.cat([sizes.new_zeros(1), sizes.cumsum(0)]), "word_counts": facts.word_counts}
        arrays["hashes"] = torch.cat([of_lines for of_lines, _ in hashes])
        if reader is None:
            arrays["ids"] = tensor_of(ids)
        if n_columns == 2:
            arrays |= Partners.of(torch.cat([of_texts for _, of_texts in hashes]))._asdict()
        return cls(arrays, n_columns, reader)


class MappedCorpus(EncodedCorpus):
    """An encoded corpus in a file, whose pages are read when they are looked at, and shared by all processes.

    Attributes:
        path: The file.
        manifest: What the file says of itself.
    """

    def __init__(self, path: str | os.PathLike[str], fingerprint: str | None = None) -> None:
        """Map a file written by `write_encoded`.

        Args:
            path: The file.
            fingerprint: Of the vocabulary it must have been encoded with; None: any.

        Raises:
            InputError: The file cannot be read, is cut off or something else, or belongs to another vocabulary.
        """
        self.path = os.fspath(path)
        self.manifest = read_manifest(self.path)
        if fingerprint is not None and self.manifest["vocab"]["fingerprint"] != fingerprint:
            raise InputError(
                f"{path}: was encoded with another vocabulary, of {self.manifest['vocab']['size']} ids; "
                "encode the corpus with this one, or pass the one it belongs to [E-ENCODED-VOCAB]"
            )
        names = set(self.manifest["arrays"]) - {"hashes"}
        reader = None
        if _address_space_is_limited():
            # Mapped pages count against such a limit, read or not, and the ids are by far the most: they are read when needed.
            names.remove("ids")
            reader = _FileReader(self.path, self.manifest)
        arrays = {name: map_array(self.path, self.manifest, name) for name in names}
        super().__init__(arrays, self.manifest["n_columns"], reader)

    @property
    def hashes(self) -> Tensor:
        """A hash of each line's ids, `[N]` int64; mapped when asked for."""
        return map_array(self.path, self.manifest, "hashes")

    def __reduce__(self) -> tuple[object, ...]:
        """Another process maps the file again, instead of taking a copy of it."""
        return MappedCorpus, (self.path,)


class Reader(Protocol):
    """Gets ids from where they lie."""

    def read(self, lines: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """The ids of the texts of some lines, one after the other; where they begin and how many they are is given too."""
        ...


class _FileReader:
    """Reads from an encoded corpus."""

    def __init__(self, path: str, manifest: Mapping[str, Any]) -> None:
        self.path, self.manifest = path, manifest

    def read(self, lines: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        return read_array(self.path, self.manifest, "ids", starts.flatten().tolist(), lengths.flatten().tolist())


class TextReader:
    """Reads the texts themselves and encodes them anew."""

    def __init__(self, corpus: PairCorpus, vocab: Encoder) -> None:
        """Read from this corpus and encode with this vocabulary."""
        self.corpus, self.vocab = corpus, vocab

    def read(self, lines: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
        """The ids of the texts of some lines."""
        pairs = [self.corpus[line] for line in lines.tolist()]
        ids = array(id_type(len(self.vocab)))
        for block in encode_pairs(pairs, self.vocab, self.corpus.n_columns):
            ids.extend(block.ids)
        return tensor_of(ids)


class _Facts:
    """What is counted while blocks go by."""

    def __init__(self, n_ids: int, n_columns: int) -> None:
        self.n_columns = n_columns
        self.word_counts = torch.zeros(n_ids, dtype=torch.int64)

    def add(self, block: Block) -> tuple[Tensor, Tensor]:
        """Count a block; returns the hashes of its lines and of its last texts."""
        if not block.lengths:
            return torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64)
        ids, lengths = tensor_of(block.ids).long(), tensor_of(block.lengths).long()
        if block.ids.typecode == "H":
            ids.bitwise_and_(0xFFFF)
        self.word_counts += ids.bincount(minlength=self.word_counts.numel())
        hashes = text_hashes(ids, lengths).view(-1, self.n_columns)
        # Three times the one, so that the order counts.
        of_lines = hashes[:, 0] if self.n_columns == 1 else hashes[:, 0] * 3 + hashes[:, 1]
        return of_lines.contiguous(), hashes[:, -1].contiguous()


def write_encoded(
    path: str | os.PathLike[str],
    blocks: Iterable[Block],
    n_ids: int,
    n_columns: int,
    describe: Callable[[], Mapping[str, object]],
) -> None:
    """Write encoded lines to a file, in memory that does not grow with the ids.

    Args:
        path: The final name; nothing stands under it before the file is whole.
        blocks: The lines.
        n_ids: Vocabulary size.
        n_columns: Texts a line.
        describe: Called after the last line; what the manifest is to say beside the counts: `vocab` and `corpus`.

    Raises:
        SaveError: The file cannot be written.
    """
    facts = _Facts(n_ids, n_columns)
    folder = os.path.dirname(os.path.realpath(path))
    with atomic_write(path) as file, ExitStack() as stack:
        lengths, of_lines, of_texts = (stack.enter_context(tempfile.TemporaryFile(dir=folder)) for _ in range(3))
        writer = ArrayWriter(file)
        with writer.array("ids", "uint16" if id_type(n_ids) == "H" else "int32"):
            for block in blocks:
                file.write(block.ids)
                lengths.write(block.lengths)
                hashes, last_hashes = facts.add(block)
                write_tensor(of_lines, hashes)
                write_tensor(of_texts, last_hashes)
        n_tokens, n_lines = int(facts.word_counts.sum()), of_lines.tell() // 8
        offset_type = "int32" if n_tokens < 1 << 31 else "int64"
        with writer.array("offsets", offset_type):
            for offsets in _running_sums(lengths):
                write_tensor(file, offsets.to(TYPES[offset_type]))
        with writer.array("hashes", "int64"):
            of_lines.seek(0)
            shutil.copyfileobj(of_lines, file)
        if n_columns == 2:
            of_texts.flush()
            with mmap.mmap(of_texts.fileno(), 8 * n_lines) as mapped:
                partners = Partners.of(torch.frombuffer(mapped, dtype=torch.int64))
            for name, values in partners._asdict().items():
                with writer.array(name, "int32"):
                    write_tensor(file, values)
        with writer.array("word_counts", "int64"):
            write_tensor(file, facts.word_counts)
        writer.finish({"n_lines": n_lines, "n_columns": n_columns, "n_tokens": n_tokens, **describe()})


def _running_sums(lengths: BinaryIO) -> Iterator[Tensor]:
    """0 and the running sums of the 32-bit numbers in a file, int64, some at a time."""
    total = torch.zeros(1, dtype=torch.int64)
    yield total
    lengths.seek(0)
    while content := lengths.read(4 * _AT_ONCE):
        sums = torch.frombuffer(bytearray(content), dtype=torch.int32).long().cumsum(0) + total
        total = sums[-1:]
        yield sums


def _address_space_is_limited() -> bool:
    if sys.platform == "win32":
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY
