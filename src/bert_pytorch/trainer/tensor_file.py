"""Files of named tensors, in the layout of safetensors: nothing in them can be executed, and other programs read them.

Eight bytes with the length of a header, the header in JSON - type, shape and place of each tensor - and the numbers.

Source: the format description of https://github.com/huggingface/safetensors; written here, as training needs only torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import torch
from torch import Tensor

from ..dataset.encoded_file import write_tensor
from ..errors import InputError
from ..files import Writable

_TYPES = {
    **{"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool},
    **{"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8},
}
_NAMES = {kind: name for name, kind in _TYPES.items()}
_MOST_HEADER = 100_000_000
_SHARED = "shared"
"""In the header's own words: names that stand for a tensor written under another name, as tied weights do."""
_PLACES = "DCP_SHARDING_INFO"
"""There, of torch.distributed.checkpoint: where in the whole tensor a part begins."""


def write_tensors(file: Writable, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, one that has two names once.

    Args:
        file: Where to, from its beginning.
        tensors: By name; on any device.

    Raises:
        OSError: The disk is full, for instance.
    """
    header: dict[str, object] = {}
    shared: dict[str, str] = {}
    seen: dict[tuple[object, ...], str] = {}
    end = 0
    for name, value in tensors.items():
        place = (str(value.device), value.data_ptr(), value.shape, value.stride(), value.dtype)
        if value.numel() and place in seen:
            shared[name] = seen[place]
            continue
        seen[place] = name
        begin, end = end, end + value.numel() * value.element_size()
        header[name] = {"dtype": _NAMES[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
    if shared:
        header["__metadata__"] = {_SHARED: json.dumps(shared)}
    content = json.dumps(header).encode("ascii")
    content += b" " * (-len(content) % 8)
    file.write(len(content).to_bytes(8, "little") + content)
    for name in tensors:
        if name in header:
            write_tensor(file, tensors[name].detach().cpu())


def tensors_of(content: bytearray, path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors that the bytes of a file hold, in CPU memory of their own.

    Raises:
        InputError: The file is damaged; the message names `path` and says where.
    """
    return parts_of(content, path)[0]


def parts_of(content: bytearray, path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
    """As `tensors_of`, and where in the whole tensor each begins, of those that are parts of one.

    Raises:
        InputError: As `tensors_of`.
    """
    try:
        return _parse(content)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        reason = f"{path}: damaged: {type(error).__name__}: {error}"
        raise InputError(f"{reason}; use an earlier checkpoint [E-CHECKPOINT-DAMAGED]") from error


def _parse(content: bytearray) -> tuple[dict[str, Tensor], dict[str, list[int]]]:
    size = int.from_bytes(content[:8], "little")
    if len(content) < 8 or size > min(_MOST_HEADER, len(content) - 8):
        raise ValueError("cut off within its header")
    header = json.loads(content[8 : 8 + size])
    words = header.pop("__metadata__", {})
    shared, places = (json.loads(words.get(name, "{}")) for name in (_SHARED, _PLACES))
    tensors = {}
    for name, entry in header.items():
        kind, (begin, end) = _TYPES[entry["dtype"]], entry["data_offsets"]
        shape = torch.Size(entry["shape"])
        if not 0 <= begin <= end <= len(content) - 8 - size or end - begin != shape.numel() * kind.itemsize:
            raise ValueError(f"{name} does not fit into the file")
        # A copy of its own, so that no tensor holds the memory of all others, and all lie where arithmetic likes them.
        flat = torch.empty(shape.numel(), dtype=kind)
        if len(flat):
            flat.copy_(torch.frombuffer(content, dtype=kind, count=len(flat), offset=8 + size + begin))
        tensors[name] = flat.view(shape)
    offsets = {name: [int(begin) for begin in place["saved_offsets"]] for name, place in places.items()}
    return {**tensors, **{alias: tensors[name] for alias, name in shared.items()}}, offsets
