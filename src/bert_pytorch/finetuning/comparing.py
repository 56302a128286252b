"""Whether a difference is more than chance: the paired bootstrap, and the interval of a mean over few seeds."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import NamedTuple

_T_975 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""The 97.5 % point of Student's t for 1 to 30 degrees of freedom."""


class Interval(NamedTuple):
    """A difference and where it lies with 95 % confidence."""

    mean: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether it is told apart from no difference."""
        return self.low > 0 or self.high < 0


def bootstrap(differences: Sequence[float], n_draws: int = 2000, seed: int = 42) -> Interval:
    """The mean of paired differences, one an example, and its percentile interval.

    Source: Efron and Tibshirani 1993, chapter 13; examples are drawn again with both models' results together.
    """
    draw = random.Random(seed)
    n = len(differences)
    means = sorted(sum(draw.choices(differences, k=n)) / n for _ in range(n_draws))
    return Interval(sum(differences) / n, means[int(0.025 * n_draws)], means[min(n_draws - 1, int(0.975 * n_draws))])


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of a few values, as of seeds, and its interval by Student's t.

    Raises:
        ValueError: There are fewer than two.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"an interval needs two values at least, got {n}")
    mean = sum(values) / n
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    half = (_T_975[n - 2] if n - 2 < len(_T_975) else 1.96) * spread / math.sqrt(n)
    return Interval(mean, mean - half, mean + half)
