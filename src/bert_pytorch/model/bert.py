"""The encoder: embedding and a stack of transformer blocks.

Shapes: B sequences, L tokens per sequence, D hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import InputError
from .embedding import BERTEmbedding
from .transformer import TransformerBlock, init_weights

ARCHITECTURES = ("bert",)


class BERT(nn.Module):
    """Bidirectional encoder representations from transformers.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden: int = 768,
        n_layers: int = 12,
        attn_heads: int = 12,
        dropout: float = 0.1,
        *,
        max_len: int = 512,
        architecture: str = "bert",
    ) -> None:
        """Build the model with new weights.

        Args:
            vocab_size: Number of token ids; id 0 is padding.
            hidden: Hidden size D; any positive multiple of `attn_heads`, odd numbers too.
            n_layers: Number of transformer blocks.
            attn_heads: Number of attention heads per block.
            dropout: Probability used by every dropout of the model, in [0, 1); 0.0 means none anywhere.
            max_len: Longest sequence, in tokens.
            architecture: `"bert"`: post-norm, learned positions, exact GELU, as released with the paper.

        Raises:
            InputError: A size is not positive, `hidden` is no multiple of `attn_heads`, or the architecture is unknown.
        """
        super().__init__()
        self.vocab_size = vocab_size
        self.hidden = hidden
        self.n_layers = n_layers
        self.attn_heads = attn_heads
        self.dropout = dropout
        self.max_len = max_len
        self.architecture = architecture
        _check_sizes(self.config)
        self.feed_forward_hidden = 4 * hidden
        self.embedding = BERTEmbedding(vocab_size, hidden, dropout, max_len)
        self.transformer_blocks = nn.ModuleList(
            TransformerBlock(hidden, attn_heads, self.feed_forward_hidden, dropout) for _ in range(n_layers)
        )
        self.apply(init_weights)

    @property
    def config(self) -> dict[str, int | float | str]:
        """The constructor's arguments: `BERT(**bert.config)` is an equal model with new weights."""
        return {
            "vocab_size": self.vocab_size,
            "hidden": self.hidden,
            "n_layers": self.n_layers,
            "attn_heads": self.attn_heads,
            "dropout": self.dropout,
            "max_len": self.max_len,
            "architecture": self.architecture,
        }

    def forward(self, x: Tensor, segment_info: Tensor, example: Tensor | None = None) -> Tensor:
        """Encode a batch.

        Args:
            x: Token ids `[B, L]` int64; id 0 is padding and is never attended to.
            segment_info: Segments `[B, L]` int64: 1 first text, 2 second text, 0 padding.
            example: For rows that hold several examples: which of its row's a token belongs to `[B, L]` int64, from 1, 0 on
                padding. Each is encoded as if it stood alone: it attends to itself only, and its positions begin at 0.

        Returns:
            `[B, L, D]`, the encoded sequence before any head. Vectors at padding carry no meaning.

        Raises:
            InputError: The sequences are longer than `max_len`, or the two shapes differ or are not `[B, L]`.
        """
        if x.dim() != 2 or x.shape != segment_info.shape:
            shapes = f"{list(x.shape)} and {list(segment_info.shape)}"
            raise InputError(f"BERT.forward: expected two tensors of one shape [B, L], got {shapes} [E-MODEL-SHAPE]")
        if x.size(1) > self.max_len:
            raise InputError(
                f"BERT.forward: sequences of {x.size(1)} tokens, expected at most {self.max_len}; "
                f"shorten them or build BERT(..., max_len={x.size(1)}) [E-MODEL-LENGTH]"
            )
        if example is not None:
            mask, positions_BL = example[:, None, :, None] == example[:, None, None, :], positions_within(example)
            return self._encode(self.embedding(x, segment_info, positions_BL), mask)
        is_token_BL = x != 0
        # A row of nothing but padding attends to itself: softmax over no key at all would be undefined.
        mask_B11L = (is_token_BL | ~is_token_BL.any(-1, keepdim=True))[:, None, None, :]
        # Without padding the unmasked kernel is faster; the look is free on the CPU and would stall a GPU.
        mask = None if x.device.type == "cpu" and bool(mask_B11L.all()) else mask_B11L
        return self._encode(self.embedding(x, segment_info), mask)

    def _encode(self, hidden_BLD: Tensor, mask: Tensor | None) -> Tensor:
        for block in self.transformer_blocks:
            hidden_BLD = block(hidden_BLD, mask)
        return hidden_BLD


def starts_of(example: Tensor) -> Tensor:
    """Where a row's examples begin, padding counted as one: booleans `[B, L]`, from the numbers that `BERT.forward` takes."""
    return example.diff(dim=1, prepend=torch.full_like(example[:, :1], -1)) != 0


def positions_within(example: Tensor) -> Tensor:
    """The place of each token within its example, from 0: `[B, L]` int64."""
    places_L = torch.arange(example.size(1), device=example.device)
    return places_L - (places_L * starts_of(example)).cummax(1).values


def _check_sizes(config: dict[str, int | float | str]) -> None:
    if config["architecture"] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise InputError(f"BERT: architecture {config['architecture']!r}, expected one of: {known} [E-MODEL-ARCHITECTURE]")
    for name in ("vocab_size", "hidden", "n_layers", "attn_heads", "max_len"):
        if int(config[name]) < 1:
            raise InputError(f"BERT: {name} is {config[name]}, expected at least 1 [E-MODEL-SIZE]")
    hidden, attn_heads = int(config["hidden"]), int(config["attn_heads"])
    if hidden % attn_heads:
        nearest = max(attn_heads, round(hidden / attn_heads) * attn_heads)
        raise InputError(
            f"BERT: hidden {hidden} is not a multiple of attn_heads {attn_heads}; use hidden {nearest} or other heads "
            "[E-MODEL-HEADS]"
        )
    if not 0.0 <= float(config["dropout"]) < 1.0:
        raise InputError(f"BERT: dropout is {config['dropout']}, expected at least 0 and below 1 [E-MODEL-SIZE]")
