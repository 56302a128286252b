"""The files a vocabulary is kept in: this library's JSON, word lists, `tokenizer.json`, and old pickles by an allow-list."""

from __future__ import annotations

import json
import os
import pickletools
import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ..allow_list import UNREADABLE, Shell, unpickle
from ..errors import InputError, UnreadableError
from ..files import atomic_write
from .pieces import SPECIALS, NotAVocabulary, Pieces, check_once, own_specials_first, read_hub_pieces, read_pieces

_FORMAT = "bert_pytorch.vocab"
_VERSION = 1
_JSON_START = re.compile(r'\{\s*("|\}?\s*\Z)')
"""Of a JSON object, be it empty or cut off; a word list may begin with a brace too."""


class WordList(NamedTuple):
    """What a vocabulary of words consists of."""

    itos: list[str]
    """Words by id."""
    freqs: Mapping[str, int]
    """Their counts; none where a plain list was read."""
    lowercase: bool = False
    """Whether texts are lower-cased before they are looked up."""
    normalize: bool = False
    """Whether texts are brought to the form NFKC before they are looked up."""


def write_vocabulary(path: str | os.PathLike[str], words: WordList) -> None:
    """Write words by id, their counts and how texts are treated as JSON, one a line, whole or not at all."""
    # Lone surrogates cannot be UTF-8; with them, and only then, JSON's own escapes are used throughout.
    try:
        content = _document(words, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        content = _document(words, ensure_ascii=True).encode("ascii")
    with atomic_write(path) as file:
        file.write(content)


def _document(words: WordList, ensure_ascii: bool) -> str:
    """The JSON of words; each is quoted once, though it stands in two places."""
    itos, freqs = words.itos, words.freqs
    counts = [freqs.get(word) for word in itos]
    n_others = len(freqs) - len(counts) + counts.count(None)
    # In one order, whatever the order in which the words were met.
    others = sorted(freqs.keys() - set(itos)) if n_others else []
    # Separators, and no indent: with one, Python's slow encoder would be taken. Within a quoted word no line ends.
    quoted = json.dumps([*itos, *others], ensure_ascii=ensure_ascii, separators=(",\n", ": "))[1:-1].split(",\n")
    counts += [freqs[word] for word in others]
    entries = [f"{word}: {n}" for word, n in zip(quoted, counts, strict=False) if n is not None]
    values = {
        **{"format": json.dumps(_FORMAT), "version": str(_VERSION)},
        **{"itos": "[" + ",\n".join(quoted[: len(itos)]) + "]", "freqs": "{" + ",\n".join(entries) + "}"},
        **{name: json.dumps(getattr(words, name)) for name in ("lowercase", "normalize")},
    }
    return "{" + ",\n".join(f'"{name}": {value}' for name, value in values.items()) + "}"


def read_vocabulary(path: str | os.PathLike[str]) -> WordList | Pieces:
    """Read a vocabulary of words or of pieces of words.

    Raises:
        InputError: The file cannot be read or is not a vocabulary; nothing in it has been executed.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UnreadableError.of(path, error, "build one with bert-vocab [E-FILE-READ]") from error
    try:
        found = _read_pickle(content) if _is_pickle(content) else _read_text(content)
        if isinstance(found, WordList):
            _check(found)
    except NotAVocabulary as error:
        raise InputError(f"{path}: not a vocabulary: {error}; build one with bert-vocab [E-VOCAB-FILE]") from error
    return found


def _read_text(content: bytes) -> WordList | Pieces:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotAVocabulary(f"byte {error.start} is not utf-8") from error
    return _read_json(text) if _JSON_START.match(text) else _read_list(text)


def _read_json(text: str) -> WordList | Pieces:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAVocabulary(f"it is no whole JSON document ({error})") from error
    if isinstance(document, dict) and "model" in document:
        return read_pieces(document)
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise NotAVocabulary(f"its JSON does not say format {_FORMAT!r}, and has no model as a tokenizer.json has")
    if "itos" not in document or "freqs" not in document:
        raise NotAVocabulary("its JSON has no itos or no freqs")
    if document.get("version") != _VERSION:
        raise NotAVocabulary(f"its version is {document.get('version')!r}, this library reads {_VERSION}")
    treatment = [document.get(name, False) for name in ("lowercase", "normalize")]
    if not all(isinstance(value, bool) for value in treatment):
        raise NotAVocabulary("its lowercase or normalize is neither true nor false")
    return WordList(document["itos"], document["freqs"], *treatment)


def _read_list(text: str) -> WordList | Pieces:
    """Words a line: specials of this library or of a hub model's `vocab.txt` come first in the result, in our order."""
    words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for number, word in enumerate(words, start=1):
        if len(word.split()) != 1 or word.split()[0] != word:
            found = "is empty" if not word.split() else "holds several words"
            raise NotAVocabulary(f"line {number} {found}, expected one word a line")
    if "[UNK]" in words and any(word.startswith("##") for word in words):
        return read_hub_pieces(words)
    return WordList(own_specials_first(words), {})


def _is_pickle(content: bytes) -> bool:
    """Whether the bytes are a pickle, of the first protocols too, which are text; nothing is executed to find out."""
    if content.startswith(b"\x80"):
        return True
    try:
        end = next((at for operation, _, at in pickletools.genops(content) if operation.name == "STOP"), None)
    except ValueError:
        return False
    # A word list whose beginning happens to read as a pickle goes on after it.
    return end is not None and not content[end + 1 :].strip()


def _vocabulary_class(module: str, name: str) -> type | None:
    """What stands for a class of an old vocabulary; None: the file may not refer to it."""
    if module.endswith("dataset.vocab") and name in ("TorchVocab", "Vocab", "WordVocab"):
        return Shell
    return Counter if (module, name) == ("collections", "Counter") else None


def _read_pickle(content: bytes) -> WordList:
    try:
        shell = unpickle(content, _vocabulary_class)
    except UNREADABLE as error:
        reason = f"as a pickle it is refused: {error or type(error).__name__}; nothing was executed"
        raise NotAVocabulary(reason) from error
    if not isinstance(shell, Shell):
        raise NotAVocabulary(f"it is a pickled {type(shell).__name__}")
    state = vars(shell)
    return WordList(state.get("itos", []), state.get("freqs", {}))


def _check(words: WordList) -> None:
    itos: object = words.itos
    freqs: object = words.freqs
    if not isinstance(itos, list) or not all(isinstance(word, str) for word in itos):
        raise NotAVocabulary("its list of words is missing or holds something else")
    if not isinstance(freqs, dict) or not all(isinstance(n, int) for n in freqs.values()):
        raise NotAVocabulary("its counts are missing or no whole numbers")
    if tuple(itos[: len(SPECIALS)]) != SPECIALS:
        raise NotAVocabulary(f"its first five words are {itos[:5]}, expected {list(SPECIALS)}")
    check_once(itos)
