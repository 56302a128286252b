"""The tokenizer files of hub-style folders: our vocabularies for Transformers, and theirs as ours.

Special tokens keep our names in what is written, and are `pad_token`, `cls_token` and so on to Transformers; in what is read,
those of BERT on the hub take our names and ids 0-4, and the rows of the word table move with them.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..dataset.pieces import HUB_SPECIALS, SPECIALS, document_of
from ..dataset.tokenizer import SubwordVocab
from ..dataset.vocab import Vocab, WordVocab
from ..errors import InputError
from ..files import atomic_write
from .weights import read_json

TOKENIZER = "tokenizer.json"
_ROLES = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<sos>", "sep_token": "<eos>", "mask_token": "<mask>"}
# What `str.split` parts words by: Unicode's white space, and four separators that Unicode does not count as such.
_WHITE_SPACE = "\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CASED = "[\\p{Lu}\\p{Ll}\\p{Lt}]"
# Python writes a sigma at the end of a word otherwise than within one, tokenizers does not.
_FINAL_SIGMA = {
    "type": "Replace",
    "pattern": {"Regex": f"(?<={_CASED})\u03a3(?!\\p{{M}}*{_CASED})"},
    "content": "\u03c2",
}


class Read(NamedTuple):
    """A vocabulary from a hub-style folder."""

    vocab: Vocab
    their_ids: list[int]
    """By our id the folder's; -1 for a special token that it has not."""


def tokenizer_document(vocab: Vocab) -> dict[str, object]:
    """The `tokenizer.json` that gives our ids, and `<sos> A <eos> B <eos>` around them."""
    document = document_of(vocab.pieces) if isinstance(vocab, SubwordVocab) else _document_of_words(vocab)
    first = [_special("<sos>", 0), {"Sequence": {"id": "A", "type_id": 0}}, _special("<eos>", 0)]
    second = [{"Sequence": {"id": "B", "type_id": 1}}, _special("<eos>", 1)]
    markers = {"<sos>": vocab.sos_index, "<eos>": vocab.eos_index}
    tokens = {name: {"id": name, "ids": [index], "tokens": [name]} for name, index in markers.items()}
    document["post_processor"] = {
        **{"type": "TemplateProcessing", "single": first, "pair": [*first, *second], "special_tokens": tokens}
    }
    return document


def write_tokenizer(folder: str | os.PathLike[str], vocab: Vocab, max_len: int, architecture: str) -> list[str]:
    """Write the files that `AutoTokenizer` reads; their names.

    Raises:
        SaveError: A file cannot be written.
    """
    inputs = ["input_ids", "attention_mask"]
    settings = {
        **{"tokenizer_class": "PreTrainedTokenizerFast", **_ROLES, "model_max_length": max_len},
        "model_input_names": inputs if architecture == "modernbert" else [inputs[0], "token_type_ids", inputs[1]],
        "clean_up_tokenization_spaces": False,
    }
    files = {TOKENIZER: tokenizer_document(vocab), "tokenizer_config.json": settings, "special_tokens_map.json": _ROLES}
    for name, content in files.items():
        with atomic_write(Path(folder) / name) as file:
            file.write(json.dumps(content, ensure_ascii=True, indent=1).encode("ascii"))
    return list(files)


def read_tokenizer(folder: Path) -> Read:
    """The vocabulary of a hub-style folder: `tokenizer.json`, or a `vocab.txt`.

    Raises:
        InputError: There is none, or it is of a kind that this library does not encode with.
    """
    path = folder / TOKENIZER
    if path.is_file():
        document = read_json(path, "E-HUB-TOKENIZER")
        model = document.get("model")
        their_vocab = model.get("vocab") if isinstance(model, dict) else None
        if not isinstance(their_vocab, dict):
            kind = model.get("type") if isinstance(model, dict) else None
            message = f"{path}: a tokenizer of the kind {kind!r}, expected WordLevel, WordPiece or BPE"
            raise InputError(f"{message}; take another model [E-HUB-TOKENIZER]")
        if isinstance(model, dict) and model.get("type") == "WordLevel":
            vocab = _read_words(path, document, their_vocab)
        else:
            vocab = Vocab.load_vocab(path)
    elif (folder / "vocab.txt").is_file():
        path = folder / "vocab.txt"
        vocab = Vocab.load_vocab(path)
        lines = path.read_text(encoding="utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
        their_vocab = {word: i for i, word in enumerate(lines)}
    else:
        message = f"{folder}: has no {TOKENIZER} and no vocab.txt; copy them there, or give a vocabulary with it"
        raise InputError(f"{message} [E-HUB-TOKENIZER]")
    return Read(vocab, _their_ids(vocab, their_vocab))


def _their_ids(vocab: Vocab, their_vocab: Mapping[str, int]) -> list[int]:
    of_hub: dict[str, str] = dict(zip(SPECIALS, HUB_SPECIALS, strict=True))
    return [their_vocab.get(word, their_vocab.get(of_hub.get(word, word), -1)) for word in vocab.itos]


def _special(name: str, type_id: int) -> dict[str, object]:
    return {"SpecialToken": {"id": name, "type_id": type_id}}


def _document_of_words(vocab: Vocab) -> dict[str, object]:
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    parts: list[dict[str, object]] = [{"type": "NFKC"}] if vocab.normalize else []
    parts += [_FINAL_SIGMA, {"type": "Lowercase"}] if vocab.lowercase else []
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": word, **special} for i, word in enumerate(SPECIALS)],
        "normalizer": {"type": "Sequence", "normalizers": parts} if parts else None,
        "pre_tokenizer": {
            **{"type": "Split", "pattern": {"Regex": f"[{_WHITE_SPACE}]+"}, "behavior": "Removed", "invert": False}
        },
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(vocab.itos)}, "unk_token": "<unk>"},
    }


def _read_words(path: Path, document: Mapping[str, object], their_vocab: Mapping[str, int]) -> WordVocab:
    """A word vocabulary as `write_tokenizer` writes it."""
    itos = sorted(their_vocab, key=their_vocab.__getitem__)
    if tuple(itos[: len(SPECIALS)]) != SPECIALS or [their_vocab[word] for word in itos] != list(range(len(itos))):
        message = f"{path}: its ids 0-4 are {itos[:5]!a}, expected {list(SPECIALS)}, and no id left out"
        raise InputError(f"{message}; take another model [E-HUB-TOKENIZER]")
    treatments = {
        (lower, normal): WordVocab([], lowercase=lower, normalize=normal) for lower in (False, True) for normal in (False, True)
    }
    for vocab in treatments.values():
        ours = _document_of_words(vocab)
        if all(document.get(part) == ours[part] for part in ("normalizer", "pre_tokenizer")):
            vocab.itos, vocab.freqs = itos, Counter()
            vocab.vocab_rerank()
            return vocab
    message = f"{path}: parts and cleans words otherwise than this library writes it"
    raise InputError(f"{message}; take another model [E-HUB-TOKENIZER]")
