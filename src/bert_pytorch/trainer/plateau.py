"""Rates that fall when a metric has stopped getting better."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

from .choices import Value, number_of


class PlateauState(TypedDict):
    """What `Plateau` has seen and done, in plain numbers."""

    best: float | None
    n_bad: int
    n_cooldown: int
    rates: list[float]


class Plateau:
    """The rates of an optimiser's groups, lowered by a factor each time the metric has been no better for too long.

    Source: `torch.optim.lr_scheduler.ReduceLROnPlateau`, number for number.
    `Differs:` the best value before the first is None, not infinite, so that JSON can hold the state.
    """

    def __init__(self, settings: Mapping[str, Value], rates: Sequence[float]) -> None:
        """Start at these rates.

        Args:
            settings: torch's arguments, all of them.
            rates: One a group.
        """
        self.rates = list(rates)
        self._settings = settings
        self._best: float | None = None
        self._n_bad = self._n_cooldown = 0

    def report(self, metric: float) -> bool:
        """Take in one value of the metric; returns whether it lowered a rate."""
        if self._is_better(metric):
            self._best, self._n_bad = metric, 0
        else:
            self._n_bad += 1
        if self._n_cooldown > 0:
            self._n_cooldown -= 1
            self._n_bad = 0
        if self._n_bad <= number_of(self._settings, "patience"):
            return False
        self._n_cooldown, self._n_bad = int(number_of(self._settings, "cooldown")), 0
        before = list(self.rates)
        self.rates = [self._lower(rate) for rate in before]
        return self.rates != before

    def state_dict(self) -> PlateauState:
        """Plain numbers."""
        return {"best": self._best, "n_bad": self._n_bad, "n_cooldown": self._n_cooldown, "rates": list(self.rates)}

    def load_state_dict(self, state: PlateauState) -> None:
        """Take over what was seen, and the rates reached."""
        self._best, self._n_bad, self._n_cooldown = state["best"], state["n_bad"], state["n_cooldown"]
        self.rates = [rate for rate, _ in zip(state["rates"], self.rates, strict=True)]

    def _is_better(self, metric: float) -> bool:
        sign = 1.0 if self._settings["mode"] == "max" else -1.0
        best = -sign * math.inf if self._best is None else self._best
        threshold = number_of(self._settings, "threshold")
        if self._settings["threshold_mode"] == "abs":
            return sign * metric > sign * (best + sign * threshold)
        return sign * metric > sign * (best * (1.0 + sign * threshold))

    def _lower(self, rate: float) -> float:
        lower = max(rate * number_of(self._settings, "factor"), number_of(self._settings, "min_lr"))
        return lower if rate - lower > number_of(self._settings, "eps") else rate
