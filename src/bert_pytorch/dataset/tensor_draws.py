"""The draws of many examples at once: `draws.py` over tensors.

Integers are 64 bits that wrap around, as torch's int64 does; a shift to the right needs a mask, as torch's keeps the sign.
Shapes: n examples, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .draws import mix
from .ragged import ramps

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
_FIRST = 0xBF58476D1CE4E5B9 - (1 << 64)
_SECOND = 0x94D049BB133111EB - (1 << 64)
_GOLDEN_32 = 0x9E3779B9 - (1 << 32)
_MULTIPLIERS_32 = 0x85EBCA6B - (1 << 32), 0xC2B2AE35 - (1 << 32)
_LOW_32 = (1 << 32) - 1


def mix_(bits: Tensor) -> Tensor:
    """Mix each int64 in place, the finaliser of `draws.mix`; returns the same tensor."""
    shifted = (bits >> 30).bitwise_and_((1 << 34) - 1)
    bits.bitwise_xor_(shifted).mul_(_FIRST)
    torch.bitwise_right_shift(bits, 27, out=shifted).bitwise_and_((1 << 37) - 1)
    bits.bitwise_xor_(shifted).mul_(_SECOND)
    torch.bitwise_right_shift(bits, 31, out=shifted).bitwise_and_((1 << 33) - 1)
    return bits.bitwise_xor_(shifted)


def example_keys(seed: int, epoch: int, indices_n: Tensor) -> Tensor:
    """The key of each example's stream of draws, `[n]`: `mix(seed, epoch, index)`."""
    return mix_(indices_n + _wrapped(mix(seed, epoch) + GOLDEN))


def draw(keys_n: Tensor, number: int) -> Tensor:
    """The 64 bits of draw `number` of each stream, `[n]`; number 0 makes keys of other streams."""
    return mix_(keys_n + _wrapped((number + 1) * GOLDEN))


def draw_each(keys_n: Tensor, sizes_n: Tensor) -> Tensor:
    """Draws of 32 bits from each stream, as many as its size, one stream after the other: `[sizes.sum()]` int32.

    There are as many of these as words, and half the bits take half the time.
    """
    return mix_32_(ramps(keys_n, sizes_n, _GOLDEN_32).int())


def draw_again(bits: Tensor, number: int) -> Tensor:
    """A further draw from each of some draws of 32 bits; each number gives other ones."""
    return mix_32_(bits + (number * 0x3C6EF372 + 1 & 0x7FFFFFFF))


def mix_32_(bits: Tensor) -> Tensor:
    """Mix each int32 in place, one to one; returns the same tensor. Source: the finaliser of MurmurHash3 (Appleby 2011)."""
    shifted = (bits >> 16).bitwise_and_(0xFFFF)
    bits.bitwise_xor_(shifted).mul_(_MULTIPLIERS_32[0])
    torch.bitwise_right_shift(bits, 13, out=shifted).bitwise_and_((1 << 19) - 1)
    bits.bitwise_xor_(shifted).mul_(_MULTIPLIERS_32[1])
    torch.bitwise_right_shift(bits, 16, out=shifted).bitwise_and_(0xFFFF)
    return bits.bitwise_xor_(shifted)


def is_below(bits: Tensor, probability: float) -> Tensor:
    """Whether each draw, of 32 or 64 bits, is a hit of this probability."""
    n_bits = 8 * bits.itemsize
    if probability >= 1:
        return torch.ones_like(bits, dtype=torch.bool)
    return bits < int(probability * 2.0**n_bits) - (1 << n_bits - 1)


def integers(bits: Tensor, n: Tensor | int) -> Tensor:
    """An integer in [0, n) from the lower 32 bits of each draw, int64; n below 2**31."""
    return (bits.long() & _LOW_32).mul_(n) >> 32


def text_hashes(ids_T: Tensor, lengths_n: Tensor) -> Tensor:
    """A hash of each text's ids, `[n]`: equal ids, equal hash, and hardly ever otherwise.

    Args:
        ids_T: The ids of all texts, one text after the other.
        lengths_n: How many ids each text has.
    """
    # Every word is mixed with its place, so that the order counts, and the sum over a text is a difference of running sums.
    ends_n = lengths_n.cumsum(0)
    places_T = ramps(torch.zeros_like(lengths_n), lengths_n, GOLDEN)
    mixed_T = mix_(places_T.add_(ids_T, alpha=_FIRST))
    sums_T = torch.cat([mixed_T.new_zeros(1), mixed_T.cumsum(0)])
    return mix_(sums_T[ends_n] - sums_T[ends_n - lengths_n] + lengths_n * GOLDEN)


def _wrapped(number: int) -> int:
    """The int64 with the same lower 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
