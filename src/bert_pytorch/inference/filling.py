"""The likeliest words at the masks of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..dataset.vocab import Vocab
from ..errors import InputError
from ..model import BERTLM

MASK = re.compile(r"<mask>|\[MASK\]")


class Choice(NamedTuple):
    """A word that may stand at a mask."""

    token: str
    id: int
    probability: float


def fill_mask(model: BERTLM, vocab: Vocab, text: str, top_k: int = 5) -> list[list[Choice]]:
    """The `top_k` likeliest entries of the vocabulary for each mask of a text, likeliest first.

    Args:
        model: In evaluation mode.
        vocab: Its vocabulary.
        text: With `<mask>` or `[MASK]` where words are wanted, each predicted alone. Texts of a pair are parted by a tab.
        top_k: At most the size of the vocabulary.

    Raises:
        InputError: There is no mask, or the text is longer than the model takes.
    """
    if not MASK.search(text):
        raise InputError(f"fill_mask: no <mask> in the text {text[:40]!a}; put one where a word is wanted [E-INFER-MASK]")
    ids, segments = [vocab.sos_index], [1]
    for number, part in enumerate(text.split("\t")[:2], start=1):
        seq = [*masked_ids(vocab, part), vocab.eos_index]
        ids, segments = ids + seq, segments + [number] * len(seq)
    if len(ids) > model.bert.max_len:
        raise InputError(
            f"fill_mask: {len(ids)} tokens, expected at most {model.bert.max_len}; shorten the text [E-MODEL-LENGTH]"
        )
    device = model.bert.embedding.token.weight.device
    x_1L, segments_1L = (torch.tensor([each], device=device) for each in (ids, segments))
    places_M = (x_1L[0] == vocab.mask_index).nonzero()[:, 0]
    with torch.inference_mode():
        log_probabilities_MV = model.mask_lm(model.bert(x_1L, segments_1L, places=places_M))
    top = log_probabilities_MV.float().exp().topk(min(top_k, len(vocab)))
    return [
        [Choice(vocab.itos[i], i, p) for i, p in zip(row, values, strict=True)]
        for row, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    ]


def masked_ids(vocab: Vocab, text: str) -> list[int]:
    """The ids of a text, masks as the special id whatever the vocabulary makes of their name."""
    parts: Sequence[str] = MASK.split(text)
    ids = vocab.to_seq(parts[0])
    for part in parts[1:]:
        ids = [*ids, vocab.mask_index, *vocab.to_seq(part)]
    return ids
