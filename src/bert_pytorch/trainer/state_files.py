"""The state of a run as the files of a checkpoint folder, and back: tensors in safetensors, all else in JSON.

In `trainer_state.json` a tensor is `{"tensor": NAME}`, NAME being its name in the file of tensors; a number that JSON has no
word for is `{"number": "nan"}`; a whole number as a key, as an optimiser's state has them, is `#N`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

MODEL, OPTIMIZER, REST = "model.safetensors", "optimizer.safetensors", "random.safetensors"
CONFIG, STATE = "config.json", "trainer_state.json"
_TENSOR, _NUMBER = "tensor", "number"


def to_files(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Part a state into files.

    Args:
        state: `model` and `model_config`, and any nest of plain values and tensors besides.
    """
    optimizer: dict[str, Tensor] = {}
    rest: dict[str, Tensor] = {}
    plain = {
        key: _plain(value, key, optimizer if key == "optimizer" else rest)
        for key, value in state.items()
        if key not in ("model", "model_config")
    }
    model = dict(state["model"])
    return {MODEL: model, OPTIMIZER: optimizer, REST: rest, CONFIG: dict(state["model_config"]), STATE: plain}


def from_files(contents: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Put the state together again.

    Raises:
        KeyError: A file or a tensor is missing.
    """
    tensors = {**contents[OPTIMIZER], **contents[REST]}
    state = {key: _nested(value, tensors) for key, value in contents[STATE].items()}
    return {**state, "model": dict(contents[MODEL]), "model_config": dict(contents[CONFIG])}


def _plain(value: object, name: str, tensors: dict[str, Tensor]) -> object:
    if isinstance(value, Tensor):
        tensors[name] = value
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        keys = {key: f"#{key}" if isinstance(key, int) else str(key) for key in value}
        return {keys[key]: _plain(each, f"{name}.{key}", tensors) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, f"{name}.{number}", tensors) for number, each in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: str(value)}
    return value


def _nested(value: object, tensors: Mapping[str, Tensor]) -> object:
    if isinstance(value, Mapping):
        if value.keys() == {_TENSOR}:
            return tensors[value[_TENSOR]]
        if value.keys() == {_NUMBER}:
            return float(value[_NUMBER])
        return {int(key[1:]) if key.startswith("#") else key: _nested(each, tensors) for key, each in value.items()}
    if isinstance(value, list):
        return [_nested(each, tensors) for each in value]
    return value
