"""A model with its vocabulary, from a checkpoint or a hub-style folder, and texts as ids for it."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, NamedTuple

from ..dataset.vocab import Vocab
from ..errors import InputError, UnreadableError, UsageError
from ..interop.as_checkpoint import BEGINS_ANEW
from ..interop.huggingface import load_pretrained
from ..model import BERTLM
from ..trainer.checkpoint import load_checkpoint, model_of
from ..trainer.checkpoint_folder import is_checkpoint_folder

STDIN = "-"


class Recipe(NamedTuple):
    """How a folder says that its vectors are made, in the files of sentence-transformers."""

    pooling: str = "mean"
    normalize: bool = False
    max_tokens: int | None = None


class Loaded(NamedTuple):
    """A model ready to use."""

    model: BERTLM
    """On the CPU, in evaluation mode."""
    vocab: Vocab
    recipe: Recipe
    new: list[str]
    """Tensors that the folder did not have, and that hold nothing learned."""
    settings: Mapping[str, object] = MappingProxyType({})
    """What a checkpoint was trained with; a folder does not say."""

    def check_heads(self, what: str, name: str) -> None:
        """Refuse work that a head decides which has learned nothing.

        Args:
            what: The head, for the message.
            name: The beginning of its tensors' names.

        Raises:
            InputError: It is new.
        """
        if any(each.startswith(name) for each in self.new):
            raise InputError(f"the model has no {what}; train it first, or take a model that has one [E-INFER-HEAD]")


def open_model(path: str | os.PathLike[str], vocab_path: str | os.PathLike[str] | None = None) -> Loaded:
    """Read a model and its vocabulary.

    Args:
        path: A hub-style folder, an `.epN` file, or a `checkpoint-STEP` folder.
        vocab_path: The vocabulary's file; None: that of the folder.

    Raises:
        InputError: They cannot be read, or do not belong together.
        UsageError: A checkpoint without a vocabulary.
    """
    if os.path.isdir(path) and not is_checkpoint_folder(path):
        found = load_pretrained(path)
        vocab = found.vocab if vocab_path is None else Vocab.load_vocab(vocab_path)
        if vocab is None:
            raise UsageError(f"{path}: has no tokenizer files; give its vocabulary with --vocab_path [E-USAGE]")
        if vocab_path is not None and found.vocab is not None and found.vocab.fingerprint != vocab.fingerprint:
            raise InputError(f"{path}: has another vocabulary than {vocab_path}; leave it out [E-EXPORT-VOCAB]")
        loaded = Loaded(found.model, vocab, recipe_of(Path(path)), found.new)
    else:
        if vocab_path is None:
            raise UsageError(f"{path}: is a checkpoint; give its vocabulary with --vocab_path [E-USAGE]")
        state = load_checkpoint(path)
        settings = state["settings"]
        new = list(settings.get(BEGINS_ANEW, ()))
        loaded = Loaded(model_of(path, state), Vocab.load_vocab(vocab_path), Recipe(), new, settings)
        trained_with = settings.get("vocab_sha256")
        if trained_with not in (None, loaded.vocab.fingerprint):
            raise InputError(f"{path}: was trained with another vocabulary than {vocab_path}; give that one [E-EXPORT-VOCAB]")
    if len(loaded.vocab) != loaded.model.bert.vocab_size:
        sizes = f"the vocabulary has {len(loaded.vocab)} entries, the model {loaded.model.bert.vocab_size}"
        raise InputError(f"{path}: {sizes}; give the one it was trained with [E-EXPORT-VOCAB]")
    return loaded


def recipe_of(folder: Path) -> Recipe:
    """How a folder says that its vectors are made; the usual way where it does not say."""
    pooling = _json_of(folder / "1_Pooling" / "config.json")
    kinds = {"cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "mean": "pooling_mode_mean_tokens"}
    chosen = [kind for kind, name in kinds.items() if isinstance(pooling, dict) and pooling.get(name) is True]
    if len(chosen) > 1:
        warnings.warn(f"{folder}: joins {' and '.join(chosen)} vectors; {chosen[0]} alone is taken", stacklevel=3)
    modules = _json_of(folder / "modules.json")
    names = [str(each.get("type")) for each in modules if isinstance(each, dict)] if isinstance(modules, list) else []
    settings = _json_of(folder / "sentence_bert_config.json")
    most = settings.get("max_seq_length") if isinstance(settings, dict) else None
    normalize = any(name.endswith(".Normalize") for name in names)
    return Recipe(chosen[0] if chosen else "mean", normalize, most if type(most) is int and most > 2 else None)


def read_texts(path: str) -> Iterator[str]:
    """The lines of a file, or of stdin for `-`, one by one, without their ends.

    Raises:
        InputError: It cannot be read, or a line is no UTF-8.
    """
    if path == STDIN:
        yield from _decoded(path, sys.stdin.buffer)
        return
    try:
        file = open(path, "rb")
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    with file:
        yield from _decoded(path, file)


def to_ids(vocab: Vocab, texts: Sequence[str], max_tokens: int) -> tuple[list[list[int]], int]:
    """Texts as `<sos> words <eos>`, and how many of them were cut to `max_tokens`."""
    seqs = vocab.to_seqs(texts)
    n_cut = sum(len(seq) > max_tokens - 2 for seq in seqs)
    return [[vocab.sos_index, *seq[: max_tokens - 2], vocab.eos_index] for seq in seqs], n_cut


def _decoded(path: str, file: BinaryIO) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        try:
            yield line.removeprefix(b"\xef\xbb\xbf" if number == 1 else b"").rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"{path}:{number}: byte {error.start} is not utf-8; save the file as UTF-8"
            raise InputError(f"{message} [E-CORPUS-ENCODING]") from error


def _json_of(path: Path) -> object:
    """A small JSON file that may be missing."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
