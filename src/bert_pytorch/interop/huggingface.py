"""Models to hub-style folders, and from them: weights, sizes, tokenizer and a card, exact in both directions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..dataset.vocab import Vocab
from ..errors import InputError
from ..files import atomic_write
from ..model import BERT, BERTLM
from ..trainer.checkpoint import load_checkpoint, load_model, model_of
from ..trainer.checkpoint_folder import is_checkpoint_folder
from .hub_config import Sizes, hub_config, read_config, sizes_of
from .hub_tokenizer import read_tokenizer, write_tokenizer
from .model_card import model_card
from .tensors import THEIR_TIED, TIED, Link, canonical, from_hub, links_of, to_hub
from .weights import read_tensors, read_weights, write_safetensors

WEIGHTS, EXTRA = "model.safetensors", "next_sentence.safetensors"
"""Transformers' ModernBERT has no next-sentence head: ours lies beside it."""
_HEADS = ("next_sentence.", "mask_lm.")
_BY_ID = ("bert.embedding.token.weight", "mask_lm.decoder.bias")
"""Tensors with a row for each id."""
_POOLING = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ],
}


class Pretrained(NamedTuple):
    """A model from a hub-style folder."""

    model: BERTLM
    """On the CPU, in evaluation mode, with 32 bits a weight."""
    vocab: Vocab | None
    """Its vocabulary with our ids, to which the rows of the model belong; None where the folder has no tokenizer files."""
    their_ids: list[int]
    """By our id the folder's, -1 for a special token that it has not."""
    new: list[str]
    """Tensors that the folder does not have, and that begin anew: heads."""
    left_out: list[str]
    """What of the folder's weights has no place here."""


def export_checkpoint(
    checkpoint: str | os.PathLike[str], vocab: str | os.PathLike[str] | Vocab, output_dir: str | os.PathLike[str]
) -> list[str]:
    """Write a checkpoint as a folder that Transformers and sentence-transformers load offline.

    Args:
        checkpoint: An `.epN` file or a `checkpoint-STEP` folder.
        vocab: The vocabulary it was trained with, or its file.
        output_dir: The folder; files of an earlier export are overwritten.

    Returns:
        The files written, by name.

    Raises:
        InputError: The checkpoint or the vocabulary cannot be used, they do not belong together, the architecture has no
            counterpart, or the folder is a checkpoint itself.
        SaveError: A file cannot be written.
    """
    own = vocab if isinstance(vocab, Vocab) else Vocab.load_vocab(vocab)
    state = load_checkpoint(checkpoint)
    trained_with = state["settings"].get("vocab_sha256")
    if trained_with is not None and trained_with != own.fingerprint:
        message = f"{checkpoint}: was trained with another vocabulary than the one given"
        raise InputError(f"{message}; give that one [E-EXPORT-VOCAB]")
    return export_model(model_of(checkpoint, state), own, output_dir, state)


def export_model(
    model: BERTLM, vocab: Vocab | None, output_dir: str | os.PathLike[str], state: Mapping[str, object] | None = None
) -> list[str]:
    """Write a model, as `export_checkpoint` does.

    Args:
        model: It keeps its type of numbers.
        vocab: None: no tokenizer files, and nothing that needs them.
        output_dir: The folder.
        state: The checkpoint the model is from, for its card.

    Raises:
        InputError, SaveError: As `export_checkpoint`.
    """
    folder, bert = Path(output_dir), model.bert
    if is_checkpoint_folder(folder):
        raise InputError(f"{folder}: is a checkpoint, whose files would be overwritten; name another folder [E-EXPORT-FOLDER]")
    if bert.architecture not in THEIR_TIED:
        reason = (
            f"architecture {bert.architecture!r} has no counterpart in Transformers, expected one of: {', '.join(THEIR_TIED)}"
        )
        raise InputError(f"export: {reason}; export it to safetensors, onnx or torchscript [E-EXPORT-ARCHITECTURE]")
    if vocab is not None and len(vocab) != bert.vocab_size:
        sizes = f"the vocabulary has {len(vocab)} entries, the model {bert.vocab_size}"
        raise InputError(f"export: {sizes}; give the one it was trained with [E-EXPORT-VOCAB]")
    ours = {name: value for name, value in model.state_dict().items() if name not in TIED}
    links = links_of(bert.architecture, bert.n_layers, bert.attn_heads)
    taken = {link.ours for link in links}
    write_safetensors(folder / WEIGHTS, to_hub(ours, links))
    files = [WEIGHTS]
    extra = {name: value for name, value in ours.items() if name not in taken}
    if extra:
        write_safetensors(folder / EXTRA, extra)
        files.append(EXTRA)
    else:
        (folder / EXTRA).unlink(missing_ok=True)
    documents: dict[str, object] = {}
    if vocab is not None:
        files += write_tokenizer(folder, vocab, bert.max_len, bert.architecture)
        pooling = {"word_embedding_dimension": bert.hidden, "pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}
        documents |= {**_POOLING, "1_Pooling/config.json": {**pooling, "pooling_mode_max_tokens": False}}
        documents["sentence_bert_config.json"] = {"max_seq_length": bert.max_len, "do_lower_case": False}
    # What says that a folder is a model comes last: half an export is none.
    documents["config.json"] = hub_config(bert)
    n_parameters = sum(value.numel() for value in ours.values())
    with atomic_write(folder / "README.md") as file:
        file.write(model_card(folder.resolve().name, bert, n_parameters, state).encode("utf-8"))
    for name, document in documents.items():
        with atomic_write(folder / name) as file:
            file.write(json.dumps(document, indent=2).encode("ascii") + b"\n")
    return [*files, "README.md", *documents]


def save_model(model: BERTLM, folder: str | os.PathLike[str], vocab_path: str | os.PathLike[str] | None) -> None:
    """`BERTLM.save_pretrained`."""
    export_model(model, None if vocab_path is None else Vocab.load_vocab(vocab_path), folder)


def load_pretrained(folder: str | os.PathLike[str], dropout: float | None = None) -> Pretrained:
    """Read a hub-style folder of BERT, of a model of the same graph, or of ModernBERT; nothing in it is executed.

    The five special tokens take ids 0-4, as everywhere in this library; all else keeps its order. Heads that the folder lacks
    begin anew, drawn from torch's global generator.

    Args:
        folder: As Transformers saves it: `config.json`, weights in safetensors or `.bin`, and tokenizer files. Or as Google
            released BERT: `bert_config.json`, `vocab.txt` and a checkpoint of TensorFlow 1.
        dropout: In place of the folder's own.

    Raises:
        InputError: A file is missing, damaged or hostile, or the model is of another graph; the message names it.
    """
    folder = Path(folder)
    config = read_config(folder)
    sizes = sizes_of(config, folder, dropout)
    kind, n_layers = str(sizes["architecture"]), int(sizes["n_layers"])
    read = read_weights(folder)
    theirs = {canonical(name, kind): value for name, value in read.items()}
    _check_tied(folder, theirs, kind)
    links = links_of(kind, _count_layers(folder, theirs, kind, n_layers), int(sizes["attn_heads"]))
    ours = from_hub(theirs, links)
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt"))
    found = read_tokenizer(folder) if has_tokenizer else None
    their_ids = list(range(int(sizes["vocab_size"]))) if found is None else found.their_ids
    if found is None and config.get("pad_token_id") not in (0, None):
        message = f"{folder}: its padding has id {config['pad_token_id']}, expected 0, and there are no tokenizer files"
        raise InputError(f"{message} to renumber by; copy them there too [E-HUB-TOKENIZER]")
    left_out = _left_out(theirs, links, kind) + _reorder(folder, ours, their_ids)
    sizes["vocab_size"] = len(their_ids)
    if (folder / EXTRA).is_file():
        ours |= {name: value for name, value in read_tensors(folder / EXTRA).items() if name.startswith(_HEADS)}
    model, new = _build(folder, sizes, ours)
    return Pretrained(model, None if found is None else found.vocab, their_ids, new, left_out)


def load_any(path: str | os.PathLike[str]) -> BERTLM:
    """The model of a hub-style folder, or of a checkpoint of either form, on the CPU, in evaluation mode.

    Raises:
        InputError: It is neither, or cannot be used.
    """
    if not os.path.isdir(path) or is_checkpoint_folder(path):
        return load_model(path)
    found = load_pretrained(path)
    if found.new:
        parts = sorted({name.partition(".")[0] for name in found.new})
        warnings.warn(f"{path}: has no weights for {' and '.join(parts)}, which begin anew", stacklevel=3)
    return found.model


def _count_layers(folder: Path, theirs: Mapping[str, Tensor], kind: str, n_layers: int) -> int:
    """The number of layers, after a look whether the weights have as many: a wrong number would cost memory first."""
    prefix = "bert.encoder.layer." if kind == "bert" else "model.layers."
    numbers = {name.removeprefix(prefix).partition(".")[0] for name in theirs if name.startswith(prefix)}
    if numbers != {str(i) for i in range(len(numbers))} or len(numbers) != n_layers:
        message = f"{folder}: config.json has {n_layers} layers, the weights have {len(numbers)}"
        raise InputError(f"{message}; copy the folder again [E-HUB-WEIGHTS]")
    return n_layers


def _check_tied(folder: Path, theirs: Mapping[str, Tensor], kind: str) -> None:
    for alias, name in THEIR_TIED[kind].items():
        if alias in theirs and name in theirs and not torch.equal(theirs[alias], theirs[name]):
            raise InputError(f"{folder}: {alias} is not {name}, which are one here; take another model [E-HUB-WEIGHTS]")


def _left_out(theirs: Mapping[str, Tensor], links: Sequence[Link], kind: str) -> list[str]:
    known = {name for link in links for name in link.theirs}
    # Positions counted beforehand, which old versions saved, are no weights.
    return sorted(
        name for name in theirs if name not in known and name not in THEIR_TIED[kind] and not name.endswith("position_ids")
    )


def _reorder(folder: Path, ours: dict[str, Tensor], their_ids: Sequence[int]) -> list[str]:
    """Bring rows into the order of our ids, in place; the rows that no id has are named."""
    ids = torch.tensor(their_ids)
    table = ours.get(_BY_ID[0])
    if table is None or int(ids.max()) >= len(table):
        n_rows = 0 if table is None else len(table)
        message = f"{folder}: its tokenizer has the id {int(ids.max())}, its word table {n_rows} rows"
        raise InputError(f"{message}; copy the files of one model [E-HUB-WEIGHTS]")
    n_unused = len(table) - int((ids >= 0).sum())
    for name in _BY_ID:
        value = ours.get(name)
        if value is None:
            continue
        if len(value) != len(table):
            raise InputError(f"{folder}: {len(value)} output biases for {len(table)} words; copy it again [E-HUB-WEIGHTS]")
        rows = value.index_select(0, ids.clamp(min=0))
        rows[ids < 0] = value.float().mean(0).to(value.dtype)
        ours[name] = rows
    return [f"{n_unused} rows of the word table that no token has"] if n_unused else []


def _build(folder: Path, sizes: Sizes, ours: dict[str, Tensor]) -> tuple[BERTLM, list[str]]:
    """The model with these weights, and which of its tensors are new."""
    with torch.device("meta"):
        model = BERTLM(BERT(**sizes), int(sizes["vocab_size"]))
    expected = {name: value.shape for name, value in model.state_dict().items() if name not in TIED}
    new = sorted(expected.keys() - ours.keys())
    for name in [*new, *ours]:
        if name in new and not name.startswith(_HEADS):
            raise InputError(f"{folder}: lacks the weights for {name}; copy the folder again [E-HUB-WEIGHTS]")
        if name in ours and (name not in expected or ours[name].shape != expected[name]):
            got, wanted = list(ours[name].shape), list(expected.get(name, ()))
            message = f"{folder}: the weights for {name} are {got}, expected {wanted} by config.json"
            raise InputError(f"{message}; copy the folder again [E-HUB-WEIGHTS]")
    weights = {name: value.to(torch.float32, copy=True).contiguous() for name, value in ours.items()}
    weights |= {name: _new_weight(name, expected[name]) for name in new}
    model.load_state_dict({**weights, **{alias: weights[name] for alias, name in TIED.items()}}, assign=True)
    model.mask_lm.decoder.weight = model.bert.embedding.token.weight
    return model.eval(), new


def _new_weight(name: str, shape: torch.Size) -> Tensor:
    """As a new model has it."""
    if name.endswith(".bias"):
        return torch.zeros(shape)
    return nn.init.trunc_normal_(torch.empty(shape), std=0.02, a=-0.04, b=0.04) if len(shape) > 1 else torch.ones(shape)
