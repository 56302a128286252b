"""Random draws that are a function of where they are used, not of what was drawn before.

An example's draws depend on `(seed, epoch, index)` alone, so they are the same for any order of access, number of workers and
point of resumption.
"""

from __future__ import annotations

_BITS_64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(*values: int) -> int:
    """Hash integers into 64 well-mixed bits.

    Source: the SplitMix64 finaliser, Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 9.
    """
    state = 0
    for value in values:
        state = (state + value + _GOLDEN) & _BITS_64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _BITS_64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _BITS_64
        state ^= state >> 31
    return state


class Draws:
    """A stream of draws that belongs to one example."""

    def __init__(self, seed: int, epoch: int, index: int) -> None:
        """Begin the stream of one example.

        Args:
            seed: The run's seed.
            epoch: Pass over the data, from 0.
            index: The example's index.
        """
        self._key = mix(seed, epoch, index)
        self._n_drawn = 0

    def uniform(self) -> float:
        """A number in [0, 1) with 53 random bits."""
        return (self._next() >> 11) * 2.0**-53

    def integer(self, n: int) -> int:
        """An integer in [0, n)."""
        return (self._next() * n) >> 64

    def _next(self) -> int:
        self._n_drawn += 1
        return mix(self._key + self._n_drawn * _GOLDEN)
