"""The pretraining loss and what is measured beside it.

Shapes: B sequences, L tokens per sequence, V vocabulary size, M masked tokens in the batch, S sums.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import TrainingError
from ..model.language_model import unigram_log_probabilities
from .distributed import World
from .objective import SUMS


class PretrainingCriterion(nn.Module):
    """Negative log-likelihood for either task, told apart by the number of classes.

    Two classes are the next-sentence task, where class 0 is an answer like any other. More are words, where target 0 means "no
    target". (A vocabulary has its five specials at least, so it never has two classes.) bert-pytorch used
    `NLLLoss(ignore_index=0)` for both, which never counted a "not next" example.
    """

    def forward(self, log_probabilities: Tensor, target: Tensor) -> Tensor:
        """Mean negative log-likelihood over the targets, in nats; 0 when there is no target.

        Args:
            log_probabilities: `[B, 2]`, `[M, V]` or `[B, V, L]`.
            target: `[B]`, `[M]` or `[B, L]`.
        """
        is_next_sentence = log_probabilities.size(1) == 2
        ignored = -100 if is_next_sentence else 0
        n_targets = (target != ignored).sum().clamp(min=1)
        return F.nll_loss(log_probabilities, target, ignore_index=ignored, reduction="sum") / n_targets


class Metrics:
    """Sums over a pass, kept on the device until read, so that averages do not depend on the batch size."""

    def __init__(self, device: torch.device, word_counts: Sequence[int] | None = None, world: World | None = None) -> None:
        """Begin at zero.

        Args:
            device: Where the batches are.
            word_counts: Corpus frequency by id; with it, the figures of a model that knows only these are reported too.
            world: The processes that share the batches, and all read at the same time; None: this one.
        """
        self._world = world or World()
        self._sums = torch.zeros(len(SUMS), dtype=torch.float64, device=device)
        self._unigram_sums = torch.zeros(2, dtype=torch.float64, device=device)
        self._unigram_V = None if word_counts is None else unigram_log_probabilities(word_counts).to(device)
        self.n_steps = 0
        self._earlier_tokens = 0.0
        self._began = time.perf_counter()

    @torch.no_grad()
    def add(self, sums: Tensor, targets: Tensor) -> None:
        """Add one batch: its sums `[1, S]`, as `PretrainingObjective` gives them, and its target ids `[M]`."""
        self._sums += sums.sum(0)
        if self._unigram_V is not None:
            n_hits = (targets == self._unigram_V.argmax()).sum()
            self._unigram_sums += torch.stack([-self._unigram_V[targets].double().sum(), n_hits.double()])

    @property
    def sums(self) -> list[float]:
        """The sums so far, of all processes, in the order of `SUMS`."""
        return self._world.sum(self._sums.clone()).tolist()

    def go_on_from(self, sums: Sequence[float], n_steps: int) -> None:
        """Begin with what a pass had measured when it was saved."""
        if self._world.is_main:
            self._sums += torch.tensor(sums, dtype=torch.float64).to(self._sums.device)
        self.n_steps, self._earlier_tokens = n_steps, sums[SUMS.index("real_tokens")]

    def leave_out(self, seconds: float) -> None:
        """Do not count this time, in which something else was done."""
        self._began += seconds

    def read(self, since: Sequence[float] | None = None) -> dict[str, float]:
        """Averages so far: losses in nats a target or a pair, accuracies in [0, 1]; NaN where nothing was measured.

        Args:
            since: Leave out what was in `sums` at an earlier time.
        """
        added = [now - before for now, before in zip(self.sums, since or [0.0] * len(SUMS), strict=True)]
        sums = dict(zip(SUMS, added, strict=True))
        n_targets, n_answers = sums["n_targets"], sums["n_answers"]
        mlm_loss, nsp_loss = _ratio(sums["mlm_loss"], n_targets), _ratio(sums["nsp_loss"], n_answers)
        report = {
            "loss": (nsp_loss if n_answers else 0.0) + (mlm_loss if n_targets else 0.0),
            "mlm_loss": mlm_loss,
            "nsp_loss": nsp_loss,
            "mlm_accuracy": _ratio(sums["mlm_correct"], n_targets),
            "nsp_accuracy": _ratio(sums["nsp_correct"], n_answers),
            "n_targets": n_targets,
            "n_items": sums["n_items"],
            "real_tokens": sums["real_tokens"],
            "earlier_tokens": self._earlier_tokens,
            "steps": float(self.n_steps),
            "seconds": time.perf_counter() - self._began,
        }
        if self._unigram_V is not None:
            unigram_loss, n_hits = self._world.sum(self._unigram_sums.clone()).tolist()
            report |= {"unigram_loss": _ratio(unigram_loss, n_targets), "unigram_accuracy": _ratio(n_hits, n_targets)}
        return report


def _ratio(total: float, n: float) -> float:
    return total / n if n else math.nan


def progress_line(report: dict[str, float], rate: float, n_left: int | None) -> str:
    """What a step's line says of the pass so far: averages, learning rate, speed, and the time left where it is known.

    Args:
        report: Of `Metrics.read`.
        rate: Learning rate.
        n_left: Steps left; None: not known.
    """
    names = ("loss", "mlm_loss", "nsp_loss", "mlm_accuracy", "nsp_accuracy")
    parts = [f"{name} {report[name]:.4f}" for name in names if not math.isnan(report[name])]
    parts += [f"lr {rate:.3g}", f"{report['real_tokens'] / report['seconds']:.0f} tokens/s"]
    if n_left is not None:
        parts.append(f"{n_left * report['seconds'] / report['steps']:.0f} s left")
    return " ".join(parts)


def check_finite(loss: float, epoch: int, metrics: Metrics) -> None:
    """Stop a run whose loss is no number any more.

    Raises:
        TrainingError: The loss is infinite or not a number.
    """
    if not math.isfinite(loss):
        raise TrainingError(
            f"pass {epoch}, at or before batch {metrics.n_steps}: the loss is {loss}; "
            "lower --lr or lengthen --warmup_steps, and go on from an earlier checkpoint [E-LOSS-NONFINITE]"
        )
