"""Training examples: two texts as `<sos> A <eos> B <eos>`, some words hidden, the second text true or not."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..errors import InputError
from .batching import EpochSampler
from .corpus import PairCorpus
from .draws import Draws
from .masking import N_SPECIALS, mask_one_word, mask_words
from .negatives import Partners
from .vocab import WordVocab

_N_MARKERS = 3
_LARGE_SHARE_TRIMMED = 0.2
_N_TRIES = 64
"""Partners drawn for a "not next" example; a further one is drawn when trimming or `<unk>` makes one look like the true one."""
_LOOSE_DRAWS = -1
"""Index of the draws for direct calls of `random_word` and `get_random_line`, which belong to no example."""


class BERTDataset(Dataset[dict[str, Tensor]]):
    """Pairs of a corpus file as examples for masked-word and next-sentence prediction.

    An example is a function of `(seed, epoch, index)`: the same in any order, with any number of workers, from memory or from
    the file. `set_epoch` gives the next pass new masks and partners; `BERTTrainer` calls it, a loop of one's own should too.

    Attributes:
        word_counts: Occurrences in the corpus by id, 0 for the specials.
        n_words, n_unknown: Words in the corpus, and those of them that are not in the vocabulary.
        n_trimmed: Pairs too long for `seq_len`, which lose the end of their longer text.
        n_skipped: Bad lines left out.
    """

    def __init__(
        self,
        corpus_path: str | os.PathLike[str],
        vocab: WordVocab,
        seq_len: int,
        encoding: str = "utf-8",
        corpus_lines: int | None = None,
        on_memory: bool = True,
        *,
        seed: int = 0,
        skip_bad_lines: bool = False,
    ) -> None:
        """Read and check the corpus.

        Args:
            corpus_path: File with a pair of texts a line, parted by one tab. It is checked whole here.
            vocab: The vocabulary.
            seq_len: Length of every example in tokens, padding included; at least 5.
            encoding: The file's encoding.
            corpus_lines: Use the first this many lines; None: all.
            on_memory: Keep the texts in memory, instead of reading each from the file when it is asked for.
            seed: Decides every draw.
            skip_bad_lines: Leave bad lines out and count them in `n_skipped`, instead of refusing the file.

        Raises:
            InputError: The corpus has a bad line, `seq_len` is too short, or the vocabulary holds no word of the corpus.
        """
        if seq_len < _N_MARKERS + 2:
            raise InputError(f"BERTDataset: seq_len is {seq_len}, expected at least 5 (3 markers, 2 words) [E-DATA-LENGTH]")
        self.vocab = vocab
        self.seq_len = seq_len
        self.encoding = encoding
        self.on_memory = on_memory
        self.corpus_path = corpus_path
        self.seed = seed
        self.corpus = PairCorpus(corpus_path, encoding, corpus_lines, on_memory, skip_bad_lines)
        self.n_skipped = self.corpus.n_skipped
        self.n_words = self.n_trimmed = 0
        self.word_counts = [0] * len(vocab)
        self._partners = Partners(self._counted_second_texts())
        self.n_unknown = self.word_counts[vocab.unk_index]
        self.word_counts[:N_SPECIALS] = [0] * N_SPECIALS
        if self.n_unknown == self.n_words:
            raise InputError(f"{corpus_path}: no word of it is in the vocabulary; build one from this corpus [E-DATA-VOCAB]")
        if self.n_trimmed > _LARGE_SHARE_TRIMMED * len(self):
            share = f"{self.n_trimmed} of {len(self)} pairs are longer than seq_len {seq_len} and are trimmed"
            warnings.warn(f"{corpus_path}: {share}; a larger seq_len keeps more of them", stacklevel=2)
        # Shared memory, so that workers which outlive a pass see the next epoch too.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._draws = Draws(seed, 0, _LOOSE_DRAWS)

    @property
    def lines(self) -> list[list[str]] | None:
        """The pairs in memory, or None when they are read from the file."""
        return self.corpus.lines

    @property
    def corpus_lines(self) -> int:
        """Number of pairs."""
        return len(self.corpus)

    def set_epoch(self, epoch: int) -> None:
        """Choose the pass over the data, from 0; each has masks and partners of its own."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        """Count the examples of a pass."""
        return len(self.corpus)

    def __getitem__(self, item: int) -> dict[str, Tensor]:
        """One example, each value `[seq_len]` int64 but for `is_next`, `[]` int64.

        Keys: `bert_input` (ids, 0 on padding), `bert_label` (original ids at targets, else 0), `segment_label` (1 and 2, 0 on
        padding), `is_next` (1: the second text follows the first).
        """
        item = self._index(item)
        first, second, is_next = self.random_sent(item)
        self._draws = Draws(self.seed, int(self._epoch), 2 * item + 1)
        first_ids, first_label = self.random_word(first)
        second_ids, second_label = self.random_word(second)
        n_first, n_second = self._share_room(len(first_ids), len(second_ids))
        first_ids, first_label = first_ids[:n_first], first_label[:n_first]
        second_ids, second_label = second_ids[:n_second], second_label[:n_second]
        sos, eos, pad = self.vocab.sos_index, self.vocab.eos_index, self.vocab.pad_index
        bert_input = [sos, *first_ids, eos, *second_ids, eos]
        bert_label = [pad, *first_label, pad, *second_label, pad]
        if not any(bert_label):
            mask_one_word(bert_input, bert_label, len(self.vocab), self._draws)
        segment_label = [1] * (len(first_ids) + 2) + [2] * (len(second_ids) + 1)
        padding = [pad] * (self.seq_len - len(bert_input))
        return {
            "bert_input": torch.tensor(bert_input + padding),
            "bert_label": torch.tensor(bert_label + padding),
            "segment_label": torch.tensor(segment_label + padding),
            "is_next": torch.tensor(is_next),
        }

    def random_word(self, sentence: str) -> tuple[list[int], list[int]]:
        """Mask a text: its input ids, and its labels (the original id at targets, else 0)."""
        return mask_words(self.vocab.to_seq(sentence), len(self.vocab), self._draws)

    def random_sent(self, index: int) -> tuple[str, str, int]:
        """The pair at `index` with 1, or, by an even chance, its first text with the second of another line and 0.

        The other text is never equal to the true one, nor are the ids that are left of both after trimming; where no other
        can be found, the true pair is given.
        """
        first, second = self.get_corpus_line(index)
        draws = Draws(self.seed, int(self._epoch), 2 * index)
        if draws.uniform() < 0.5:
            return first, second, 1
        n_first, true_ids = len(first.split()), self.vocab.to_seq(second)
        for _ in range(_N_TRIES):
            partner = self._partners.draw(index, draws)
            if partner is None:
                break
            other = self.corpus[partner][1]
            if self._visible(n_first, self.vocab.to_seq(other)) != self._visible(n_first, true_ids):
                return first, other, 0
        return first, second, 1

    def get_corpus_line(self, item: int) -> tuple[str, str]:
        """The two texts of a line, as they stand in the file."""
        return self.corpus[self._index(item)]

    def get_random_line(self) -> str:
        """The second text of a line drawn from all."""
        return self.corpus[self._draws.integer(len(self))][1]

    def _index(self, item: int) -> int:
        if not -len(self) <= item < len(self):
            raise IndexError(f"BERTDataset: index {item}, but there are {len(self)} examples")
        return item % len(self)

    def _visible(self, n_first: int, second_ids: list[int]) -> tuple[int, list[int]]:
        """What trimming leaves of a pair: how many words of its first text, and the ids of its second."""
        n_first, n_second = self._share_room(n_first, len(second_ids))
        return n_first, second_ids[:n_second]

    def _share_room(self, n_first: int, n_second: int) -> tuple[int, int]:
        """How many words each text keeps: the longer one loses words until the pair fits; two long ones keep half the room."""
        room = self.seq_len - _N_MARKERS
        if n_first + n_second <= room:
            return n_first, n_second
        n_second = min(n_second, max(room - n_first, room // 2))
        return room - n_second, n_second

    def _counted_second_texts(self) -> Iterator[str]:
        for first, second in self.corpus:
            ids = self.vocab.to_seq(first) + self.vocab.to_seq(second)
            for word in ids:
                self.word_counts[word] += 1
            self.n_words += len(ids)
            self.n_trimmed += len(ids) > self.seq_len - _N_MARKERS
            yield second


def make_loader(
    dataset: BERTDataset, batch_size: int, n_workers: int = 0, *, shuffle: bool, pin_memory: bool = False
) -> DataLoader[dict[str, Tensor]]:
    """Batches of a dataset, the same for any number of workers.

    Args:
        dataset: The examples; its seed also decides the order.
        batch_size: Examples a batch; the last batch of a pass may be smaller.
        n_workers: Processes that prepare batches; 0: the training process does.
        shuffle: A new order each pass.
        pin_memory: Put batches into page-locked memory, for faster copies to a GPU.
    """
    return DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=EpochSampler(len(dataset), dataset.seed, shuffle),
        num_workers=n_workers,
        pin_memory=pin_memory,
        # Of its own, so that making an iterator takes nothing from the stream that dropout draws from.
        generator=torch.Generator().manual_seed(0),
    )
