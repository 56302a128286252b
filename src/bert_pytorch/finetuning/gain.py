"""Does pretraining help? The same head and budget from the pretrained weights and from new ones, over several seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from .comparing import Interval, mean_interval
from .run import finetune
from .settings import Settings, settings_of


def prove(settings: Settings, seeds: list[int], tell: Callable[[int, float, float], None]) -> dict[str, object]:
    """Fine-tune both ways with each seed and compare seed by seed.

    Args:
        settings: The run; its model is the pretrained one.
        seeds: Two or more; each decides head, new weights, order and held-out rows of both ways.
        tell: Told seed, score from scratch and score from the checkpoint.

    Returns:
        The scores, the mean difference with its 95 % interval by Student's t, and the answer in one line.
    """
    scratch, pretrained = [], []
    for seed in seeds:
        scores = [_score(settings, seed, is_new) for is_new in (True, False)]
        scratch.append(scores[0])
        pretrained.append(scores[1])
        tell(seed, *scores)
    sign = 1.0 if settings.task_and_kind[0].greater_is_better else -1.0
    gains = mean_interval([sign * (p - s) for s, p in zip(scratch, pretrained, strict=True)])
    return {
        "metric": settings.metric,
        "from_scratch": scratch,
        "from_checkpoint": pretrained,
        "gain": gains.mean,
        "low": gains.low,
        "high": gains.high,
        "helps": gains.low > 0,
        "answer": answer(settings.metric, gains, len(seeds)),
    }


def answer(metric: str, gain: Interval, n_seeds: int) -> str:
    """The answer in one line."""
    figures = f"{metric} {gain.mean:+.4f}, 95 % [{gain.low:+.4f}, {gain.high:+.4f}], {n_seeds} seeds"
    if gain.low > 0:
        return f"Pretraining helps: {figures}."
    return f"Pretraining hurts: {figures}." if gain.high < 0 else f"No difference is shown: {figures}."


def _score(settings: Settings, seed: int, is_new: bool) -> float:
    base = {name: value for name, value in asdict(settings).items() if value is not None}
    training = {**base.pop("training"), "seed": seed, "save_strategy": "no", "load_best_model_at_end": False}
    training.pop("save_total_limit", None)
    folder = Path(settings.output_dir) / f"{'scratch' if is_new else 'checkpoint'}-seed-{seed}"
    report = finetune(settings_of({**base, **training, "output_dir": str(folder), "from_scratch": is_new}))
    return float(str(report["score"]))
