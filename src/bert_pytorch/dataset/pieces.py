"""What a sub-word vocabulary consists of, and the `tokenizer.json` of the tokenizers library that holds it.

Two kinds: WordPiece as in BERT, where a piece that continues a word begins with `##`; and byte-level BPE as in GPT-2, where a
piece that begins a word begins with U+0120, which stands for the space before it. Of what a `tokenizer.json` may hold, only
this is taken, and checked whole: the tokenizers library raises nothing but a bare `Exception` on what it cannot read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SPECIALS = ("<pad>", "<unk>", "<eos>", "<sos>", "<mask>")
HUB_SPECIALS = ("[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]")
WORD_START = "\u0120"
"""Stands for the space before a word in byte-level BPE."""
_PRE_TOKENIZERS: dict[str, Any] = {
    "WordPiece": {"type": "BertPreTokenizer"},
    "BPE": {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "WhitespaceSplit"},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        ],
    },
}
_DECODERS: dict[str, Any] = {
    "WordPiece": {"type": "WordPiece", "prefix": "##", "cleanup": False},
    "BPE": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
}
_BPE_SETTINGS = {
    **{"dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None},
    **{"fuse_unk": False, "byte_fallback": False, "ignore_merges": False},
}
_NORMALIZERS = {
    **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"), frozenset[str]()),
    "BertNormalizer": frozenset({"clean_text", "handle_chinese_chars", "strip_accents", "lowercase"}),
}
_MOST_CHARACTERS = 100
"""WordPiece takes a longer word for unknown: its time grows with the square of the length."""


class NotAVocabulary(Exception):
    """A file is no vocabulary; the message says why. `read_vocabulary` adds which file."""


class Pieces(NamedTuple):
    """A sub-word vocabulary."""

    model: str
    """`WordPiece` or `BPE`."""
    itos: list[str]
    """Pieces by id, the five specials first."""
    merges: list[tuple[str, str]]
    """Which two pieces BPE unites, the first first; none for WordPiece."""
    normalizer: dict[str, Any] | None
    """How texts are treated first, as a section of `tokenizer.json`."""
    most_characters: int = _MOST_CHARACTERS
    """A longer word is unknown to WordPiece."""


def normalizer_of(model: str, lowercase: bool, normalize: bool) -> dict[str, Any] | None:
    """The section of `tokenizer.json` that treats texts as asked for; to WordPiece each Chinese character is a word."""
    parts: list[dict[str, Any]] = [{"type": "NFKC"}] if normalize else []
    if model == "WordPiece":
        fields = {"clean_text": False, "handle_chinese_chars": True, "strip_accents": False, "lowercase": lowercase}
        parts.append({"type": "BertNormalizer", **fields})
    elif lowercase:
        parts.append({"type": "Lowercase"})
    return {"type": "Sequence", "normalizers": parts} if parts else None


def document_of(pieces: Pieces, with_specials: bool = True) -> dict[str, Any]:
    """The `tokenizer.json`.

    Args:
        pieces: The vocabulary.
        with_specials: Name the specials as such, for other readers of the file: a text's own `<mask>` is the special one to
            them. Without, it is text like any other.
    """
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    vocab = {piece: i for i, piece in enumerate(pieces.itos)}
    if pieces.model == "WordPiece":
        settings = {"unk_token": "<unk>", "continuing_subword_prefix": "##"}
        settings = {**settings, "max_input_chars_per_word": pieces.most_characters, "vocab": vocab}
    else:
        settings = {**_BPE_SETTINGS, "vocab": vocab, "merges": [list(pair) for pair in pieces.merges]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": word, **special} for i, word in enumerate(SPECIALS)] if with_specials else [],
        "normalizer": pieces.normalizer,
        "pre_tokenizer": _PRE_TOKENIZERS[pieces.model],
        "post_processor": None,
        "decoder": _DECODERS[pieces.model],
        "model": {"type": pieces.model, **settings},
    }


def own_specials_first(words: list[str]) -> list[str]:
    """The words with this library's specials first, in place of its own or a hub model's; the others in their order."""
    if tuple(words[: len(SPECIALS)]) == SPECIALS:
        return words
    specials = {*SPECIALS, *HUB_SPECIALS}
    return [*SPECIALS, *(word for word in words if word not in specials)]


def check_once(itos: Sequence[str]) -> None:
    """Refuse a list that holds a word twice."""
    if len(set(itos)) != len(itos):
        twice = next(word for word, n in Counter(itos).items() if n > 1)
        raise NotAVocabulary(f"the word {twice!r} stands in it twice")


def read_hub_pieces(words: list[str]) -> Pieces:
    """A hub model's WordPiece `vocab.txt`: without a capital letter it is an uncased one, that strips accents too."""
    itos = own_specials_first(words)
    check_once(itos)
    lowercase = not any(letter.isupper() for word in itos for letter in word)
    fields = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": lowercase}
    return Pieces("WordPiece", itos, [], {"type": "BertNormalizer", **fields})


def read_pieces(document: Mapping[str, Any]) -> Pieces:
    """Check a `tokenizer.json` and take the vocabulary out of it.

    Raises:
        NotAVocabulary: It is damaged, or made of other parts than this library's.
    """
    model = document["model"]
    kind = model.get("type") if isinstance(model, dict) else None
    if not isinstance(kind, str) or kind not in _PRE_TOKENIZERS:
        raise NotAVocabulary(f"its model is {kind!r}, expected 'WordPiece' or 'BPE'")
    if document.get("pre_tokenizer") != _PRE_TOKENIZERS[kind]:
        raise NotAVocabulary(f"its pre_tokenizer is {_name(document.get('pre_tokenizer'))}, expected {_PRE_TOKENIZERS[kind]}")
    _check_normalizer(document.get("normalizer"))
    itos = _read_itos(model.get("vocab"))
    own = own_specials_first(itos)
    if own is not itos and "[UNK]" not in itos:
        raise NotAVocabulary(f"its ids 0-4 are {itos[:5]}, expected {list(SPECIALS)}, or the specials of BERT on the hub")
    _check_added(document.get("added_tokens"))
    if kind == "BPE":
        return Pieces(kind, own, _read_merges(model, set(own)), document.get("normalizer"))
    most_characters = model.get("max_input_chars_per_word", _MOST_CHARACTERS)
    if model.get("continuing_subword_prefix", "##") != "##" or model.get("unk_token") not in ("<unk>", "[UNK]"):
        raise NotAVocabulary("its WordPiece continues words otherwise than with ##, or has another token for unknown words")
    if type(most_characters) is not int or not 1 <= most_characters <= 10_000:
        raise NotAVocabulary(f"its max_input_chars_per_word is {most_characters!r}, expected 1 to 10000")
    return Pieces(kind, own, [], document.get("normalizer"), most_characters)


def _check_added(tokens: object) -> None:
    for token in tokens if isinstance(tokens, list) else [tokens]:
        name = token.get("content") if isinstance(token, dict) else token
        if name not in (None, *SPECIALS, *HUB_SPECIALS):
            raise NotAVocabulary(f"it adds the token {name!r}, expected none beside the specials")


def _read_itos(vocab: object) -> list[str]:
    if not isinstance(vocab, dict) or not all(type(i) is int for i in vocab.values()):
        raise NotAVocabulary("its model has no vocab of pieces and ids")
    itos = sorted(vocab, key=vocab.__getitem__)
    if [vocab[piece] for piece in itos] != list(range(len(itos))):
        raise NotAVocabulary(f"the ids of its {len(itos)} pieces are not 0, 1, 2, ... each once")
    if any(not piece or not _is_unicode(piece) for piece in itos):
        raise NotAVocabulary("a piece is empty or no valid Unicode")
    return itos


def _read_merges(model: Mapping[str, Any], pieces: set[str]) -> list[tuple[str, str]]:
    for name, value in _BPE_SETTINGS.items():
        if model.get(name, value) not in (value, None, ""):
            raise NotAVocabulary(f"its BPE has {name} {model[name]!r}, expected {value!r}")
    merges = model.get("merges")
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in merges] if isinstance(merges, list) else [None]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(piece, str) for piece in pair):
            raise NotAVocabulary("its merges are missing, or no pairs of pieces")
        if not pieces.issuperset((*pair, "".join(pair))):
            raise NotAVocabulary(f"it merges {pair[0]!r} and {pair[1]!r}, which its vocab does not hold, or not united")
    return [(pair[0], pair[1]) for pair in pairs if pair is not None]


def _check_normalizer(normalizer: object) -> None:
    parts: object = [] if normalizer is None else [normalizer]
    if isinstance(normalizer, dict) and normalizer.get("type") == "Sequence":
        parts = normalizer.get("normalizers")
    for part in parts if isinstance(parts, list) else [parts]:
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or not isinstance(kind, str) or kind not in _NORMALIZERS:
            raise NotAVocabulary(f"its normalizer has the part {_name(part)}, expected some of {', '.join(_NORMALIZERS)}")
        values = {name: value for name, value in part.items() if name != "type"}
        is_right = all(isinstance(v, bool) or (v is None and name == "strip_accents") for name, v in values.items())
        if set(values) != _NORMALIZERS[kind] or not is_right:
            raise NotAVocabulary(f"the settings of its normalizer {kind} are {values}, expected {sorted(_NORMALIZERS[kind])}")


def _name(part: object) -> str:
    return repr(part.get("type") if isinstance(part, dict) else part)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
