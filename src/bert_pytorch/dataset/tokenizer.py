"""Sub-word vocabularies: every text is spelled from a bounded number of pieces, through the tokenizers library."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

from ..errors import InputError
from ..extras import import_extra
from ..files import atomic_write
from .pieces import SPECIALS, WORD_START, Pieces, document_of, normalizer_of
from .vocab import TorchVocab, Vocab

_SIZES = 1_000, 30_000
"""Least and most pieces beside the specials that are proposed; the most is about BERT's."""
_TYPES_A_PIECE, _CHARACTERS_A_PIECE = 4, 300
_N_BYTES = 256
_AT_ONCE = 1000
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Encoded(NamedTuple):
    """A text as pieces."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """Of each piece, where in the text it stands: first character and end. Pieces of one character share its place, and a piece
    that is only the space before a word has that of the word's first character."""


class SubwordVocab(Vocab):
    """A vocabulary of pieces of words, with the face of `WordVocab`.

    The special words in a text are text like any other and are spelled: no text can hold `<mask>` itself.

    Attributes:
        pieces: What the vocabulary consists of, and its file holds.
        freqs: How often each piece, `<unk>` among them, occurs in the corpus it was trained on; none for a loaded one.
    """

    encodes_in_threads = True

    def __init__(self, pieces: Pieces, freqs: Counter[str] | None = None) -> None:
        """Make the vocabulary ready to encode; see `train_subwords` and `load_vocab`.

        Raises:
            UnavailableError: The package tokenizers is not installed.
        """
        tokenizers = import_extra("tokenizers", "tokenizers")
        self.pieces = pieces
        self.itos = pieces.itos
        self.freqs = Counter() if freqs is None else freqs
        self.vocab_rerank()
        self._tokenizer: Any = tokenizers.Tokenizer.from_str(json.dumps(document_of(pieces, with_specials=False)))

    def __reduce__(self) -> tuple[object, ...]:
        """Another process makes the vocabulary anew from its pieces."""
        return SubwordVocab, (self.pieces, self.freqs)

    def __eq__(self, other: object) -> bool:
        """Whether they encode alike: a file does not hold the counts."""
        return isinstance(other, SubwordVocab) and self.fingerprint == other.fingerprint

    def extend(self, v: TorchVocab, sort: bool = False) -> None:
        """Refuse: an added word would never be used, texts are spelled as trained."""
        raise InputError("vocabulary: sub-words cannot be extended; train on both corpora: bert-vocab -c A B [E-VOCAB-EXTEND]")

    def encode(self, text: str) -> Encoded:
        """The pieces of a text, and where each stands in it."""
        encoding = self._tokenizer.encode(_without_surrogates(text), add_special_tokens=False)
        return Encoded(encoding.ids, encoding.offsets)

    def to_seqs(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; the texts are encoded on every core."""
        texts = [_without_surrogates(text) for text in texts]
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def to_ids(self, texts: Sequence[str]) -> tuple[list[int], list[int]]:
        """The ids of all texts, one after the other, and how many each text has."""
        seqs = self.to_seqs(texts)
        return list(chain.from_iterable(seqs)), list(map(len, seqs))

    def from_seq(self, seq: Iterable[int], join: bool = False, with_pad: bool = False) -> list[str] | str:
        """Turn ids into pieces; an id outside the vocabulary becomes `<id>`.

        Args:
            seq: Ids.
            join: Return one text, in which pieces are joined to words and words parted by spaces, instead of a list.
            with_pad: Keep padding; otherwise it is left out.
        """
        pieces = super().from_seq(seq, with_pad=with_pad)
        if not join:
            return pieces
        words: list[list[str]] = []
        can_go_on = False
        for piece in pieces:
            is_real = self.stoi.get(piece, 0) >= len(SPECIALS)
            if is_real and can_go_on and self._continues(piece):
                words[-1].append(piece)
            else:
                words.append([piece])
            can_go_on = is_real
        return " ".join(map(self._join, words))

    @property
    def continues_word(self) -> list[bool]:
        """By id, whether a piece continues the word before it.

        In WordPiece it begins with `##`. In byte-level BPE it does not begin with the space before a word: punctuation that
        follows a word without a space belongs to it, and a sentence in a script without spaces is one word.
        """
        return [i >= len(SPECIALS) and self._continues(piece) for i, piece in enumerate(self.itos)]

    @property
    def fingerprint(self) -> str:
        """Equal for vocabularies that encode alike."""
        return hashlib.sha256(json.dumps(self.pieces).encode()).hexdigest()

    def save_vocab(self, vocab_path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as text, a `tokenizer.json` of the tokenizers library, whole or not at all.

        Raises:
            SaveError: The file cannot be written.
        """
        with atomic_write(vocab_path) as file:
            file.write(json.dumps(document_of(self.pieces), ensure_ascii=False, separators=(",\n", ": ")).encode())

    def _encode(self, sentence: str | Iterable[str]) -> list[int]:
        return self.encode(sentence if isinstance(sentence, str) else " ".join(sentence)).ids

    def _continues(self, piece: str) -> bool:
        return piece.startswith("##") if self.pieces.model == "WordPiece" else not piece.startswith(WORD_START)

    def _join(self, pieces: list[str]) -> str:
        """The word that some pieces spell."""
        if self.pieces.model == "WordPiece":
            return pieces[0] + "".join(piece.removeprefix("##") for piece in pieces[1:])
        if len(pieces) == 1 and self.stoi.get(pieces[0], 0) < len(SPECIALS):
            return pieces[0]
        byte_of = _byte_of_letter()
        letters = "".join(pieces).removeprefix(WORD_START)
        return bytes(byte_of[letter] for letter in letters if letter in byte_of).decode(errors="replace")


def propose_size(counts: Counter[str]) -> int:
    """How many pieces a text deserves beside the specials, from 1,000 to 30,000.

    A quarter of the different words: common ones stay whole, rare and new ones are spelled. At most one for 300 characters
    (some 50 words) of the text, for else a piece is too rare to be learned; and twice the different characters, as each is one.
    """
    n_characters = sum(len(word) * n for word, n in counts.items())
    least, most = _SIZES
    wanted = max(min(len(counts) // _TYPES_A_PIECE, n_characters // _CHARACTERS_A_PIECE), 2 * len(set("".join(counts))))
    return max(least, min(most, -(-wanted // 100) * 100))


def train_subwords(
    counts: Counter[str],
    model: str,
    max_size: int | None = None,
    min_freq: int = 1,
    *,
    lowercase: bool = False,
    normalize: bool = False,
) -> SubwordVocab:
    """Train a sub-word vocabulary; the same counts give the same one, on any number of cores.

    Args:
        counts: How often each word occurs, see `counting.count_files`.
        model: `WordPiece` or `BPE` (byte-level).
        max_size: Most pieces beside the five specials; None: see `propose_size`. BPE needs 256 at least, one a byte. WordPiece
            spends up to half of them on single characters, the commonest; a word with any other is unknown.
        min_freq: Least occurrences of a pair of pieces that is united, and of a character of WordPiece.
        lowercase: Take capital and small letters for the same; kept for all texts that are encoded.
        normalize: Take characters that Unicode's NFKC unites for the same; kept likewise.

    Raises:
        InputError: `max_size` is too small.
        UnavailableError: The package tokenizers is not installed.
    """
    least = _N_BYTES if model == "BPE" else 2
    max_size = propose_size(counts) if max_size is None else max_size
    if max_size < least:
        message = f"vocabulary: max_size is {max_size}, expected at least {least} for {model}; raise --vocab_size"
        raise InputError(f"{message} [E-VOCAB-SIZE]")
    tokenizers = import_extra("tokenizers", "tokenizers")
    empty = Pieces(model, list(SPECIALS), [], normalizer_of(model, lowercase, normalize))
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(document_of(empty, with_specials=False)))
    common = {"vocab_size": max_size + len(SPECIALS), "min_frequency": min_freq, "show_progress": sys.stderr.isatty()}
    if model == "BPE":
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(special_tokens=list(SPECIALS), initial_alphabet=alphabet, **common)
    else:
        # Given beforehand, for else the trainer numbers them as it meets them, in another order each time.

        def part(word: str) -> list[str]:
            normal = tokenizer.normalizer.normalize_str(_without_surrogates(word))
            return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]

        letters, inner = _characters(part, counts, max_size // 2, min_freq)
        first = [*SPECIALS, *(f"##{letter}" for letter in inner)]
        chosen = {"initial_alphabet": letters, "limit_alphabet": len(letters)}
        trainer = tokenizers.trainers.WordPieceTrainer(special_tokens=first, **chosen, **common)
    tokenizer.train_from_iterator(_texts_of(counts), trainer)
    trained = json.loads(tokenizer.to_str())["model"]
    itos = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    merges = [(first, second) for first, second in trained.get("merges", [])]
    vocab = SubwordVocab(empty._replace(itos=itos, merges=merges))
    vocab.freqs = _count_pieces(vocab, counts)
    return vocab


def _texts_of(counts: Counter[str]) -> Iterator[str]:
    """Texts in which each word occurs as often as it was counted: the trainer takes no counts."""
    words = chain.from_iterable(repeat(_without_surrogates(word), n) for word, n in counts.items())
    while some := list(islice(words, _AT_ONCE)):
        yield " ".join(some)


def _characters(part: Callable[[str], list[str]], counts: Counter[str], most: int, least: int) -> tuple[list[str], list[str]]:
    """The commonest characters of the words, and in order those of them that can stand within one."""
    occurrences: Counter[str] = Counter()
    for word, n in counts.items():
        for piece in part(word):
            for letter in piece:
                occurrences[letter] += n
    kept = sorted(letter for letter, n in occurrences.items() if n >= least)
    kept.sort(key=occurrences.__getitem__, reverse=True)
    # Punctuation and Chinese characters are words of their own.
    return kept[:most], sorted(letter for letter in kept[:most] if len(part(f"a{letter}a")) == 1)


def _count_pieces(vocab: SubwordVocab, counts: Counter[str]) -> Counter[str]:
    totals = [0] * len(vocab)
    items = iter(counts.items())
    while some := list(islice(items, _AT_ONCE)):
        for ids, (_, n) in zip(vocab.to_seqs([word for word, _ in some]), some, strict=True):
            for i in ids:
                totals[i] += n
    return Counter({piece: n for piece, n in zip(vocab.itos, totals, strict=True) if n})


def _without_surrogates(text: str) -> str:
    """The text; halves of surrogate pairs, which are no Unicode text, become U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)


@cache
def _byte_of_letter() -> dict[str, int]:
    """The letters that stand for bytes in byte-level BPE: a printable one for itself, the rest in order from U+0100 on."""
    printable = [i for i in range(_N_BYTES) if 0x21 <= i <= 0x7E or (i >= 0xA1 and i != 0xAD)]
    others = [i for i in range(_N_BYTES) if i not in printable]
    return {**{chr(i): i for i in printable}, **{chr(_N_BYTES + n): i for n, i in enumerate(others)}}
