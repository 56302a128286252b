"""Files of bert-pytorch 0.0.1a4, pickles of whole objects, read through an allow-list: nothing in them is executed.

Its models are `torch.save` of a `BERT` (also of a `BERTLM`, where a user saved one) and become models of the architecture
`"bert-pytorch"`; its vocabularies, and those of programs that took the class over, become a `WordVocab`.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..allow_list import UNREADABLE as BAD_PICKLE
from ..allow_list import Shell, unpickle
from ..dataset.pieces import SPECIALS
from ..dataset.vocab import Vocab, WordVocab
from ..errors import InputError, UnreadableError
from ..model import BERT, BERTLM
from ..model.original import sinusoids
from .hub_config import Sizes
from .old_pickles import Found, Slice, read_object

_MODULES = {
    "bert_pytorch.model": {
        **{"bert": ["BERT"], "transformer": ["TransformerBlock"], "embedding.bert": ["BERTEmbedding"]},
        "language_model": ["BERTLM", "NextSentencePrediction", "MaskedLanguageModel"],
        **{"embedding.token": ["TokenEmbedding"], "embedding.position": ["PositionalEmbedding"]},
        **{"embedding.segment": ["SegmentEmbedding"], "attention.single": ["Attention"]},
        **{"attention.multi_head": ["MultiHeadedAttention"], "utils.feed_forward": ["PositionwiseFeedForward"]},
        **{"utils.layer_norm": ["LayerNorm"], "utils.sublayer": ["SublayerConnection"], "utils.gelu": ["GELU"]},
    },
    "torch.nn": {
        **{"modules.dropout": ["Dropout"], "modules.container": ["ModuleList"], "modules.linear": ["Linear"]},
        **{"modules.activation": ["LogSoftmax"], "modules.sparse": ["Embedding"], "parallel.data_parallel": ["DataParallel"]},
    },
}
_ALLOWED = {
    f"{package}.{module}.{name}" for package, modules in _MODULES.items() for module, names in modules.items() for name in names
}
VOCAB_CLASSES = ("TorchVocab", "Vocab", "WordVocab")
_DEEPEST = 12
_LINEAR = {
    **{"attention.output_linear": "attention.output_linear", "feed_forward.w_1": "feed_forward.w_1"},
    **{"feed_forward.w_2": "feed_forward.w_2"},
}
_NORMS = {"input_sublayer.norm": "attention_norm", "output_sublayer.norm": "feed_forward_norm"}
_HEADS = {"next_sentence.linear": "next_sentence.linear", "mask_lm.linear": "mask_lm.decoder"}


def load_old_model(path: str | os.PathLike[str]) -> tuple[BERTLM, list[str]]:
    """The model of an old `.epN` file, on the CPU, in evaluation mode, and which of its tensors are new.

    Old files hold the encoder alone; the heads then begin anew, drawn from torch's global generator.

    Raises:
        InputError: The file cannot be read, is damaged, or holds something else.
    """
    path = Path(path)
    tensors: dict[str, Tensor] = {}
    shells: dict[str, Shell] = {}
    found = _read(path)
    _walk(path, found, found.value, "", tensors, shells)
    prefix = "bert." if isinstance(shells.get("bert"), Shell) else ""
    encoder = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    config = _config_of(path, vars(shells[prefix.removesuffix(".")]), shells, prefix, encoder)
    state = {f"bert.{name}": value for name, value in _renamed(path, encoder, int(config["n_layers"])).items()}
    heads = {f"{new}.{kind}": tensors.get(f"{old}.{kind}") for old, new in _HEADS.items() for kind in ("weight", "bias")}
    state |= {name: value for name, value in heads.items() if value is not None}
    with torch.device("meta"):
        expected = BERTLM(BERT(**config), int(config["vocab_size"])).state_dict()
    for name, value in state.items():
        if name not in expected or expected[name].shape != value.shape:
            raise _damaged(path, f"its weights for {name} are {list(value.shape)}, which do not fit its sizes")
    new = sorted(expected.keys() - state.keys())
    if any(name.startswith("bert.") for name in new):
        raise _damaged(path, f"it lacks the weights for {new[0]}")
    model = BERTLM(BERT(**config), int(config["vocab_size"]))
    model.load_state_dict({**model.state_dict(), **state})
    return model.eval(), new


def load_old_vocab(path: str | os.PathLike[str]) -> Vocab:
    """The vocabulary of an old `vocab.pkl`, or of a program that renamed the package but kept the classes.

    Raises:
        InputError: The file cannot be read, is damaged, or holds something else.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-FILE-READ]") from error
    if not content.startswith(b"\x80"):
        return Vocab.load_vocab(path)
    try:
        found = unpickle(content, _vocabulary_class)
    except BAD_PICKLE as error:
        reason = f"as a pickle it is refused: {error or type(error).__name__}; nothing was executed"
        raise InputError(f"{path}: not a vocabulary: {reason}, build one with bert-vocab [E-VOCAB-FILE]") from error
    state = vars(found) if isinstance(found, Shell) else {}
    itos, freqs = state.get("itos"), state.get("freqs")
    if not isinstance(itos, list) or not all(isinstance(word, str) for word in itos) or tuple(itos[:5]) != SPECIALS:
        message = f"its first words are not {', '.join(SPECIALS)}"
        raise InputError(f"{path}: not a vocabulary: {message}; build one with bert-vocab [E-VOCAB-FILE]")
    if len(set(itos)) != len(itos) or not isinstance(freqs, dict) or not all(isinstance(n, int) for n in freqs.values()):
        message = "a word stands in it twice, or its counts are missing"
        raise InputError(f"{path}: not a vocabulary: {message}; build one with bert-vocab [E-VOCAB-FILE]")
    vocab = WordVocab([])
    vocab.itos, vocab.freqs = itos, Counter(freqs)
    vocab.vocab_rerank()
    return vocab


def _vocabulary_class(module: str, name: str) -> type | None:
    if module.rpartition(".")[2] == "vocab" and name in VOCAB_CLASSES:
        return Shell
    return Counter if (module, name) == ("collections", "Counter") else None


def _read(path: Path) -> Found:
    try:
        return read_object(path, _ALLOWED)
    except pickle.UnpicklingError as error:
        raise InputError(f"{path}: {error}; nothing was executed, give a file of 0.0.1a4 [E-LEGACY-FILE]") from error
    except OSError as error:
        raise UnreadableError.of(path, error, "check the path [E-LEGACY-FILE]") from error
    except (*BAD_PICKLE, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise _damaged(path, str(error).partition("\n")[0] or type(error).__name__) from error


def _walk(
    path: Path, found: Found, module: object, name: str, tensors: dict[str, Tensor], shells: dict[str, Shell], depth: int = 0
) -> None:
    """Gather the tensors and modules of a tree of shells under dotted names."""
    if not isinstance(module, Shell):
        raise InputError(f"{path}: holds no model of bert-pytorch; give its .epN file [E-LEGACY-FILE]")
    if depth > _DEEPEST:
        raise _damaged(path, "its modules lie too deep in each other")
    shells[name.removesuffix(".")] = module
    for kind in ("_parameters", "_buffers"):
        for each, value in _mapping(vars(module), kind).items():
            if isinstance(value, Slice):
                try:
                    tensors[name + each] = found.tensor(value).float()
                except (ValueError, LookupError, AttributeError, TypeError) as error:
                    raise _damaged(path, f"{name}{each}: {error}") from error
    for each, child in _mapping(vars(module), "_modules").items():
        # A DataParallel around the model is none of its parts.
        _walk(path, found, child, name if each == "module" else f"{name}{each}.", tensors, shells, depth + 1)


def _mapping(state: Mapping[str, object], name: str) -> dict[str, object]:
    value = state.get(name)
    return {str(key): each for key, each in value.items()} if isinstance(value, dict) else {}


def _config_of(
    path: Path, bert: Mapping[str, object], shells: Mapping[str, Shell], prefix: str, tensors: Mapping[str, Tensor]
) -> Sizes:
    """The arguments of `BERT` that an old object stands for."""
    words, positions = tensors.get("embedding.token.weight"), tensors.get("embedding.position.pe")
    if words is None or positions is None or words.dim() != 2 or positions.dim() != 3:
        raise _damaged(path, "it has no table of words or of positions")
    max_len, hidden = positions.shape[1:]
    if words.size(1) != hidden or (positions[0] - sinusoids(max_len, hidden)).abs().max() > 1e-4:
        raise _damaged(path, "its positions are not those of bert-pytorch")
    n_layers = len({name.split(".")[1] for name in tensors if name.startswith("transformer_blocks.")})
    heads = bert.get("attn_heads")
    rate = vars(shells.get(f"{prefix}transformer_blocks.0.dropout", Shell())).get("p", 0.1)
    first = tensors.get("transformer_blocks.0.feed_forward.w_1.weight")
    if type(heads) is not int or not 1 <= heads <= hidden or hidden % heads or first is None or not isinstance(rate, float):
        raise _damaged(path, "its sizes are missing or contradict each other")
    config: Sizes = {
        "vocab_size": len(words),
        "hidden": hidden,
        "n_layers": n_layers,
        "attn_heads": heads,
    }
    config |= {"dropout": rate, "max_len": max_len, "architecture": "bert-pytorch"}
    return config if len(first) == 4 * hidden else {**config, "feed_forward_hidden": len(first)}


def _renamed(path: Path, tensors: Mapping[str, Tensor], n_layers: int) -> dict[str, Tensor]:
    """The encoder's tensors under our names."""
    try:
        state = {f"embedding.{name}.weight": tensors[f"embedding.{name}.weight"] for name in ("token", "segment")}
        for i in range(n_layers):
            block = f"transformer_blocks.{i}."
            for kind in ("weight", "bias"):
                state |= {f"{block}{new}.{kind}": tensors[f"{block}{old}.{kind}"] for old, new in _LINEAR.items()}
                parts = [tensors[f"{block}attention.linear_layers.{part}.{kind}"] for part in range(3)]
                state[f"{block}attention.qkv_linear.{kind}"] = torch.cat(parts)
            for old, new in _NORMS.items():
                state |= {
                    f"{block}{new}.weight": tensors[f"{block}{old}.a_2"],
                    f"{block}{new}.bias": tensors[f"{block}{old}.b_2"],
                }
    except (KeyError, RuntimeError) as error:
        raise _damaged(path, f"it lacks or misshapes {error}") from error
    return state


def _damaged(path: Path, reason: str) -> InputError:
    return InputError(
        f"{path}: damaged or no file of bert-pytorch: {reason}; nothing was executed, copy it again [E-LEGACY-FILE]"
    )
