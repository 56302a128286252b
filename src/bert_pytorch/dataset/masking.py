"""Which words are hidden, and behind what: the masked-word task of many examples at once.

Shapes: n examples, t texts, T words of all texts, U units that are hidden as a whole (words of one or more pieces), M targets.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError
from .tensor_draws import draw_again, draw_each, integers, is_below

MASK_PROBABILITY = 0.15
N_SPECIALS = 5
"""Ids 0-4 are `<pad> <unk> <eos> <sos> <mask>`; the real words follow."""
MASK_INDEX = 4
SPAN_STOP = 0.2
LONGEST_SPAN = 10
_LAST = 2**31 - 1


class Masking:
    """Hides words of texts: 15 % of them, each by its own draw, unless asked otherwise."""

    def __init__(
        self,
        n_ids: int,
        probability: float = MASK_PROBABILITY,
        continues_word: Sequence[bool] | None = None,
        spans: bool = False,
    ) -> None:
        """Set what is hidden.

        Args:
            n_ids: Vocabulary size V, specials included.
            probability: Share of the words that become targets, above 0 and at most 1.
            continues_word: By id, whether a piece continues the word before it; with it, words are hidden whole. None: pieces
                are hidden one by one.
            spans: Hide runs of neighbouring words, 3.8 words long on average, that make up the same share.

        Raises:
            InputError: `probability` is out of its range.
        """
        if not 0 < probability <= 1:
            raise InputError(f"masking: mlm_probability is {probability}, expected above 0, at most 1 [E-DATA-MASKING]")
        self.n_ids = n_ids
        self.probability = probability
        self.continues_V = None if continues_word is None else torch.tensor(continues_word)
        self.spans = _span_tables(probability) if spans else None

    def __call__(
        self, ids_T: Tensor, lengths_t: Tensor, keys_n: Tensor, sizes_n: Tensor, is_sure: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Hide words.

        Specials are never chosen, and neither is `<unk>`: to teach it would teach to answer "some word or other".

        Args:
            ids_T: Ids of all texts, one after the other, int32.
            lengths_t: How many words each text has.
            keys_n: The key of each example's draws.
            sizes_n: How many words each example has, all its texts together.
            is_sure: Give an example that has a real word at least one target.

        Returns:
            The places of the targets `[M]`, and the ids that stand there instead `[M]`.
        """
        bits_T = draw_each(keys_n, sizes_n)
        is_real_T = ids_T >= N_SPECIALS
        if self.spans is None and self.continues_V is None:
            chosen_T = is_below(bits_T, self.probability).logical_and_(is_real_T)
            targets_M = chosen_T.nonzero()[:, 0]
            if is_sure:
                targets_M = torch.cat([targets_M, _one_for_those_without(targets_M, is_real_T, bits_T, sizes_n)])
            bits_M = bits_T.index_select(0, targets_M)
            return targets_M, self._corrupt(ids_T.index_select(0, targets_M), bits_M, bits_M)
        first_T = self._first_of_unit(ids_T, lengths_t)
        unit_T = first_T.cumsum(0) - 1
        bits_U = bits_T[first_T]
        kind_bits_T = bits_T
        if self.spans is None:
            chosen_U = is_below(bits_U, self.probability)
        else:
            chosen_U, span_U = _cover(bits_U, unit_T, lengths_t, *self.spans)
            kind_bits_T = bits_U[span_U][unit_T]
        if is_sure:
            targets_M = (chosen_U[unit_T] & is_real_T).nonzero()[:, 0]
            missing = _one_for_those_without(targets_M, is_real_T, bits_U[unit_T], sizes_n)
            chosen_U[unit_T[missing]] = True
        targets_M = (chosen_U[unit_T] & is_real_T).nonzero()[:, 0]
        return targets_M, self._corrupt(ids_T[targets_M], kind_bits_T[targets_M], bits_T[targets_M])

    def add_missing(self, words_T: Tensor, targets_M: Tensor, keys_n: Tensor, sizes_n: Tensor) -> tuple[Tensor, Tensor]:
        """For examples masked elsewhere, with a real word but no target, one: its place, and what is to stand there.

        Args:
            words_T: Ids as they are to stand, int32.
            targets_M: Places of the targets there are, in order.
            keys_n: The key of each example's draws.
            sizes_n: How many words each example has.
        """
        bits_T = draw_each(keys_n, sizes_n)
        missing = _one_for_those_without(targets_M, words_T >= N_SPECIALS, bits_T, sizes_n)
        return missing, self._corrupt(words_T[missing], bits_T[missing], bits_T[missing])

    def _corrupt(self, words_M: Tensor, kind_bits_M: Tensor, bits_M: Tensor) -> Tensor:
        """Hide targets: 80 % mask, 10 % another real word drawn from all of them, 10 % the word itself.

        Source: Devlin et al. 2018 (arXiv 1810.04805v2), section 3.1, task 1.
        """
        kind_M = draw_again(kind_bits_M, 1)
        hidden_M = torch.full_like(words_M, MASK_INDEX)
        # Few are anything but masked; only for these more is drawn.
        rest = is_below(kind_M, 0.8).logical_not_().nonzero()[:, 0]
        others = integers(draw_again(bits_M[rest], 2), self.n_ids - N_SPECIALS).add_(N_SPECIALS).int()
        hidden_M[rest] = torch.where(is_below(kind_M[rest], 0.9), others, words_M[rest])
        return hidden_M

    def _first_of_unit(self, ids_T: Tensor, lengths_t: Tensor) -> Tensor:
        if self.continues_V is None:
            return torch.ones_like(ids_T, dtype=torch.bool)
        first_T = ~self.continues_V[ids_T]
        starts_t = lengths_t.cumsum(0) - lengths_t
        first_T[starts_t[lengths_t > 0]] = True
        return first_T


def _cover(bits_U: Tensor, unit_T: Tensor, lengths_t: Tensor, inside: Tensor, at_start: Tensor) -> tuple[Tensor, Tensor]:
    """Which units a span covers, and the unit where that span began, each `[U]`.

    Source: Joshi et al. 2019 (arXiv 1907.10529), section 3.1: lengths geometric with p = 0.2, at most 10 words.
    `Differs:` spans begin at each word by chance, so that an example's draws need no loop; their share comes out the same.
    """
    first_U = unit_T[(lengths_t.cumsum(0) - lengths_t)[lengths_t > 0]]
    sizes = torch.diff(first_U, append=first_U.new_tensor([bits_U.numel()]))
    uniform_U = (bits_U.double() + 2.0**31) * 2.0**-32
    reach_U = torch.bucketize(uniform_U, inside, right=True)
    reach_U[first_U] = torch.bucketize(uniform_U[first_U], at_start, right=True)
    units_U = torch.arange(bits_U.numel())
    end_U = torch.minimum(units_U + reach_U, (first_U + sizes).repeat_interleave(sizes))
    furthest_U, span_U = end_U.cummax(0)
    return furthest_U > units_U, span_U


def _one_for_those_without(targets_M: Tensor, is_real_T: Tensor, bits_T: Tensor, sizes_n: Tensor) -> Tensor:
    """For each example with real words and none of the targets, which are in order, its real word with the smallest draw."""
    ends_n = sizes_n.cumsum(0)
    # How many targets come before the end of each example.
    sums_n = torch.searchsorted(targets_M, ends_n)
    without = (sums_n.diff(prepend=sums_n.new_zeros(1)) == 0).nonzero()[:, 0]
    if not (without.numel() and bits_T.numel()):
        return without[:0]
    starts, sizes = (ends_n - sizes_n)[without, None], sizes_n[without, None]
    columns = torch.arange(int(sizes.max()))
    places = (starts + columns).clamp_(max=bits_T.numel() - 1)
    is_open = (columns < sizes) & is_real_T[places]
    if not is_open.any():
        return without[:0]
    column = bits_T[places].masked_fill_(~is_open, _LAST).argmin(1)
    return (starts[:, 0] + column)[is_open.any(1)]


def _span_tables(probability: float) -> tuple[Tensor, Tensor]:
    """Cumulative probabilities of how far a span reaches from a word: within a text, and at its first word.

    At the first word the spans that would have begun before the text are drawn too; otherwise words at the beginning of a text
    were hidden less often than others.
    """
    steps = torch.arange(LONGEST_SPAN, dtype=torch.float64)
    weights = (1 - SPAN_STOP) ** steps
    shares = weights / weights.sum()
    longer = torch.cat([1 - torch.cat([shares.new_zeros(1), shares.cumsum(0)[:-1]]), shares.new_zeros(LONGEST_SPAN + 1)])
    low, high = 0.0, 1.0
    for _ in range(60):
        start = (low + high) / 2
        covered = 1 - torch.prod(1 - start * longer[:LONGEST_SPAN]).item()
        low, high = (start, high) if covered < probability else (low, start)
    start = (low + high) / 2
    inside = torch.cat([shares.new_tensor([1 - start]), 1 - start + start * shares.cumsum(0)])[:LONGEST_SPAN]
    reach = [torch.prod(1 - start * longer[least : least + LONGEST_SPAN]).item() for least in range(LONGEST_SPAN)]
    return inside, torch.tensor(reach, dtype=torch.float64)
