"""The vocabulary: words and their ids, specials first, then by frequency."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal, overload

from ..errors import InputError
from .counting import count_words
from .vocab_file import SPECIALS, WordList, read_vocabulary, write_vocabulary


class TorchVocab:
    """Words with ids: `itos` lists the words by id, `stoi` maps each word to its id, `freqs` counts the words of the corpus."""

    def __init__(
        self,
        counter: Counter[str],
        max_size: int | None = None,
        min_freq: int = 1,
        specials: Sequence[str] = ("<pad>", "<oov>"),
    ) -> None:
        """Number the words, commonest first.

        Args:
            counter: How often each word occurs.
            max_size: Most words beside the specials; None: all.
            min_freq: Least number of occurrences; below 1 means 1.
            specials: Tokens that take the first ids; their own counts are left aside.

        Raises:
            InputError: `max_size` is negative.
        """
        if max_size is not None and max_size < 0:
            raise InputError(f"vocabulary: max_size is {max_size}, expected at least 0 or None [E-VOCAB-SIZE]")
        self.freqs = counter
        least, special = max(min_freq, 1), set(specials)
        words = sorted([word for word, n in counter.items() if n >= least and word not in special])
        words.sort(key=counter.__getitem__, reverse=True)  # Words of equal count keep their order.
        self.itos = [*specials, *words[:max_size]]
        self.vocab_rerank()

    def __eq__(self, other: object) -> bool:
        """Compare words, ids and counts; never equal to another type."""
        if not isinstance(other, TorchVocab):
            return NotImplemented
        return self.itos == other.itos and self.stoi == other.stoi and self.freqs == other.freqs

    def __len__(self) -> int:
        """Count the ids."""
        return len(self.itos)

    def vocab_rerank(self) -> None:
        """Give each word the id of its place in `itos`."""
        self.stoi = dict(zip(self.itos, range(len(self.itos)), strict=True))

    def extend(self, v: TorchVocab, sort: bool = False) -> None:
        """Append the words of `v` that are not here yet, in its order or, with `sort`, in alphabetical order."""
        for word in sorted(v.itos) if sort else v.itos:
            if word not in self.stoi:
                self.stoi[word] = len(self.itos)
                self.itos.append(word)


class Vocab(TorchVocab):
    """A vocabulary whose ids 0-4 are `<pad> <unk> <eos> <sos> <mask>`.

    Attributes:
        lowercase: Texts are lower-cased before they are looked up, as the words were before they were counted.
        normalize: Likewise brought to Unicode's form NFKC, before that.
        encodes_in_threads: Whether encoding keeps all cores busy by itself.
    """

    pad_index, unk_index, eos_index, sos_index, mask_index = range(len(SPECIALS))
    lowercase = normalize = encodes_in_threads = False

    def __init__(self, counter: Counter[str], max_size: int | None = None, min_freq: int = 1) -> None:
        """Number the words after the five specials."""
        super().__init__(counter, max_size=max_size, min_freq=min_freq, specials=SPECIALS)

    @property
    def counts(self) -> list[int]:
        """Occurrences in the corpus by id; 0 for the specials."""
        return [0] * len(SPECIALS) + [self.freqs[word] for word in self.itos[len(SPECIALS) :]]

    @staticmethod
    def load_vocab(vocab_path: str | os.PathLike[str]) -> Vocab:
        """Read a vocabulary.

        Args:
            vocab_path: A file of this library: words in JSON, or a `tokenizer.json`; a list with a word a line, or a hub
                model's WordPiece `vocab.txt`; or a pickle of bert-pytorch 0.0.1a4.

        Raises:
            InputError: The file is none of these; nothing in it has been executed.
        """
        found = read_vocabulary(vocab_path)
        if isinstance(found, WordList):
            vocab = WordVocab([], lowercase=found.lowercase, normalize=found.normalize)
            vocab.itos, vocab.freqs = found.itos, Counter(found.freqs)
            vocab.vocab_rerank()
            return vocab
        from .tokenizer import SubwordVocab  # Both kinds are read under the one old name; tokenizer builds upon this module.

        return SubwordVocab(found)

    def save_vocab(self, vocab_path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as text (JSON, UTF-8), whole or not at all.

        Raises:
            SaveError: The file cannot be written.
        """
        write_vocabulary(vocab_path, WordList(self.itos, self.freqs, self.lowercase, self.normalize))

    @overload
    def to_seq(
        self,
        sentence: str | Iterable[str],
        seq_len: int | None = None,
        with_eos: bool = False,
        with_sos: bool = False,
        with_len: Literal[False] = False,
    ) -> list[int]: ...
    @overload
    def to_seq(
        self,
        sentence: str | Iterable[str],
        seq_len: int | None = None,
        with_eos: bool = False,
        with_sos: bool = False,
        *,
        with_len: Literal[True],
    ) -> tuple[list[int], int]: ...
    def to_seq(
        self,
        sentence: str | Iterable[str],
        seq_len: int | None = None,
        with_eos: bool = False,
        with_sos: bool = False,
        with_len: bool = False,
    ) -> list[int] | tuple[list[int], int]:
        """Turn a text into ids; what is not in the vocabulary becomes `<unk>`.

        Args:
            sentence: A text, or its words.
            seq_len: Pad or cut to this many ids. The text is cut, the markers asked for stay.
            with_eos: End with `<eos>`.
            with_sos: Begin with `<sos>`.
            with_len: Also return the length before padding and cutting, markers included.

        Returns:
            The ids, or the pair of ids and length.

        Raises:
            InputError: `seq_len` leaves no room for the markers.
        """
        ids = self._encode(sentence)
        begin = [self.sos_index] if with_sos else []
        end = [self.eos_index] if with_eos else []
        n_ids = len(begin) + len(ids) + len(end)
        if seq_len is not None:
            room = seq_len - len(begin) - len(end)
            if room < 0:
                least = len(begin) + len(end)
                raise InputError(
                    f"to_seq: seq_len {seq_len} has no room for {least} markers, expected {least} [E-VOCAB-LENGTH]"
                )
            ids = ids[:room]
            end += [self.pad_index] * (room - len(ids))
        seq = begin + ids + end
        return (seq, n_ids) if with_len else seq

    def _split(self, text: str) -> list[str]:
        """The words of a text as the vocabulary has them."""
        if self.normalize:
            text = unicodedata.normalize("NFKC", text)
        return text.lower().split() if self.lowercase else text.split()

    def _encode(self, sentence: str | Iterable[str]) -> list[int]:
        if self.lowercase or self.normalize:
            sentence = self._split(sentence if isinstance(sentence, str) else " ".join(sentence))
        words = sentence.split() if isinstance(sentence, str) else sentence
        return [self.stoi.get(word, self.unk_index) for word in words]

    def to_seqs(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        ids, lengths = self.to_ids(texts)
        numbers = iter(ids)
        return [list(islice(numbers, length)) for length in lengths]

    def to_ids(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of all texts, one after the other, and how many each text has; faster than a list for each."""
        split = self._split if self.lowercase or self.normalize else str.split
        words: list[str] = []
        lengths: list[int] = []
        for text in texts:
            of_text = split(text)
            lengths.append(len(of_text))
            words += of_text
        get, unk = self.stoi.get, self.unk_index
        return [get(word, unk) for word in words], lengths

    def from_seq(self, seq: Iterable[int], join: bool = False, with_pad: bool = False) -> list[str] | str:
        """Turn ids into words; an id outside the vocabulary becomes `<id>`.

        Args:
            seq: Ids.
            join: Return one text, words parted by spaces, instead of a list.
            with_pad: Keep padding; otherwise it is left out.
        """
        known = range(len(self.itos))
        words = [
            self.itos[index] if index in known else f"<{index}>"
            for index in map(int, seq)
            if with_pad or index != self.pad_index
        ]
        return " ".join(words) if join else words

    @property
    def continues_word(self) -> list[bool]:
        """By id, whether a piece continues the word before it: none does."""
        return [False] * len(self)

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies that encode alike."""
        treatment = [name for name in ("lowercase", "normalize") if getattr(self, name)]
        return hashlib.sha256(json.dumps([self.itos, *treatment] if treatment else self.itos).encode()).hexdigest()


class WordVocab(Vocab):
    """A vocabulary of white-space separated words. The five special words in a text become the special ids."""

    def __init__(
        self,
        texts: Iterable[str | list[str]],
        max_size: int | None = None,
        min_freq: int = 1,
        *,
        lowercase: bool = False,
        normalize: bool = False,
    ) -> None:
        """Count the words and number them.

        Args:
            texts: Lines (an open file, say), or lists of words. A tab parts words as a space does.
            max_size: Most words beside the five specials; None: all.
            min_freq: Least number of occurrences of a word.
            lowercase: Take capital and small letters for the same; kept for all texts that are encoded.
            normalize: Take characters that Unicode's NFKC unites (wide forms, ligatures) for the same; kept likewise.
        """
        self._number(count_words(texts), max_size, min_freq, lowercase, normalize)

    @classmethod
    def of_counts(
        cls,
        counts: Counter[str],
        max_size: int | None = None,
        min_freq: int = 1,
        *,
        lowercase: bool = False,
        normalize: bool = False,
    ) -> WordVocab:
        """The vocabulary of words that are counted already, as `counting.count_files` does; otherwise as the class itself."""
        vocab = cls.__new__(cls)
        vocab._number(counts, max_size, min_freq, lowercase, normalize)
        return vocab

    def _number(self, counts: Counter[str], max_size: int | None, min_freq: int, lowercase: bool, normalize: bool) -> None:
        self.lowercase, self.normalize = lowercase, normalize
        if lowercase or normalize:
            cleaned: Counter[str] = Counter()
            for word, n in counts.items():
                for part in self._split(word):
                    cleaned[part] += n
            counts = cleaned
        super().__init__(counts, max_size=max_size, min_freq=min_freq)

    def __eq__(self, other: object) -> bool:
        """Compare words, ids, counts, and how texts are treated; never equal to another type."""
        if isinstance(other, WordVocab) and (self.lowercase, self.normalize) != (other.lowercase, other.normalize):
            return False
        return super().__eq__(other)


def build() -> int:
    """Run the command `bert-vocab`, under the name it always had."""
    from ..cli import build_vocab  # The command stands above this module; only this old name points up to it.

    return build_vocab()
