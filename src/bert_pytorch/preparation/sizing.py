"""What one needs to know of a corpus to choose sequence length, vocabulary and batch size, and proposals for them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from itertools import accumulate, islice

from ..dataset.tokenizer import propose_size
from ..dataset.vocab import Vocab, WordVocab
from ..dataset.vocab_file import SPECIALS
from .faults import excerpt

VOCABULARY_SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
_N_TOP = 10
_PERCENTILES = (50, 90, 99)
_SHARE_THAT_FITS = 0.98
_ROUNDING = 1e-9
_SHORTEST, _LONGEST = 16, 512
_MOST_UNKNOWN = 0.02
_WORDS_PER_ROW = 50
"""A word needs so many words of text to be worth a row of the model."""
_TYPES_WORTH_PARTING = 4_000
"""Fewer different words are numbered whole: there would be little to spell."""
_TOKENS_A_STEP = 4096
_BATCH_SIZES = (8, 256)
_LEAST_STEPS = 50
_PENDING_WORDS = 1 << 13
_TYPES_AT_ONCE = 1 << 13


class Facts:
    """Words and lengths of the pairs (or single texts) of a corpus; memory grows with the different words only."""

    def __init__(self, columns: int = 2, vocab: Vocab | None = None) -> None:
        """Begin with none.

        Args:
            columns: Texts a line.
            vocab: Whose coverage is to be told. With pieces of words, lengths are in these, as in training.
        """
        self.n_markers = columns + 1
        self.vocab = vocab
        self._n_pieces: dict[str, int] | None = None if vocab is None or isinstance(vocab, WordVocab) else {}
        self.counts: Counter[str] = Counter()
        self.lengths: list[Counter[int]] = [Counter() for _ in range(columns)]
        self.pair_lengths: Counter[int] = Counter()
        self._words: list[str] = []
        self._lengths: list[tuple[int, ...]] = []

    def add(self, words: list[str], lengths: list[tuple[int, ...]]) -> None:
        """Count the words of some lines, and how many each text of each line has."""
        self._words += words
        self._lengths += lengths
        if len(self._words) > _PENDING_WORDS:
            self.settle()

    def settle(self) -> None:
        """Count what is pending: a Counter is several times faster on many words at once."""
        self.counts.update(self._words)
        if self._n_pieces is not None:
            self._lengths = self._in_pieces(self._n_pieces)
        for lengths, n in Counter(self._lengths).items():
            for histogram, length in zip(self.lengths, lengths, strict=True):
                histogram[length] += n
            self.pair_lengths[sum(lengths)] += n
        self._words, self._lengths = [], []

    def _in_pieces(self, n_pieces: dict[str, int]) -> list[tuple[int, ...]]:
        """The pending lengths in pieces; texts are parted at white space first, so that those of a word are always the same."""
        assert self.vocab is not None
        new = list({word for word in self._words if word not in n_pieces})
        n_pieces.update(zip(new, self.vocab.to_ids(new)[1], strict=True))
        numbers = iter([n_pieces[word] for word in self._words])
        return [tuple(sum(islice(numbers, length)) for length in lengths) for lengths in self._lengths]

    @property
    def n_pairs(self) -> int:
        """Pairs, or single texts."""
        return self.pair_lengths.total()

    @property
    def n_tokens(self) -> int:
        """Tokens of all texts: words, or pieces of them."""
        return sum(length * n for length, n in self.pair_lengths.items())

    @property
    def n_words(self) -> int:
        """Words of all texts."""
        return self.counts.total()

    def report(self, seq_len: int | None) -> dict[str, object]:
        """Lengths, trimming, vocabulary and proposals, for JSON.

        Args:
            seq_len: Tokens an example, markers included; None: what is proposed.
        """
        self.settle()
        histograms = {"a": self.lengths[0], "b": self.lengths[-1], "pair": self.pair_lengths}
        lengths = {name: percentiles(each) for name, each in histograms.items()}
        if len(self.lengths) == 1:
            lengths = {"text": lengths["a"]}
        if not self.n_pairs:
            return {"lengths": {}, "trimmed": None, "vocabulary": {}, "top_tokens": [], "proposals": {}}
        proposals = self._propose()
        # Beside pieces of words, figures on whole words would mislead.
        vocabulary: dict[str, object] = {"best": self.best_vocabularies()} if self._n_pieces is None else {}
        if self.vocab is not None:
            vocabulary["given"] = self.coverage(self.vocab)
        return {
            "lengths": lengths,
            "trimmed": self.trimmed(seq_len or int(str(proposals["seq_len"]["value"]))),
            "vocabulary": vocabulary,
            "top_tokens": [[excerpt(word), n] for word, n in nsmallest(_N_TOP, self.counts.items(), _by_count)],
            "proposals": proposals,
        }

    def trimmed(self, seq_len: int) -> dict[str, object]:
        """The pairs that lose words at this length, and the share of all words that is lost, as in `BERTDataset`.

        Of pairs that are drawn for "not next" the share alone is told: `false_pair_share`.
        """
        room = seq_len - self.n_markers
        n_pairs = sum(n for length, n in self.pair_lengths.items() if length > room)
        n_lost = sum((length - room) * n for length, n in self.pair_lengths.items() if length > room)
        shares = {"pair_share": n_pairs / self.n_pairs, "token_share": n_lost / self.n_tokens}
        if len(self.lengths) == 2:
            shares["false_pair_share"] = round(share_longer(self.lengths, room), 4)
        return {"seq_len": seq_len, "pairs": n_pairs, "tokens": n_lost, **shares}

    def coverage(self, vocab: Vocab) -> dict[str, object]:
        """How many of the words a vocabulary can spell, and which share of the tokens is `<unk>`, as in training."""
        types = iter(self.counts.items())
        n_known = n_types_known = n_unknown = n_tokens = 0
        while some := list(islice(types, _TYPES_AT_ONCE)):
            ids, lengths = vocab.to_ids([word for word, _ in some])
            numbers = iter(ids)
            for (_, n), length in zip(some, lengths, strict=True):
                n_unk = list(islice(numbers, length)).count(vocab.unk_index)
                n_unknown += n * n_unk
                n_tokens += n * length
                n_known += n * (not n_unk)
                n_types_known += not n_unk
        shares = {"coverage": n_known / self.n_words, "unk_share": n_unknown / n_tokens if n_tokens else 0.0}
        return {"types_known": n_types_known, **shares, "tokens_per_word": n_tokens / self.n_words}

    def best_vocabularies(self) -> list[dict[str, object]]:
        """Coverage of the most frequent words, at each usual size up to the first that holds all."""
        ordered, n_special = self._ordered()
        rows: list[dict[str, object]] = []
        for size in VOCABULARY_SIZES:
            share = (sum(ordered[:size]) + n_special) / self.n_words
            rows.append({"size": size, "coverage": share, "unk_share": 1 - share})
            if size >= len(ordered):
                break
        return rows

    def _ordered(self) -> tuple[list[int], int]:
        """Counts of the words that need a row, most frequent first, and of special words but `<unk>`, which have one."""
        ordered = sorted((n for word, n in self.counts.items() if word not in SPECIALS), reverse=True)
        return ordered, sum(self.counts[word] for word in SPECIALS if word != SPECIALS[1])

    def _propose(self) -> dict[str, dict[str, object]]:
        """A value and its reason for each setting."""
        seq_len = propose_seq_len(self.lengths, self.pair_lengths)
        room = seq_len - self.n_markers
        reason = f"{1 - share_longer([self.pair_lengths], room):.1%} fit whole"
        if len(self.lengths) == 2 and (long := share_longer(self.lengths, room)):
            reason += f", {1 - long:.1%} of false"
        reason += f"; longer ones are trimmed at {_LONGEST}" if seq_len == _LONGEST else ""
        proposals = {"seq_len": _proposal(seq_len, reason)}
        low, high = _BATCH_SIZES
        batch_size = high
        while batch_size > low and (batch_size * seq_len > _TOKENS_A_STEP or batch_size * _LEAST_STEPS > self.n_pairs):
            batch_size //= 2
        n_steps = math.ceil(self.n_pairs / batch_size)
        proposals["batch_size"] = _proposal(batch_size, f"{batch_size * seq_len} tokens a step, {n_steps} steps a pass")
        if self._n_pieces is None:
            proposals |= self._propose_vocabulary()
        return proposals

    def _propose_vocabulary(self) -> dict[str, dict[str, object]]:
        """Sizes of a vocabulary of words and, for a text of many different ones, of one of pieces."""
        ordered, n_special = self._ordered()
        if not ordered:
            return {}
        n_words = self.n_words  # A sum over all different words: taken once, not at each step below.
        most = max(VOCABULARY_SIZES[0], n_words // _WORDS_PER_ROW)
        size, n_known = 0, n_special
        # A row costs next to nothing in a small vocabulary.
        while size < min(most, len(ordered)) and (size < VOCABULARY_SIZES[0] or n_known < (1 - _MOST_UNKNOWN) * n_words):
            n_known += ordered[size]
            size += 1
        reason = f"leaves {1 - n_known / n_words:.1%} of the words <unk>"
        if n_known < (1 - _MOST_UNKNOWN) * n_words:
            reason += f", and a row for every {_WORDS_PER_ROW} words of text is the most: tokenise finer, or into sub-words"
        proposals = {"vocab_size": _proposal(max(1, size), reason)}
        proposals["min_freq"] = _proposal(ordered[max(1, size) - 1], "how often the rarest of these words occurs")
        if len(ordered) >= _TYPES_WORTH_PARTING:
            reason = "with --model wordpiece or bpe, which takes it by itself; then check again with --vocab"
            proposals["subword_vocab_size"] = _proposal(propose_size(self.counts), reason)
        return proposals


def percentiles(histogram: Mapping[int, int]) -> dict[str, int]:
    """The least length that so many per cent of the texts do not exceed, in words."""
    total, seen = sum(histogram.values()), 0
    found: dict[str, int] = {}
    for length in sorted(histogram):
        seen += histogram[length]
        for percent in _PERCENTILES:
            if 100 * seen >= percent * total:
                found.setdefault(f"p{percent}", length)
    return {**found, "max": max(histogram, default=0)}


def share_longer(histograms: Sequence[Mapping[int, int]], room: int) -> float:
    """Share of those longer than `room` among texts, or among all pairs of a text of one histogram with one of the other."""
    last = histograms[-1]
    ordered = sorted(last)
    up_to = [0, *accumulate(last[length] for length in ordered)]
    if len(histograms) == 1:
        return 1 - up_to[bisect_right(ordered, room)] / up_to[-1]
    n_fit = sum(n * up_to[bisect_right(ordered, room - length)] for length, n in histograms[0].items())
    return 1 - n_fit / (up_to[-1] * sum(histograms[0].values()))


def propose_seq_len(lengths: Sequence[Mapping[int, int]], pair_lengths: Mapping[int, int]) -> int:
    """The least multiple of 8, from 16 to 512, at which 98 % of the examples fit whole; 512 when none is.

    Args:
        lengths: How often each length of a text occurs, column by column; of two, any pair may be drawn as "not next".
        pair_lengths: The same of the lines.
    """
    kinds = [[pair_lengths], *([lengths] if len(lengths) == 2 else [])]
    for seq_len in range(_SHORTEST, _LONGEST, 8):
        room = seq_len - len(lengths) - 1
        if all(share_longer(each, room) <= 1 - _SHARE_THAT_FITS + _ROUNDING for each in kinds):
            return seq_len
    return _LONGEST


def _proposal(value: int, reason: str) -> dict[str, object]:
    return {"value": value, "reason": reason}


def _by_count(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
