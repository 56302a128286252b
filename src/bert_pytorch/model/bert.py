"""The encoder: embedding and a stack of transformer blocks.

Shapes: B sequences, L tokens per sequence, D hidden size, P places.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..errors import InputError
from .embedding import BERTEmbedding, WordEmbedding
from .original import OriginalBlock, SinusoidEmbedding
from .rotation import rotation_of
from .transformer import PreNormBlock, TransformerBlock, init_weights

ARCHITECTURES = ("bert", "modernbert", "bert-pytorch")

_GLOBAL_EVERY = 3
_LOCAL_REACH = 64
_GLOBAL_BASE, _LOCAL_BASE = 160_000.0, 10_000.0
"""ModernBERT: each third layer looks at the whole sequence, the others 64 tokens to either side; each has its rotary base."""


View = tuple[Tensor | None, Tensor | None]
"""What a layer's attention is given: mask and rotation."""


class BERT(nn.Module):
    """Bidirectional encoder representations from transformers.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3; for `"modernbert"` Warner et al. 2024 (arXiv 2412.13663).

    Attributes:
        gradient_checkpointing: Keep only each block's input while training and compute the rest again on the way back: the
            same numbers for a third more work and a fraction of the memory.
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
        feed_forward_hidden: int | None = None,
    ) -> None:
        """Build the model with new weights.

        Args:
            vocab_size: Number of token ids; id 0 is padding.
            hidden: Hidden size D; any positive multiple of `attn_heads`, odd numbers too.
            n_layers: Number of transformer blocks.
            attn_heads: Number of attention heads per block.
            dropout: Probability used by every dropout of the model, in [0, 1); 0.0 means none anywhere.
            max_len: Longest sequence, in tokens.
            architecture: `"bert"`: post-norm, learned positions, exact GELU, as released with the paper. `"modernbert"`:
                pre-norm, rotary positions, gated GELU, no biases; two of three layers see 64 tokens to either side; it has no
                segments, and heads have an even number of features. `"bert-pytorch"`: what 0.0.1a4 had, for its old files.
            feed_forward_hidden: Feed-forward size; None: 4 x hidden, or 1.5 x hidden for `"modernbert"`, as released.

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
        self.gradient_checkpointing = False
        self._own_feed_forward = feed_forward_hidden
        _check_sizes(self.config)
        usual = -(-3 * hidden // 2) if architecture == "modernbert" else 4 * hidden
        self.feed_forward_hidden = feed_forward_hidden or usual
        sizes = hidden, attn_heads, self.feed_forward_hidden, dropout
        if architecture == "modernbert":
            self.embedding = WordEmbedding(vocab_size, hidden, dropout)
            blocks = [PreNormBlock(*sizes, is_first=i == 0) for i in range(n_layers)]
        elif architecture == "bert-pytorch":
            self.embedding = SinusoidEmbedding(vocab_size, hidden, dropout, max_len)
            blocks = [OriginalBlock(*sizes) for _ in range(n_layers)]
        else:
            self.embedding = BERTEmbedding(vocab_size, hidden, dropout, max_len)
            blocks = [TransformerBlock(*sizes) for _ in range(n_layers)]
        self.transformer_blocks = nn.ModuleList(blocks)
        # A post-norm block has normalised what it returns.
        self.final_norm = nn.LayerNorm(hidden, eps=1e-5, bias=False) if architecture == "modernbert" else nn.Identity()
        self.apply(init_weights)
        if architecture == "modernbert":
            self._scale_outputs()

    @property
    def config(self) -> dict[str, int | float | str]:
        """The constructor's arguments: `BERT(**bert.config)` is an equal model with new weights."""
        config: dict[str, int | float | str] = {
            "vocab_size": self.vocab_size,
            "hidden": self.hidden,
            "n_layers": self.n_layers,
            "attn_heads": self.attn_heads,
            "dropout": self.dropout,
            "max_len": self.max_len,
            "architecture": self.architecture,
        }
        if self._own_feed_forward is not None:
            config["feed_forward_hidden"] = self._own_feed_forward
        return config

    def forward(
        self,
        x: Tensor,
        segment_info: Tensor,
        example: Tensor | None = None,
        places: Tensor | None = None,
        has_padding: bool | None = None,
    ) -> Tensor:
        """Encode a batch.

        Args:
            x: Token ids `[B, L]` int64; id 0 is padding and is never attended to.
            segment_info: Segments `[B, L]` int64: 1 first text, 2 second text, 0 padding.
            example: For rows that hold several examples: which of its row's a token belongs to `[B, L]` int64, from 1, 0 on
                padding. Each is encoded as if it stood alone: it attends to itself only, and its positions begin at 0.
            places: Which vectors are wanted, as numbers of the `B * L` places `[P]` int64; the last block then computes little
                else. None: all.
            has_padding: Whether `x` holds id 0, for callers that know; None: looked up on a CPU, supposed on a GPU, where
                the look would wait for all work before it.

        Returns:
            `[B, L, D]`, the encoded sequence before any head, or `[P, D]`. Vectors at padding carry no meaning.

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
        mask = _mask(x, example, has_padding)
        positions = None if example is None else positions_within(example)
        if isinstance(self.embedding, (BERTEmbedding, SinusoidEmbedding)):
            hidden_BLD = self.embedding(x, segment_info, positions)
            views: list[View] = [(mask, None)]
        else:
            hidden_BLD = self.embedding(x)
            views = self._views(mask, torch.arange(x.size(1), device=x.device) if positions is None else positions)
        return self._encode(hidden_BLD, views, places)

    @classmethod
    def from_pretrained(cls, folder: str | os.PathLike[str]) -> BERT:
        """The encoder of a hub-style folder (`interop/huggingface.py`) or of a checkpoint, in evaluation mode.

        Raises:
            InputError: It cannot be read, or is of another graph.
        """
        # Reading files stands above models; only this name, that of Transformers, points up to it.
        from ..interop.huggingface import load_any

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*begin anew")  # Heads are not asked for.
            return load_any(folder).bert

    def compile_blocks(self, backend: str | None = None) -> None:
        """Let `torch.compile` translate the blocks; they keep their names, so checkpoints are the same.

        All blocks share one translation, which holds for batches of any size; it takes seconds to minutes at the first step.

        Args:
            backend: Of `torch.compile`; None: inductor, which needs a C++ compiler on a CPU.
        """
        for block in self.transformer_blocks:
            block.compile(dynamic=True, backend=backend or "inductor")

    def _views(self, mask: Tensor | None, positions: Tensor) -> list[View]:
        """What a global layer, and what those after it, let a query see, and how they turn it."""
        n_features, dtype = self.hidden // self.attn_heads, self.embedding.token.weight.dtype
        near = mask
        if positions.size(-1) > _LOCAL_REACH + 1:
            # Within an example, distances along the row are those of positions.
            place_L = torch.arange(positions.size(-1), device=positions.device)
            near_LL = (place_L[:, None] - place_L).abs() <= _LOCAL_REACH
            near = near_LL if mask is None else near_LL & mask
        local = near, rotation_of(positions, n_features, _LOCAL_BASE, dtype)
        return [(mask, rotation_of(positions, n_features, _GLOBAL_BASE, dtype)), *[local] * (_GLOBAL_EVERY - 1)]

    def _encode(self, hidden_BLD: Tensor, views: Sequence[View], places: Tensor | None) -> Tensor:
        for i, block in enumerate(self.transformer_blocks):
            inputs = hidden_BLD, *views[i % len(views)], places if i == self.n_layers - 1 else None
            if self.gradient_checkpointing and self.training and torch.is_grad_enabled():
                hidden_BLD = checkpoint(block, *inputs, use_reentrant=False)
            else:
                hidden_BLD = block(*inputs)
        return self.final_norm(hidden_BLD)

    @torch.no_grad()
    def _scale_outputs(self) -> None:
        """Start what is added to the residual stream the smaller, the more there is of it."""
        for block in self.transformer_blocks:
            for name in ("attention.output_linear.weight", "feed_forward.w_2.weight"):
                block.get_parameter(name).div_((2 * self.n_layers) ** 0.5)


def _mask(x: Tensor, example: Tensor | None, has_padding: bool | None) -> Tensor | None:
    """Which keys a query may look at, to broadcast to `[B, N, L, L]`; None: all, for which attention is fastest."""
    if example is not None:
        return example[:, None, :, None] == example[:, None, None, :]
    if has_padding is False:
        return None
    is_token_BL = x != 0
    # A row of nothing but padding attends to itself: softmax over no key at all would be undefined.
    mask_B11L = (is_token_BL | ~is_token_BL.any(-1, keepdim=True))[:, None, None, :]
    return None if has_padding is None and x.device.type == "cpu" and bool(mask_B11L.all()) else mask_B11L


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
    for name in ("vocab_size", "hidden", "n_layers", "attn_heads", "max_len", "feed_forward_hidden"):
        if int(config.get(name, 1)) < 1:
            raise InputError(f"BERT: {name} is {config[name]}, expected at least 1 [E-MODEL-SIZE]")
    hidden, attn_heads = int(config["hidden"]), int(config["attn_heads"])
    is_rotary = config["architecture"] == "modernbert"
    multiple = attn_heads * (2 if is_rotary else 1)
    if hidden % multiple:
        nearest = max(multiple, round(hidden / multiple) * multiple)
        twice = ", twice as rotary positions pair the features of a head" if is_rotary else ""
        raise InputError(
            f"BERT: hidden {hidden} is not a multiple of attn_heads {attn_heads}{twice}; use hidden {nearest} or other heads "
            "[E-MODEL-HEADS]"
        )
    if not 0.0 <= float(config["dropout"]) < 1.0:
        raise InputError(f"BERT: dropout is {config['dropout']}, expected at least 0 and below 1 [E-MODEL-SIZE]")
