"""Checkpoints of TensorFlow 1, as Google released BERT, under the names of Transformers.

Read by TensorFlow itself (`tf.train.load_checkpoint`), which is imported where such a checkpoint is met and nowhere else.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from ..extras import import_extra

CONFIG = "bert_config.json"
"""What `config.json` is called beside such a checkpoint."""
_LEFT_OUT = re.compile(r"global_step|.*/(adam_[mv]|[Aa]dam(_\d+)?|[Mm]omentum)|(.*/)?beta[12]_power")
"""State of optimisers and counters."""
_OBJECTS = ".ATTRIBUTES/"
"""In the names of TensorFlow 2, whose checkpoints describe Python objects."""
_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Bytes a number."""


def find_checkpoint(folder: Path) -> Path | None:
    """The prefix of the checkpoint in a folder, such as `bert_model.ckpt`; None: there is none.

    Raises:
        InputError: There are several.
    """
    found = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    if len(found) > 1:
        names = ", ".join(path.name for path in found[:5])
        raise InputError(f"{folder}: holds {len(found)} checkpoints ({names}); leave one there [E-HUB-WEIGHTS]")
    return found[0] if found else None


def read_checkpoint(prefix: Path) -> dict[str, Tensor]:
    """The weights of a checkpoint of TensorFlow 1, as Transformers names and turns them; the optimiser's are left out.

    Args:
        prefix: The path of its files without `.index` and `.data-00000-of-00001`.

    Raises:
        InputError: It is damaged, of TensorFlow 2, or claims more than its files hold.
        UnavailableError: TensorFlow is not installed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow warns of its own parts while it is imported.
        tf: Any = import_extra("tensorflow", "tensorflow")
    try:
        reader = tf.train.load_checkpoint(str(prefix))
        shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
        names = sorted(name for name in shapes if not _LEFT_OUT.fullmatch(name))
        _check(prefix, names, {name: kinds[name].name for name in names}, {name: shapes[name] for name in names})
        weights: dict[str, Tensor] = {}
        for name in names:
            value = torch.from_numpy(reader.get_tensor(name).astype("float32"))
            # A kernel there is [in, out], here [out, in].
            weights[_renamed(name)] = value.t().contiguous() if name.endswith("/kernel") else value
        return weights
    except InputError:
        raise
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise InputError(f"{prefix}.index: damaged: {reason}; copy its files again [E-HUB-WEIGHTS]") from error


def _check(prefix: Path, names: list[str], kinds: dict[str, str], shapes: dict[str, list[int]]) -> None:
    """Refuse what is no checkpoint of weights, before memory is taken for it."""
    if any(_OBJECTS in name for name in names):
        message = f"{prefix}.index: a checkpoint of TensorFlow 2 objects, expected one of TensorFlow 1"
        raise InputError(f"{message}; save the model as Transformers does [E-HUB-WEIGHTS]")
    other = next((name for name in names if kinds[name] not in _SIZES), None)
    if other is not None:
        reason = f"{ascii(other)[:80]} is of {kinds[other]}, expected one of: {', '.join(_SIZES)}"
        raise InputError(f"{prefix}.index: {reason}; give a checkpoint of weights alone [E-HUB-WEIGHTS]")
    there = sum(path.stat().st_size for path in prefix.parent.glob(f"{prefix.name}.data-*"))
    claimed = sum(torch.Size(shapes[name]).numel() * _SIZES[kinds[name]] for name in names)
    if claimed > there:
        message = f"{prefix}.index: claims {claimed} bytes, its data files have {there}"
        raise InputError(f"{message}; copy its files again [E-HUB-WEIGHTS]")


def _renamed(name: str) -> str:
    """Theirs for `bert/encoder/layer_0/attention/self/query/kernel` is `bert.encoder.layer.0.attention.self.query.weight`."""
    name = re.sub(r"/layer_(\d+)/", r"/layer/\1/", name)
    parts = name.split("/")
    if parts[-1].endswith("_embeddings"):
        parts.append("weight")
    last = {"kernel": "weight", "gamma": "weight", "beta": "bias", "output_weights": "weight", "output_bias": "bias"}
    return ".".join([*parts[:-1], last.get(parts[-1], parts[-1])])
