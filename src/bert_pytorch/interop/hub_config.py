"""The `config.json` of hub-style folders: our sizes as theirs, and theirs as ours where the graph is the same."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..dataset.vocab import Vocab
from ..errors import InputError
from ..model import BERT
from .tensorflow import CONFIG
from .weights import read_json

Sizes = dict[str, Any]
"""Arguments of `BERT`."""
_SIZES = {
    **{"vocab_size": "vocab_size", "hidden_size": "hidden", "num_hidden_layers": "n_layers"},
    **{"num_attention_heads": "attn_heads", "max_position_embeddings": "max_len", "intermediate_size": "feed_forward_hidden"},
}
"""Their names of sizes, and ours."""
_SPECIALS = {
    **{"pad_token_id": Vocab.pad_index, "cls_token_id": Vocab.sos_index, "sep_token_id": Vocab.eos_index},
    **{"bos_token_id": Vocab.sos_index, "eos_token_id": Vocab.eos_index},
}
_SAME_GRAPH: dict[str, dict[str, object]] = {
    "bert": {
        **{"hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"},
        **{"is_decoder": False, "add_cross_attention": False},
    },
    "modernbert": {
        **{"hidden_activation": "gelu", "classifier_activation": "gelu", "norm_eps": 1e-5, "local_attention": 128},
        **{"norm_bias": False, "attention_bias": False, "mlp_bias": False, "classifier_bias": False, "decoder_bias": True},
        **{"global_attn_every_n_layers": 3, "global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0},
    },
}
"""What our models compute; a setting that is absent has this value in Transformers too."""
_DROPOUTS = {
    "bert": ("hidden_dropout_prob", "attention_probs_dropout_prob"),
    "modernbert": ("mlp_dropout", "attention_dropout", "embedding_dropout"),
}
_MOST_LAYERS = 10_000


def hub_config(bert: BERT) -> dict[str, object]:
    """The `config.json` of a model, for Transformers."""
    architecture, ours = bert.architecture, bert.config
    sizes = {theirs: ours.get(name, bert.feed_forward_hidden) for theirs, name in _SIZES.items()}
    names = {"bert": ["BertForPreTraining"], "modernbert": ["ModernBertForMaskedLM"]}
    kind = {"type_vocab_size": 2} if architecture == "bert" else {}
    return {
        "architectures": names[architecture],
        "model_type": architecture,
        **sizes,
        **kind,
        **_SAME_GRAPH[architecture],
        **dict.fromkeys(_DROPOUTS[architecture], bert.dropout),
        **(_SPECIALS if architecture == "modernbert" else {"pad_token_id": Vocab.pad_index}),
        "initializer_range": 0.02,
        "tie_word_embeddings": True,
        "dtype": str(bert.embedding.token.weight.dtype).removeprefix("torch."),
    }


def read_config(folder: Path) -> dict[str, object]:
    """The configuration of a hub-style folder whose model computes what ours does.

    Raises:
        InputError: It is missing or damaged, or of a model of another graph; the message names the setting.
    """
    path = folder / "config.json"
    if not path.is_file() and (folder / CONFIG).is_file():
        path = folder / CONFIG
        config = {"model_type": "bert", **read_json(path, "E-HUB-CONFIG")}
    else:
        config = read_json(path, "E-HUB-CONFIG")
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in _SAME_GRAPH:
        raise InputError(
            f"{path}: model_type {kind!r}, expected one of: {', '.join(_SAME_GRAPH)}; take such a model [E-HUB-CONFIG]"
        )
    flat = {**config, **_rotary(config)}
    for name, expected in _SAME_GRAPH[kind].items():
        got = flat.get(name, expected)
        if got != expected and got is not None:
            raise InputError(
                f"{path}: {name} is {got!r}, expected {expected!r}: another graph; take another model [E-HUB-CONFIG]"
            )
    for name in _SIZES:
        size = config.get(name)
        if type(size) is not int or not 1 <= size <= 2**31:
            raise InputError(f"{path}: {name} is {size!r}, expected a size; copy the folder again [E-HUB-CONFIG]")
    layers, kinds = config["num_hidden_layers"], config.get("layer_types")
    if not isinstance(layers, int) or layers > _MOST_LAYERS:
        raise InputError(f"{path}: num_hidden_layers is {layers!r}, expected at most {_MOST_LAYERS} [E-HUB-CONFIG]")
    expected_kinds = ["sliding_attention" if i % 3 else "full_attention" for i in range(layers)]
    if isinstance(kinds, list) and kind == "modernbert" and kinds != expected_kinds:
        raise InputError(f"{path}: its layer_types differ, expected each third to be full; take another model [E-HUB-CONFIG]")
    return config


def sizes_of(config: Mapping[str, object], folder: Path, dropout: float | None) -> Sizes:
    """The arguments of `BERT` that a checked configuration stands for.

    Args:
        config: As `read_config` gives it.
        folder: Where it is from, for warnings.
        dropout: In place of the configuration's; None: that.
    """
    kind = str(config["model_type"])
    sizes: Sizes = {ours: _number(config[theirs]) for theirs, ours in _SIZES.items()}
    rates = [_number(config.get(name, 0.1 if kind == "bert" else 0.0)) for name in _DROPOUTS[kind]]
    if dropout is None and len(set(rates)) > 1:
        shown = ", ".join(f"{name} {rate}" for name, rate in zip(_DROPOUTS[kind], rates, strict=True))
        warnings.warn(f"{folder}: {shown}: there is one rate here, the first is taken; give another as dropout", stacklevel=3)
    hidden, feed_forward = int(sizes["hidden"]), sizes.pop("feed_forward_hidden")
    if feed_forward != (-(-3 * hidden // 2) if kind == "modernbert" else 4 * hidden):
        sizes["feed_forward_hidden"] = feed_forward
    return {**sizes, "dropout": rates[0] if dropout is None else dropout, "architecture": kind}


def _rotary(config: Mapping[str, object]) -> dict[str, object]:
    """The bases of rotary positions, where newer files have them, under the names of older ones."""
    found: dict[str, object] = {}
    rotary = config.get("rope_parameters")
    names = {"full_attention": "global_rope_theta", "sliding_attention": "local_rope_theta"}
    for kind, name in names.items():
        values = rotary.get(kind) if isinstance(rotary, Mapping) else None
        if isinstance(values, Mapping):
            found[name] = values.get("rope_theta") if values.get("rope_type", "default") == "default" else values
    return found


def _number(value: object) -> int | float:
    return value if isinstance(value, (int, float)) else 0.0
