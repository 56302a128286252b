"""The files a vocabulary is kept in: this library's JSON, a plain word list, and old pickles behind an allow-list."""

from __future__ import annotations

import json
import os
import pickle
import pickletools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from io import BytesIO

from ..errors import InputError, UnreadableError
from ..files import atomic_write

SPECIALS = ("<pad>", "<unk>", "<eos>", "<sos>", "<mask>")
_HUB_SPECIALS = ("[PAD]", "[UNK]", "[SEP]", "[CLS]", "[MASK]")
_FORMAT = "bert_pytorch.vocab"
_VERSION = 1
_JSON_START = re.compile(r'\{\s*("|\}?\s*\Z)')
"""Of a JSON object, be it empty or cut off; a word list may begin with a brace too."""
_UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError),
    *(OverflowError, MemoryError),
)
"""What the unpickler raises on damaged or hostile bytes."""


def write_vocabulary(path: str | os.PathLike[str], itos: Sequence[str], freqs: Mapping[str, int]) -> None:
    """Write words by id and their counts as JSON, one a line, whole or not at all."""
    document = {"format": _FORMAT, "version": _VERSION, "itos": list(itos), "freqs": dict(freqs)}
    # Lone surrogates cannot be UTF-8; with them, and only then, JSON's own escapes are used throughout.
    text = json.dumps(document, ensure_ascii=False, indent=0)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        content = json.dumps(document, indent=0).encode("ascii")
    with atomic_write(path) as file:
        file.write(content)


def read_vocabulary(path: str | os.PathLike[str]) -> tuple[list[str], dict[str, int]]:
    """Read words by id, and their counts (none for a plain list).

    Raises:
        InputError: The file cannot be read or is not a vocabulary; nothing in it has been executed.
    """
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise UnreadableError.of(path, error, "build one with bert-vocab [E-FILE-READ]") from error
    if _is_pickle(content):
        itos, freqs = _read_pickle(path, content)
    else:
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _not_a_vocabulary(path, f"byte {error.start} is not utf-8") from error
        itos, freqs = _read_json(path, text) if _JSON_START.match(text) else (_read_list(path, text), {})
    _check(path, itos, freqs)
    return itos, freqs


def _read_json(path: str | os.PathLike[str], text: str) -> tuple[list[str], dict[str, int]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _not_a_vocabulary(path, f"it is no whole JSON document ({error})") from error
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _not_a_vocabulary(path, f"its JSON does not say format {_FORMAT!r}")
    if "itos" not in document or "freqs" not in document:
        raise _not_a_vocabulary(path, "its JSON has no itos or no freqs")
    if document.get("version") != _VERSION:
        raise _not_a_vocabulary(path, f"its version is {document.get('version')!r}, this library reads {_VERSION}")
    return document["itos"], document["freqs"]


def _read_list(path: str | os.PathLike[str], text: str) -> list[str]:
    """Words a line: specials of this library or of a hub model's `vocab.txt` come first in the result, in our order."""
    words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for number, word in enumerate(words, start=1):
        if len(word.split()) != 1 or word.split()[0] != word:
            found = "is empty" if not word.split() else "holds several words"
            raise _not_a_vocabulary(path, f"line {number} {found}, expected one word a line")
    if tuple(words[: len(SPECIALS)]) == SPECIALS:
        return words
    specials = {*SPECIALS, *_HUB_SPECIALS}
    return [*SPECIALS, *(word for word in words if word not in specials)]


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


class _Shell:
    """Stands in for a vocabulary class of the old package: takes its attributes and runs nothing."""


class _AllowListUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if module.endswith("dataset.vocab") and name in ("TorchVocab", "Vocab", "WordVocab"):
            return _Shell
        if (module, name) == ("collections", "Counter"):
            return Counter
        raise pickle.UnpicklingError(f"it refers to {module}.{name}")


def _read_pickle(path: str | os.PathLike[str], content: bytes) -> tuple[list[str], dict[str, int]]:
    try:
        shell = _AllowListUnpickler(BytesIO(content)).load()
    except _UNREADABLE as error:
        reason = f"as a pickle it is refused: {error or type(error).__name__}; nothing was executed"
        raise _not_a_vocabulary(path, reason) from error
    if not isinstance(shell, _Shell):
        raise _not_a_vocabulary(path, f"it is a pickled {type(shell).__name__}")
    state = vars(shell)
    return state.get("itos", []), state.get("freqs", {})


def _check(path: str | os.PathLike[str], itos: object, freqs: object) -> None:
    if not isinstance(itos, list) or not all(isinstance(word, str) for word in itos):
        raise _not_a_vocabulary(path, "its list of words is missing or holds something else")
    if not isinstance(freqs, dict) or not all(isinstance(n, int) for n in freqs.values()):
        raise _not_a_vocabulary(path, "its counts are missing or no whole numbers")
    if tuple(itos[: len(SPECIALS)]) != SPECIALS:
        raise _not_a_vocabulary(path, f"its first five words are {itos[:5]}, expected {list(SPECIALS)}")
    if len(set(itos)) != len(itos):
        twice = next(word for word, n in Counter(itos).items() if n > 1)
        raise _not_a_vocabulary(path, f"the word {twice!r} stands in it twice")


def _not_a_vocabulary(path: str | os.PathLike[str], reason: str) -> InputError:
    return InputError(f"{path}: not a vocabulary: {reason}; build one with bert-vocab [E-VOCAB-FILE]")
