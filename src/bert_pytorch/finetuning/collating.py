"""Features of unequal length as one batch.

Shapes: B sequences, L tokens per sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .features import IGNORED

HIDDEN = "is_hidden"
"""A key of features whose tokens are hidden already."""


class PaddingCollator:
    """Pads to the longest of a batch: ids with padding, labels of tokens with what no loss counts."""

    def __init__(self, pad_id: int, *, with_types: bool = True, multiple: int = 1) -> None:
        """Pad with this id.

        Args:
            pad_id: Id of padding.
            with_types: Whether the model takes `token_type_ids`.
            multiple: Lengths are multiples of this.
        """
        self.pad_id, self.with_types, self.multiple = pad_id, with_types, multiple

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Map B features to `input_ids`, `attention_mask`, `token_type_ids` `[B, L]` and their targets."""
        longest = max(len(feature["input_ids"]) for feature in features)
        length = -(-longest // self.multiple) * self.multiple
        batch = {
            "input_ids": self._rows(features, "input_ids", length, self.pad_id),
            "attention_mask": torch.tensor(
                [[1] * len(f["input_ids"]) + [0] * (length - len(f["input_ids"])) for f in features]
            ),
        }
        if self.with_types:
            batch["token_type_ids"] = self._rows(features, "token_type_ids", length, 0)
        for name in ("labels", "start_positions", "end_positions"):
            if name in features[0]:
                values = [feature[name] for feature in features]
                is_by_token = isinstance(values[0], list) and not isinstance(values[0][0], float)
                batch[name] = self._rows(features, name, length, IGNORED) if is_by_token else torch.tensor(values)
        return batch

    def _rows(self, features: Sequence[Mapping[str, Any]], name: str, length: int, filling: int) -> Tensor:
        return torch.tensor([feature[name] + [filling] * (length - len(feature[name])) for feature in features])


class MaskingCollator:
    """Hides tokens of a batch anew each time, for masked-lm: 80 % by the mask, 10 % by another token, 10 % left as they are.

    Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.1. Draws come from torch's global state, which a resumed run
    takes over.
    """

    def __init__(self, padding: PaddingCollator, mask_id: int, specials: Collection[int], n_ids: int, share: float) -> None:
        """Hide this share of the tokens that are no specials.

        Args:
            padding: Makes the batch.
            mask_id: Id of the mask.
            specials: Ids that are never hidden.
            n_ids: Number of ids, of which others are drawn.
            share: Probability of a token to be hidden.
        """
        self.padding, self.mask_id, self.n_ids, self.share = padding, mask_id, n_ids, share
        self.special_ids = torch.tensor(sorted(specials))

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """Map features to a batch; `labels` `[B, L]` hold the hidden tokens. Those of `fixed` stay as they are."""
        batch = self.padding(features)
        return batch if HIDDEN in features[0] else self.hide(batch)

    def hide(self, batch: dict[str, Tensor], generator: torch.Generator | None = None) -> dict[str, Tensor]:
        """Hide tokens of a batch; at least one, so that its loss is a number."""
        ids = batch["input_ids"]
        can = batch["attention_mask"].bool() & ~torch.isin(ids, self.special_ids)
        drawn = torch.rand(ids.shape, generator=generator)
        hidden = can & (drawn < self.share)
        if not hidden.any():
            first = drawn.masked_fill(~can, 2.0).argmin()
            hidden.view(-1)[first] = can.view(-1)[first]
        how = torch.rand(ids.shape, generator=generator)
        others = torch.randint(self.n_ids, ids.shape, generator=generator)
        shown = torch.where(hidden & (how < 0.8), torch.full_like(ids, self.mask_id), ids)
        shown = torch.where(hidden & (how >= 0.9), others, shown)
        return {**batch, "input_ids": shown, "labels": ids.masked_fill(~hidden, IGNORED)}
