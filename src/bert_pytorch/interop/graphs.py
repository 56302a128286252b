"""Models as graphs that run without this library: ONNX and TorchScript, and weights alone under our names.

A graph takes `input_ids` and `segment_ids` `[B, L]` int64, our ids and segments 1, 2, 0, and gives `hidden` `[B, L, D]`,
`next_sentence` `[B, 2]` and `words` `[B, L, V]`, or the first alone. B and L are free, L up to `max_len`.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..extras import import_extra
from ..files import atomic_write
from ..model import BERTLM
from .tensors import TIED
from .weights import write_safetensors

INPUTS, OUTPUTS = ("input_ids", "segment_ids"), ("hidden", "next_sentence", "words")
_LONGER_THAN_LOCAL = 80
"""Tokens of the example that is recorded: more than a local layer of ModernBERT sees, or its reach would go unrecorded."""
_OF_TEST = ((1, 5), (2, 17), (3, 70))
_FARTHEST = 1e-4


class _Graph(nn.Module):
    """What is recorded."""

    def __init__(self, model: BERTLM, with_heads: bool) -> None:
        super().__init__()
        self.model, self.with_heads = model, with_heads

    def forward(self, input_ids: Tensor, segment_ids: Tensor) -> tuple[Tensor, ...]:
        """See the module's docstring."""
        hidden_BLD = self.model.bert(input_ids, segment_ids, has_padding=True)
        if not self.with_heads:
            return (hidden_BLD,)
        return hidden_BLD, self.model.next_sentence(hidden_BLD), self.model.mask_lm(hidden_BLD)


def export_tensors(model: BERTLM, path: str | os.PathLike[str]) -> None:
    """Write the weights under our names, and the sizes beside them as `PATH.json`.

    Raises:
        SaveError: A file cannot be written.
    """
    write_safetensors(path, {name: value for name, value in model.state_dict().items() if name not in _aliases(model)})
    with atomic_write(f"{os.fspath(path)}.json") as file:
        file.write(json.dumps(model.bert.config, indent=2).encode("ascii") + b"\n")


def export_torchscript(model: BERTLM, path: str | os.PathLike[str], with_heads: bool = True) -> float:
    """Write a TorchScript file; the largest difference of its outputs to ours.

    Args:
        model: On the CPU, in evaluation mode.
        path: The file.
        with_heads: Give next sentence and words too.

    Raises:
        InputError: What it gives is not what the model gives.
        SaveError: The file cannot be written.
    """
    graph = _Graph(model, with_heads).eval()
    with torch.inference_mode(), warnings.catch_warnings():
        # Torch warns of each size that is looked at, and that its successor is torch.export, whose files need torch itself too.
        warnings.simplefilter("ignore")
        traced: Any = torch.jit.trace(graph, _example(model, 2, _longest(model)), check_trace=False)
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, "graph.pt")
            traced.save(name)
            content = Path(name).read_bytes()
            loaded = torch.jit.load(name)
            farthest = _compare(model, graph, lambda batch: loaded(*batch), path)
    with atomic_write(path) as file:
        file.write(content)
    return farthest


def export_onnx(model: BERTLM, path: str | os.PathLike[str], with_heads: bool = True) -> float:
    """Write an ONNX file, and compare it with the model as onnxruntime runs it; the largest difference.

    Args:
        model: On the CPU, in evaluation mode, with 32 bits a weight.
        path: The file.
        with_heads: Give next sentence and words too.

    Raises:
        InputError: It is off by more than 1e-4.
        UnavailableError: A package is not installed.
        SaveError: The file cannot be written.
    """
    for module in ("onnx", "onnxscript"):
        import_extra(module, module)
    runtime = import_extra("onnxruntime", "onnxruntime")
    graph, longest = _Graph(model, with_heads).eval(), _longest(model)
    free = {0: torch.export.Dim("batch", min=1, max=1 << 16), 1: torch.export.Dim("tokens", min=1, max=model.bert.max_len)}
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    names = list(OUTPUTS if with_heads else OUTPUTS[:1])
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = os.path.join(folder, "graph.onnx")
        with torch.no_grad():
            torch.onnx.export(
                graph,
                _example(model, 2, longest),
                name,
                dynamo=True,
                input_names=list(INPUTS),
                output_names=names,
                dynamic_shapes=dict.fromkeys(INPUTS, free),
                external_data=False,
                verbose=False,
            )
        content = Path(name).read_bytes()
        session = runtime.InferenceSession(name, providers=["CPUExecutionProvider"])

    def infer(batch: tuple[Tensor, Tensor]) -> list[Tensor]:
        found = session.run(names, {key: value.numpy() for key, value in zip(INPUTS, batch, strict=True)})
        return [torch.from_numpy(each) for each in found]

    farthest = _compare(model, graph, infer, path)
    with atomic_write(path) as file:
        file.write(content)
    return farthest


def _compare(
    model: BERTLM,
    graph: nn.Module,
    run: Callable[[tuple[Tensor, Tensor]], Sequence[Tensor]],
    path: str | os.PathLike[str],
) -> float:
    """The largest difference over batches of several shapes, padded ones among them."""
    farthest = 0.0
    with torch.inference_mode():
        for n_sequences, n_tokens in _OF_TEST:
            batch = _example(model, n_sequences, min(n_tokens, model.bert.max_len))
            real = batch[0] != 0
            for ours, theirs in zip(graph(*batch), run(batch), strict=True):
                difference = (ours - theirs).abs()
                farthest = max(farthest, float(difference[real].max() if ours.dim() == 3 else difference.max()))
    if not farthest <= _FARTHEST:
        message = f"{path}: its outputs differ by {farthest:.1e}, expected at most {_FARTHEST:.0e}; nothing was written"
        raise InputError(f"{message}, report it with the versions of torch and onnxruntime [E-EXPORT-DIFFERS]")
    return farthest


def _example(model: BERTLM, n_sequences: int, n_tokens: int) -> tuple[Tensor, Tensor]:
    """A batch with padding in its last row."""
    generator = torch.Generator().manual_seed(n_tokens)
    x_BL = torch.randint(1, model.bert.vocab_size, (n_sequences, n_tokens), generator=generator)
    segments_BL = torch.ones_like(x_BL)
    segments_BL[:, n_tokens // 2 :] = 2
    if n_sequences > 1:
        x_BL[-1, -(n_tokens // 3) :] = segments_BL[-1, -(n_tokens // 3) :] = 0
    return x_BL, segments_BL


def _longest(model: BERTLM) -> int:
    return min(_LONGER_THAN_LOCAL, model.bert.max_len)


def _aliases(model: BERTLM) -> set[str]:
    """Second names; the architecture of 0.0.1a4 has none."""
    state = model.state_dict()
    return {alias for alias, name in TIED.items() if state[alias].data_ptr() == state[name].data_ptr()}
