"""Texts that a model writes, and how near they come to the right ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..extras import import_extra
from .metrics import Figures

_KINDS = ("rouge1", "rouge2", "rougeL")


def rouge(predicted: Sequence[str], true: Sequence[str]) -> Figures:
    """ROUGE-1, -2 and -L as F1 in [0, 1], without stemming, by the package rouge-score; and the share of equal texts.

    Source: Lin 2004 (Text Summarization Branches Out).

    Raises:
        UnavailableError: rouge-score is not installed.
    """
    scorer = import_extra("rouge_score.rouge_scorer", "rouge-score").RougeScorer(list(_KINDS))
    scores = [scorer.score(t, p) for p, t in zip(predicted, true, strict=True)]
    figures = {kind: sum(score[kind].fmeasure for score in scores) / len(scores) for kind in _KINDS}
    figures["exact_match"] = sum(p.strip() == t.strip() for p, t in zip(predicted, true, strict=True)) / len(scores)
    return figures
