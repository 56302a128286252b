"""Which of our tensors is which of Transformers', one by one, for both architectures and both ways.

Shapes: D hidden size, N heads, H features per head, V vocabulary size.

Theirs are `BertForPreTraining` and `ModernBertForMaskedLM`. What differs: theirs has queries, keys and values apart for BERT;
next-sentence class 0 is "is next" there, 1 here; token types 0 and 1 are our segments 1 and 2, row 0 of ours is padding and
zero; and ModernBERT's rotary positions pair features j and j + H / 2 of a head there, 2 j and 2 j + 1 here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

_BERT = {
    "bert.embedding.token.weight": "bert.embeddings.word_embeddings.weight",
    "bert.embedding.position.weight": "bert.embeddings.position_embeddings.weight",
    "bert.embedding.norm.weight": "bert.embeddings.LayerNorm.weight",
    "bert.embedding.norm.bias": "bert.embeddings.LayerNorm.bias",
    "next_sentence.pooler.weight": "bert.pooler.dense.weight",
    "next_sentence.pooler.bias": "bert.pooler.dense.bias",
    "mask_lm.transform.weight": "cls.predictions.transform.dense.weight",
    "mask_lm.transform.bias": "cls.predictions.transform.dense.bias",
    "mask_lm.norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "mask_lm.norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "mask_lm.decoder.bias": "cls.predictions.bias",
}
_BERT_BLOCK = {
    "attention.output_linear": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.w_1": "intermediate.dense",
    "feed_forward.w_2": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_MODERN = {
    "bert.embedding.token.weight": "model.embeddings.tok_embeddings.weight",
    "bert.embedding.norm.weight": "model.embeddings.norm.weight",
    "bert.final_norm.weight": "model.final_norm.weight",
    "mask_lm.transform.weight": "head.dense.weight",
    "mask_lm.norm.weight": "head.norm.weight",
    "mask_lm.decoder.bias": "decoder.bias",
}
_MODERN_BLOCK = {
    "attention_norm": "attn_norm",
    "attention.output_linear": "attn.Wo",
    "feed_forward_norm": "mlp_norm",
    "feed_forward.w_1": "mlp.Wi",
    "feed_forward.w_2": "mlp.Wo",
}
TIED = {"mask_lm.decoder.weight": "bert.embedding.token.weight"}
"""Our second names of one tensor."""
THEIR_TIED = {
    "bert": {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    },
    "modernbert": {"decoder.weight": "model.embeddings.tok_embeddings.weight"},
}
"""Their second names of one tensor, by architecture."""
_PREFIXES = {
    "bert": ("bert.", ("embeddings.", "encoder.", "pooler.")),
    "modernbert": ("model.", ("embeddings.", "layers.", "final_norm.")),
}


class Link(NamedTuple):
    """One of our tensors, and those of theirs that it is."""

    ours: str
    theirs: tuple[str, ...]
    to_theirs: Callable[[Tensor], Sequence[Tensor]]
    to_ours: Callable[[Sequence[Tensor]], Tensor]


def links_of(architecture: str, n_layers: int, attn_heads: int) -> list[Link]:
    """The links of all tensors that both sides have.

    Args:
        architecture: `"bert"` or `"modernbert"`.
        n_layers: Number of blocks.
        attn_heads: Number of attention heads, N.
    """
    blocks = range(n_layers)
    if architecture == "modernbert":
        same = dict(_MODERN)
        for i in blocks:
            names = {f"{our}.weight": f"{their}.weight" for our, their in _MODERN_BLOCK.items() if i or our != "attention_norm"}
            same |= {f"bert.transformer_blocks.{i}.{our}": f"model.layers.{i}.{their}" for our, their in names.items()}
        to_theirs = partial(_paired_by_halves, attn_heads=attn_heads)
        to_ours = partial(_paired_by_neighbours, attn_heads=attn_heads)
        projections = [
            Link(
                f"bert.transformer_blocks.{i}.attention.qkv_linear.weight",
                (f"model.layers.{i}.attn.Wqkv.weight",),
                to_theirs,
                to_ours,
            )
            for i in blocks
        ]
        return [*(_same(*names) for names in same.items()), *projections]
    same, kinds = dict(_BERT), ("weight", "bias")
    for i in blocks:
        names = {f"{our}.{kind}": f"{their}.{kind}" for our, their in _BERT_BLOCK.items() for kind in kinds}
        same |= {f"bert.transformer_blocks.{i}.{our}": f"bert.encoder.layer.{i}.{their}" for our, their in names.items()}
    projections = [
        Link(
            f"bert.transformer_blocks.{i}.attention.qkv_linear.{kind}",
            tuple(f"bert.encoder.layer.{i}.attention.self.{name}.{kind}" for name in ("query", "key", "value")),
            _in_three,
            _in_one,
        )
        for i in blocks
        for kind in kinds
    ]
    types = Link(
        "bert.embedding.segment.weight", ("bert.embeddings.token_type_embeddings.weight",), _without_padding, _with_padding
    )
    answers = [Link(f"next_sentence.linear.{kind}", (f"cls.seq_relationship.{kind}",), _flipped, _flip_back) for kind in kinds]
    return [*(_same(*names) for names in same.items()), *projections, types, *answers]


def to_hub(state: Mapping[str, Tensor], links: Sequence[Link]) -> dict[str, Tensor]:
    """Our state dict under their names."""
    theirs: dict[str, Tensor] = {}
    for link in links:
        theirs |= zip(link.theirs, link.to_theirs(state[link.ours]), strict=True)
    return theirs


def from_hub(theirs: Mapping[str, Tensor], links: Sequence[Link]) -> dict[str, Tensor]:
    """Their tensors under our names, those that are there whole."""
    return {
        link.ours: link.to_ours([theirs[name] for name in link.theirs])
        for link in links
        if all(name in theirs for name in link.theirs)
    }


def canonical(name: str, architecture: str) -> str:
    """The name of a tensor as a whole model has it: encoders alone lack its prefix, old files call norms gamma and beta."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        name = name.removesuffix(old) + new if name.endswith(old) else name
    prefix, starts = _PREFIXES[architecture]
    return prefix + name if name.startswith(starts) else name


def _same(ours: str, theirs: str) -> Link:
    return Link(ours, (theirs,), lambda value: (value,), lambda values: values[0])


def _in_three(value: Tensor) -> Sequence[Tensor]:
    return value.chunk(3)


def _in_one(values: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(values))


def _without_padding(value: Tensor) -> Sequence[Tensor]:
    return (value[1:],)


def _with_padding(values: Sequence[Tensor]) -> Tensor:
    # A model that knows one kind of text gives both segments its vector.
    rows = values[0][:2] if len(values[0]) > 1 else values[0][:1].repeat(2, 1)
    return torch.cat([torch.zeros_like(rows[:1]), rows])


def _flipped(value: Tensor) -> Sequence[Tensor]:
    return (value.flip(0),)


def _flip_back(values: Sequence[Tensor]) -> Tensor:
    return values[0].flip(0)


def _paired_by_halves(value: Tensor, attn_heads: int) -> Sequence[Tensor]:
    q, k, v = value.unflatten(0, (3, attn_heads, -1, 2))
    turned = [each.transpose(1, 2).reshape(-1, value.size(1)) for each in (q, k)]
    return (torch.cat([*turned, v.reshape(-1, value.size(1))]),)


def _paired_by_neighbours(values: Sequence[Tensor], attn_heads: int) -> Tensor:
    value = values[0]
    q, k, v = value.unflatten(0, (3, attn_heads, 2, -1))
    turned = [each.transpose(1, 2).reshape(-1, value.size(1)) for each in (q, k)]
    return torch.cat([*turned, v.reshape(-1, value.size(1))])
