"""Texts to ids with the place of each piece: the words of this library's vocabularies, and any `tokenizer.json`.

Both engines see the same ids: Transformers' fast tokenizers are the same `tokenizers` objects.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..dataset.pieces import document_of
from ..dataset.tokenizer import SubwordVocab
from ..dataset.vocab import Vocab, WordVocab
from ..errors import InputError, UnreadableError
from ..extras import import_extra

TOKENIZER_FILE, VOCAB_FILE = "tokenizer.json", "vocab.json"


class Window(NamedTuple):
    """A text or pair as ids, or a part of one that is too long.

    Attributes:
        ids: Token ids, specials among them.
        types: 0 for the first text, 1 for the second, as Transformers counts them.
        parts: Of each token which text it is of, 0 or 1; None for specials.
        words: The number of the word it is of; None for specials.
        offsets: Where it stands in its text: first character and end.
        is_cut: Whether some of the text is not in it.
    """

    ids: list[int]
    types: list[int]
    parts: list[int | None]
    words: list[int | None]
    offsets: list[tuple[int, int]]
    is_cut: bool


@dataclass(frozen=True)
class Cut:
    """How long texts are cut.

    Attributes:
        max_length: Most tokens, specials among them.
        stride: Tokens that two windows share; None: what is too long is cut off, of a pair from the longer text.
    """

    max_length: int
    stride: int | None = None


class Encoder(Protocol):
    """What makes windows of texts."""

    pad_id: int
    end_id: int | None
    """What ends a text where texts are joined; None: nothing does."""

    def encode(self, first: str | Sequence[str], second: str | None, cut: Cut) -> list[Window]:
        """A text, its words, or a pair as windows: one, or several where `cut` has a stride and the second text is long."""
        ...

    def save(self, folder: Path) -> None:
        """Write the file that `load_encoder` reads."""
        ...


class WordEncoder:
    """The words of a `WordVocab`: `<sos> A <eos>` or `<sos> A <eos> B <eos>`; nothing but this library is needed.

    Attributes:
        vocab: The vocabulary.
        pad_id: Its padding.
    """

    def __init__(self, vocab: WordVocab) -> None:
        """Encode by this vocabulary."""
        self.vocab, self.pad_id = vocab, vocab.pad_index
        self.end_id: int | None = vocab.eos_index

    def encode(self, first: str | Sequence[str], second: str | None, cut: Cut) -> list[Window]:
        """As `Encoder.encode`."""
        a = self._pieces(first)
        b = None if second is None else self._pieces(second)
        if cut.stride is not None and b is not None:
            return self._windows(a, b, cut)
        room = cut.max_length - 2 - (b is not None)
        n_a, n_b = len(a), 0 if b is None else len(b)
        while n_a + n_b > room:
            if n_a > n_b:
                n_a -= 1
            else:
                n_b -= 1
        is_cut = (n_a, n_b) != (len(a), 0 if b is None else len(b))
        return [self._window(a[:n_a], None if b is None else b[:n_b], is_cut)]

    def save(self, folder: Path) -> None:
        """Write the vocabulary."""
        self.vocab.save_vocab(folder / VOCAB_FILE)

    def _windows(self, a: list[_Piece], b: list[_Piece], cut: Cut) -> list[Window]:
        room = cut.max_length - 3 - len(a)
        step = room - (cut.stride or 0)
        _check_room(step, len(a), cut)
        starts = range(0, max(1, len(b) - (cut.stride or 0)), step)
        return [self._window(a, b[start : start + room], len(b) > room) for start in starts]

    def _pieces(self, text: str | Sequence[str]) -> list[_Piece]:
        """Ids, numbers of words, and places."""
        if not isinstance(text, str):
            return [_Piece(self._id(word), n, (0, len(word))) for n, word in enumerate(text)]
        pieces, end = [], 0
        for n, word in enumerate(text.split()):
            start = text.index(word, end)
            end = start + len(word)
            pieces.append(_Piece(self._id(word), n, (start, end)))
        return pieces

    def _id(self, word: str) -> int:
        """The id of one word, treated as the vocabulary treats texts."""
        ids = self.vocab.to_ids([word])[0]
        return ids[0] if len(ids) == 1 else self.vocab.unk_index

    def _window(self, a: Sequence[_Piece], b: Sequence[_Piece] | None, is_cut: bool) -> Window:
        start, end = _Piece(self.vocab.sos_index, None, (0, 0)), _Piece(self.vocab.eos_index, None, (0, 0))
        pieces = [start, *a, end, *(() if b is None else (*b, end))]
        n_first = len(a) + 2
        sides = [0] * n_first + [1] * (len(pieces) - n_first)
        return Window(
            [piece.id for piece in pieces],
            sides,
            [None if piece.word is None else side for piece, side in zip(pieces, sides, strict=True)],
            [piece.word for piece in pieces],
            [piece.place for piece in pieces],
            is_cut,
        )


class _Piece(NamedTuple):
    id: int
    word: int | None
    place: tuple[int, int]


class FastEncoder:
    """A tokenizer of the tokenizers package, with its own template of specials.

    Attributes:
        pad_id: Its padding.
    """

    def __init__(self, document: str, pad_id: int, end_id: int | None = None) -> None:
        """Read it.

        Args:
            document: The text of a `tokenizer.json`.
            pad_id: Id of padding.
            end_id: What ends a text where texts are joined.

        Raises:
            UnavailableError: tokenizers is not installed.
        """
        tokenizers = import_extra("tokenizers", "tokenizers")
        self._tokenizer: Any = tokenizers.Tokenizer.from_str(document)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._tokenizer.encode_special_tokens = True
        self.pad_id, self.end_id = pad_id, end_id
        self._set: Cut | None = None
        self._document = document

    def encode(self, first: str | Sequence[str], second: str | None, cut: Cut) -> list[Window]:
        """As `Encoder.encode`."""
        is_split = not isinstance(first, str)
        if cut.stride is not None and second is not None:
            # The package refuses such a question with a bare Exception, so it is looked at before.
            self._tokenizer.no_truncation()
            self._set = None
            n_first = len(self._tokenizer.encode(first, add_special_tokens=False, is_pretokenized=is_split).ids)
            n_special = self._tokenizer.num_special_tokens_to_add(True)
            _check_room(cut.max_length - n_special - n_first - cut.stride, n_first, cut)
        if cut != self._set:
            self._truncate(cut)
        text = list(first) if is_split else first
        encoding = self._tokenizer.encode(text, second, is_pretokenized=is_split)
        windows = [encoding, *encoding.overflowing] if cut.stride is not None else [encoding]
        is_cut = bool(encoding.overflowing)
        return [Window(each.ids, each.type_ids, each.sequence_ids, each.word_ids, each.offsets, is_cut) for each in windows]

    def save(self, folder: Path) -> None:
        """Write the tokenizer."""
        (folder / TOKENIZER_FILE).write_text(self._document, encoding="utf-8")

    def _truncate(self, cut: Cut) -> None:
        strategy = "only_second" if cut.stride is not None else "longest_first"
        self._tokenizer.enable_truncation(cut.max_length, stride=cut.stride or 0, strategy=strategy)
        self._set = cut


def _check_room(step: int, n_first: int, cut: Cut) -> None:
    if step < 1:
        message = f"a question of {n_first} tokens leaves no room for its context in max_length {cut.max_length}"
        raise InputError(f"{message} with stride {cut.stride}; raise max_length or lower stride [E-FINETUNE-LENGTH]")


def encoder_of(vocab: Vocab) -> Encoder:
    """The encoder of a vocabulary of this library."""
    if isinstance(vocab, WordVocab):
        return WordEncoder(vocab)
    if not isinstance(vocab, SubwordVocab):
        raise TypeError(f"a vocabulary of an unknown kind: {type(vocab).__name__}")
    document = document_of(vocab.pieces)
    document["post_processor"] = _template("<sos>", "<eos>", vocab.sos_index, vocab.eos_index)
    return FastEncoder(json.dumps(document, ensure_ascii=False), vocab.pad_index)


def load_encoder(folder: str | os.PathLike[str]) -> Encoder:
    """The encoder of a folder with a `tokenizer.json`, or a `vocab.json` of words.

    Raises:
        InputError: There is neither.
    """
    path = Path(folder)
    if (path / TOKENIZER_FILE).is_file():
        text = (path / TOKENIZER_FILE).read_text(encoding="utf-8")
        return FastEncoder(text, pad_id_of(json.loads(text)))
    if (path / VOCAB_FILE).is_file():
        vocab = Vocab.load_vocab(path / VOCAB_FILE)
        return encoder_of(vocab)
    error = FileNotFoundError(2, "No such file or directory")
    raise UnreadableError.of(path / TOKENIZER_FILE, error, "give a folder with its tokenizer [E-FINETUNE-MODEL]")


def pad_id_of(document: Mapping[str, Any]) -> int:
    """The id of padding that a `tokenizer.json` names by its usual word; 0 where it names none."""
    for token in document.get("added_tokens") or []:
        if token.get("content") in ("[PAD]", "<pad>"):
            return int(token["id"])
    return 0


def _template(start: str, end: str, start_id: int, end_id: int) -> dict[str, Any]:
    """The post-processor that puts the markers of this library around texts."""

    def special(word: str, side: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": word, "type_id": side}}

    def text(name: str, side: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": side}}

    single = [special(start, 0), text("A", 0), special(end, 0)]
    ids = {start: start_id, end: end_id}
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special(end, 1)],
        "special_tokens": {word: {"id": word, "ids": [i], "tokens": [word]} for word, i in ids.items()},
    }
