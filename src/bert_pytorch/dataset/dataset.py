"""Training examples: two texts as `<sos> A <eos> B <eos>` or one, some words hidden, the second text true or not."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import InputError, UsageError
from .batching import BatchShape, Layout, cut_batches, fill_rows
from .collating import Row
from .corpus import OBJECTIVES, PairCorpus, count_columns, line_numbers
from .draws import Draws
from .encoded import EncodedCorpus, MappedCorpus, TextReader
from .encoding import encode_pairs
from .examples import Chosen, ExampleMaker, Examples, share_room
from .masking import MASK_PROBABILITY, N_SPECIALS, Masking
from .sharded import ShardedCorpus, open_encoded
from .tensor_draws import example_keys
from .vocab import Vocab

_LARGE_SHARE_TRIMMED = 0.2
_LOOSE_DRAWS = -1
"""Index of the draws for direct calls of `random_word` and `get_random_line`, which belong to no example."""


class BERTDataset(Dataset[dict[str, Tensor]]):
    """Texts of a corpus file as examples for masked-word and next-sentence prediction.

    An example is a function of `(seed, epoch, index)`: the same in any order, with any number of workers, from memory, from the
    file or from an encoded corpus. `set_epoch` gives the next pass new masks and partners; `BERTTrainer` calls it, a loop of
    one's own should too. A subclass may override `random_sent`, `random_word` and `get_corpus_line`; its examples are then made
    one at a time.

    Attributes:
        encoded: The ids of the corpus.
        word_counts: Occurrences in the corpus by id, 0 for the specials.
        n_words, n_unknown: Words in the corpus, and those of them that are not in the vocabulary.
        n_trimmed: Lines too long for `seq_len`, which lose the end of their longer text.
        n_skipped: Bad lines left out.
        settings: What decides its examples, by name, as checkpoints keep it.
    """

    def __init__(
        self,
        corpus_path: str | os.PathLike[str] | ShardedCorpus,
        vocab: Vocab,
        seq_len: int,
        encoding: str = "utf-8",
        corpus_lines: int | None = None,
        on_memory: bool = True,
        *,
        seed: int = 0,
        skip_bad_lines: bool = False,
        objective: str = "mlm+nsp",
        mlm_probability: float = MASK_PROBABILITY,
        whole_word_masking: bool = False,
        span_masking: bool = False,
    ) -> None:
        """Read and check the corpus.

        Args:
            corpus_path: File with a pair of texts a line, parted by one tab; or with one text a line, for `mlm`. It is checked
                whole here. Or an encoded corpus, which is mapped, or the `manifest.json` of one in shards.
            vocab: The vocabulary.
            seq_len: Length of every example in tokens, padding included; at least 5, for single texts 3.
            encoding: The file's encoding.
            corpus_lines: Use the first this many lines; None: all.
            on_memory: Keep the corpus in memory, instead of reading each text from the file when it is asked for.
            seed: Decides every draw.
            skip_bad_lines: Leave bad lines out and count them in `n_skipped`, instead of refusing the file.
            objective: `mlm`: hidden words only; `mlm+nsp`: also whether the second text is the true one; `mlm+sop`: also
                whether the two texts are in their order.
            mlm_probability: Share of the words that are hidden.
            whole_word_masking: Hide all pieces of a word together.
            span_masking: Hide runs of words instead of single ones.

        Raises:
            InputError: The corpus has a bad line, a setting is out of its range, or the vocabulary holds no word of the corpus.
        """
        self.vocab = vocab
        self.seq_len = seq_len
        self.encoding = encoding
        self.on_memory = on_memory
        self.corpus_path, self._source = corpus_path, str(corpus_path)
        self.seed = seed
        self.objective = objective
        options = {"corpus_lines": corpus_lines, "on_memory": on_memory, "skip_bad_lines": skip_bad_lines}
        self.corpus, self.encoded = self._open(**options)
        self._check()
        continues = vocab.continues_word if whole_word_masking or span_masking else None
        self.masking = Masking(len(vocab), mlm_probability, continues, span_masking)
        hiding = {"whole_word_masking": whole_word_masking, "span_masking": span_masking}
        self.settings = {"seq_len": seq_len, "objective": objective, "mlm_probability": mlm_probability, **hiding}
        self.settings["vocab_sha256"] = vocab.fingerprint
        partners = self.encoded.partners if objective == "mlm+nsp" else None
        self._maker = ExampleMaker(self.encoded, partners, self.masking, seq_len, seed, objective)
        self._count()
        # Shared memory, so that workers which outlive a pass see the next epoch too.
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._draws = Draws(seed, 0, _LOOSE_DRAWS)

    def _open(self, corpus_lines: int | None, on_memory: bool, skip_bad_lines: bool) -> tuple[PairCorpus | None, EncodedCorpus]:
        if self.objective not in OBJECTIVES:
            expected = f"expected one of {', '.join(OBJECTIVES)}"
            raise InputError(f"BERTDataset: objective is {self.objective!r}, {expected} [E-DATA-OBJECTIVE]")
        vocab = self.vocab
        path = self.corpus_path.path if isinstance(self.corpus_path, ShardedCorpus) else os.fspath(self.corpus_path)
        found = open_encoded(self.corpus_path, vocab.fingerprint)
        if found is not None:
            if corpus_lines is not None:
                raise UsageError(
                    f"{path}: --corpus_lines has no effect on an encoded corpus; leave it out [E-SETTING-CONFLICT]"
                )
            self.n_skipped, self._source = (found.manifest["corpus"][name] for name in ("n_skipped", "path"))
            return None, found
        n_columns = count_columns(path, self.encoding) if self.objective == "mlm" else 2
        corpus = PairCorpus(path, self.encoding, corpus_lines, on_memory, skip_bad_lines, n_columns)
        self.n_skipped = corpus.n_skipped
        reader = None if on_memory else TextReader(corpus, vocab)
        return corpus, EncodedCorpus.of(encode_pairs(corpus, vocab, n_columns), len(vocab), n_columns, reader)

    def _check(self) -> None:
        n_columns = self.encoded.n_columns
        if self.objective != "mlm" and n_columns == 1:
            problem = f"holds single texts, {self.objective} needs pairs"
            raise InputError(f"{self._source}: {problem}; pass --objective mlm [E-DATA-OBJECTIVE]")
        least = 2 * n_columns + 1
        if self.seq_len < least:
            parts = "3 markers, 2 words" if n_columns == 2 else "2 markers, 1 word"
            raise InputError(f"BERTDataset: seq_len is {self.seq_len}, expected at least {least} ({parts}) [E-DATA-LENGTH]")

    def _count(self) -> None:
        self.word_counts = self.encoded.word_counts.tolist()
        self.n_words, self.n_unknown = sum(self.word_counts), self.word_counts[self.vocab.unk_index]
        self.word_counts[:N_SPECIALS] = [0] * N_SPECIALS
        if self.n_unknown == self.n_words:
            raise InputError(f"{self._source}: no word of it is in the vocabulary; build one from this corpus [E-DATA-VOCAB]")
        self.n_trimmed = self.encoded.n_longer_than(self.seq_len - self.encoded.n_columns - 1)
        if self.n_trimmed > _LARGE_SHARE_TRIMMED * len(self):
            kind = "pairs" if self.encoded.n_columns == 2 else "texts"
            share = f"{self.n_trimmed} of {len(self)} {kind} are longer than seq_len {self.seq_len} and are trimmed"
            warnings.warn(f"{self._source}: {share}; a larger seq_len keeps more of them", stacklevel=3)

    @property
    def lines(self) -> list[list[str]] | None:
        """The pairs in memory, or None when they are not."""
        return None if self.corpus is None else self.corpus.lines

    @property
    def corpus_lines(self) -> int:
        """Number of lines."""
        return len(self)

    def set_epoch(self, epoch: int) -> None:
        """Choose the pass over the data, from 0; each has masks and partners of its own."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        """Count the examples of a pass."""
        return len(self.encoded)

    def __getitem__(self, item: int) -> dict[str, Tensor]:
        """One example, each value `[seq_len]` int64 but for `is_next`, `[]` int64.

        Keys: `bert_input` (ids, 0 on padding), `bert_label` (original ids at targets, else 0), `segment_label` (1 and 2, 0 on
        padding), `is_next` (1: the second text follows the first; not for `mlm`).
        """
        return self._rows([item])[0]

    def __getitems__(self, items: Sequence[int]) -> list[dict[str, Tensor]]:
        """Several examples at once, as `DataLoader` asks for them."""
        if type(self).__getitem__ is not BERTDataset.__getitem__:
            return [self[item] for item in items]
        return list(self._rows(items))

    def _rows(self, items: Sequence[int]) -> list[Row]:
        indices = torch.tensor([self._index(int(item)) for item in items])
        n = len(items)
        examples = self.choose(indices, int(self._epoch)).examples(torch.arange(n))
        layout = Layout(torch.arange(n) * self.seq_len, torch.arange(n), [BatchShape(n, self.seq_len, n)])
        batch = cut_batches(fill_rows(examples, layout), layout.shapes)[0]
        rows = zip(*(values.unbind(0) for values in batch.values()), strict=True)
        return [Row(zip(batch, row, strict=True), batch, place) for place, row in enumerate(rows)]

    def choose(self, indices: Tensor, epoch: int) -> Chosen:
        """The texts of the examples at `indices`, `[n]` int64, in a pass: their sizes, and the examples themselves."""
        return _OneByOne(self, indices, epoch) if self._is_overridden else self._maker.choose(epoch, indices)

    def random_word(self, sentence: str) -> tuple[list[int], list[int]]:
        """Mask a text: its input ids, and its labels (the original id at targets, else 0)."""
        ids = torch.tensor(self.vocab.to_seq(sentence), dtype=torch.int32)
        size, key = torch.tensor([ids.numel()]), torch.tensor([self._draws.integer(1 << 63)])
        targets, hidden = self.masking(ids, size, key, size, is_sure=False)
        inputs, labels = ids.clone(), torch.zeros_like(ids)
        inputs[targets], labels[targets] = hidden.int(), ids[targets]
        return inputs.tolist(), labels.tolist()

    def random_sent(self, index: int) -> tuple[str, str, int]:
        """The texts of an example and its answer.

        For `mlm+nsp` the pair at `index` with 1, or, by an even chance, its first text with the second of another line and 0.
        The other text is never equal to the true one, nor are the ids that are left of both after trimming; where no other can
        be found, the true pair is given. For `mlm+sop` the pair with 1, or swapped with 0.
        """
        first, second = self.get_corpus_line(index)
        choice = self._maker.choose(int(self._epoch), torch.tensor([self._index(index)]))
        is_next = 1 if choice.is_next is None else int(choice.is_next)
        if is_next:
            return first, second, 1
        return (second, first, 0) if self.objective == "mlm+sop" else (first, self._texts_of(int(choice.partners))[1], 0)

    def get_corpus_line(self, item: int) -> tuple[str, str]:
        """The two texts of a line as they stand in the file, of an encoded corpus as its ids have them; "" for none."""
        return self._texts_of(self._index(item))

    def describe(self, items: Sequence[int]) -> str:
        """Where the lines of some examples stand in the text: its path, and their numbers from 1."""
        path, encoding, numbers = self._source, self.encoding, [item + 1 for item in items]
        if isinstance(self.encoded, (MappedCorpus, ShardedCorpus)):
            path, encoding = (self.encoded.manifest["corpus"][name] for name in ("absolute_path", "encoding"))
        if self.n_skipped and os.path.isfile(path):
            numbers = line_numbers(os.fspath(path), encoding, self.encoded.n_columns, items)
        return f"{self._source} line{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"

    def get_random_line(self) -> str:
        """The second text of a line drawn from all."""
        return self._texts_of(self._draws.integer(len(self)))[1]

    @property
    def _is_overridden(self) -> bool:
        names = ("random_sent", "random_word", "get_corpus_line")
        return any(getattr(type(self), name) is not getattr(BERTDataset, name) for name in names)

    def _index(self, item: int) -> int:
        if not -len(self) <= item < len(self):
            raise IndexError(f"BERTDataset: index {item}, but there are {len(self)} examples")
        return item % len(self)

    def _texts_of(self, line: int) -> tuple[str, str]:
        if self.corpus is not None:
            return self.corpus[line]
        texts = self.encoded.fetch(torch.tensor([line]))
        ids = texts.flat(texts.starts[0], texts.lengths[0]).split(texts.lengths[0].tolist())
        first, *second = (self.vocab.from_seq(of_text.tolist(), join=True) for of_text in ids)
        return str(first), str(second[0]) if second else ""

    def _one_by_one(self, indices: Tensor, epoch: int) -> Examples:
        """The examples as the methods of a subclass make them."""
        inputs: list[int] = []
        labels: list[int] = []
        lengths: list[list[int]] = []
        answers: list[int] = []
        room = self.seq_len - self.encoded.n_columns - 1
        for index in indices.tolist():
            *texts, is_next = self.random_sent(index)
            self._draws = Draws(self.seed, epoch, 2 * index + 1)
            masked = [self.random_word(text) for text in texts[: self.encoded.n_columns]]
            left = share_room(torch.tensor([[len(ids) for ids, _ in masked]]), room)[0].tolist()
            for (ids, label), n_left in zip(masked, left, strict=True):
                inputs += ids[:n_left]
                labels += label[:n_left]
            lengths.append(left)
            answers.append(is_next)
        lengths_nc = torch.tensor(lengths)
        labels_T, inputs_T = torch.tensor(labels, dtype=torch.int32), torch.tensor(inputs, dtype=torch.int32)
        targets_M = labels_T.nonzero()[:, 0]
        keys_n = example_keys(self.seed, epoch, indices)
        missing, hidden = self.masking.add_missing(inputs_T, targets_M, keys_n, lengths_nc.sum(1))
        return Examples(
            torch.where(labels_T != 0, labels_T, inputs_T),
            torch.cat([targets_M, missing]),
            torch.cat([inputs_T[targets_M], hidden]),
            lengths_nc,
            None if self.objective == "mlm" else torch.tensor(answers),
        )


class _OneByOne(NamedTuple):
    """Examples of a dataset whose methods a subclass has replaced; they are made twice, as sizes are known only then."""

    dataset: BERTDataset
    indices: Tensor
    epoch: int

    @property
    def sizes(self) -> Tensor:
        return self.dataset._one_by_one(self.indices, self.epoch).sizes

    def examples(self, places: Tensor) -> Examples:
        return self.dataset._one_by_one(self.indices[places], self.epoch)
