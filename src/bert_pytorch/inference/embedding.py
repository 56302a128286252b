"""Vectors of texts: the encoder's output at some layer, pooled over the real tokens.

Shapes: B sequences, L tokens per sequence, D hidden size, n texts.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..dataset.vocab import Vocab
from ..errors import InputError
from ..model import BERT
from .batches import by_length, pad, run_over
from .loading import to_ids

POOLINGS = ("mean", "cls", "max")
TOKENS_PER_BATCH = 512
"""Few, so that what a block computes stays in a core's caches: with hidden 384, one thread took 0.85 s with 512 tokens, 0.93 s
with 1,024, 1.19 s with 2,048 and 1.42 s with 4,096 for the same lines."""


class Embedder:
    """Turns texts into vectors.

    Attributes:
        n_cut: Texts so far that were longer than `max_tokens` and lost their ends.
        n_tokens: Tokens so far, markers included.
    """

    def __init__(
        self,
        bert: BERT,
        vocab: Vocab,
        pooling: str = "mean",
        layer: int = -1,
        normalize: bool = False,
        max_tokens: int | None = None,
        tokens_per_batch: int = TOKENS_PER_BATCH,
    ) -> None:
        """Choose the vectors.

        Args:
            bert: The encoder, in evaluation mode, on the device to use.
            vocab: Its vocabulary.
            pooling: `mean` and `max` over all real tokens, markers included, as sentence-transformers does; `cls`: the first.
            layer: After which layer: 1 is the first, 0 the embedding, -1 the last.
            normalize: Bring every vector to length 1.
            max_tokens: Longer texts are cut, and counted; None: the encoder's longest.
            tokens_per_batch: Tokens computed at a time, padding included.

        Raises:
            InputError: There is no such pooling, layer or length.
        """
        if pooling not in POOLINGS:
            raise InputError(f"Embedder: pooling {pooling!r}, expected one of: {', '.join(POOLINGS)} [E-INFER-SETTING]")
        most = bert.max_len if max_tokens is None else max_tokens
        if not 3 <= most <= bert.max_len:
            raise InputError(f"Embedder: max_tokens is {most}, expected 3 to {bert.max_len} [E-INFER-SETTING]")
        self.bert = up_to_layer(bert, layer)
        self.vocab, self.pooling, self.normalize = vocab, pooling, normalize
        self.max_tokens, self.tokens_per_batch = most, tokens_per_batch
        self.n_cut = self.n_tokens = 0

    def __call__(self, texts: Sequence[str]) -> Tensor:
        """The vectors `[n, D]` of texts, on the CPU, 32 bits a number."""
        seqs, n_cut = to_ids(self.vocab, texts, self.max_tokens)
        self.n_cut += n_cut
        self.n_tokens += sum(map(len, seqs))
        vectors_nD = torch.empty(len(seqs), self.bert.hidden)
        device = self.bert.embedding.token.weight.device

        def work(batch: list[int]) -> None:
            x_BL = pad([seqs[i] for i in batch], device)
            vectors_nD[batch] = self._pooled(x_BL).float().cpu()

        run_over(by_length(list(map(len, seqs)), self.tokens_per_batch), work, device)
        return vectors_nD

    def _pooled(self, x_BL: Tensor) -> Tensor:
        real_BL = x_BL != 0
        segments_BL = real_BL.long()
        if self.pooling == "cls":
            places_B = torch.arange(len(x_BL), device=x_BL.device) * x_BL.size(1)
            pooled_BD = (
                self.bert(x_BL, segments_BL, places=places_B) if self.bert.n_layers else self.bert(x_BL, segments_BL)[:, 0]
            )
        else:
            hidden_BLD = self.bert(x_BL, segments_BL)
            if self.pooling == "max":
                pooled_BD = hidden_BLD.masked_fill(~real_BL[..., None], -torch.inf).amax(1)
            else:
                kept_BL = real_BL.to(hidden_BLD.dtype)
                pooled_BD = torch.bmm(kept_BL[:, None], hidden_BLD)[:, 0] / kept_BL.sum(1, keepdim=True)
        return F.normalize(pooled_BD, dim=-1) if self.normalize else pooled_BD


def up_to_layer(bert: BERT, layer: int) -> BERT:
    """An encoder that ends after a layer, on the same weights.

    Args:
        bert: The whole one.
        layer: 1 is the first, 0 the embedding alone; -1 is the last, -2 the one before.

    Raises:
        InputError: It has no such layer.
    """
    number = bert.n_layers + 1 + layer if layer < 0 else layer
    if not 0 <= number <= bert.n_layers:
        least = -bert.n_layers - 1
        raise InputError(f"layer is {layer}, expected {least} to {bert.n_layers} for this encoder [E-INFER-SETTING]")
    if number == bert.n_layers:
        return bert
    part = copy.copy(bert)
    part._modules = {**bert._modules, "transformer_blocks": bert.transformer_blocks[:number], "final_norm": nn.Identity()}
    part.n_layers = number
    return part
