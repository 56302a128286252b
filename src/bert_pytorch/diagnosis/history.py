"""What the curves of a run tell: losses by step, held-out figures, and the facts of the data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from .resuming import Commands
from .rules import LISTED, Finding

Entry = Mapping[str, Any]
_LEAST_LOGS = 6
_FLAT, _RISE = 0.01, 0.02
_NO_BETTER_THAN_UNIGRAM = 0.98
_LARGE_UNKNOWN, _LARGE_TRIMMED, _LARGE_SEEN = 0.05, 0.1, 0.2


def numbers(history: Sequence[Entry], name: str) -> list[tuple[int, float]]:
    """A figure by step, where it was logged as a number."""
    found = [(int(entry.get("step", 0)), entry[name]) for entry in history if isinstance(entry.get(name), (int, float))]
    return [(step, float(value)) for step, value in found]


def of_losses(history: Sequence[Entry], commands: Commands) -> Iterator[Finding]:
    """Whether losses fall, and stay finite.

    Args:
        history: Flat entries, as a run logs them.
        commands: The run's lines.
    """
    losses = numbers(history, "loss")
    gone = next((e.get("step") for e in history if "loss" in e and not _is_finite(e["loss"])), None)
    if gone is not None:
        cause = "the loss is no number any more: too high a rate, or lines with nothing to predict"
        yield Finding("run-nan", f"step {gone}: loss nan", cause, f"{commands.slower} --nan_policy raise")
    evals = numbers(history, "eval_loss")
    if len(evals) >= 3:
        best_step, best = min(evals, key=lambda each: each[1])
        last_step, last = evals[-1]
        if best_step < last_step and last > best * (1 + _RISE):
            where = f"eval_loss {best:.4g} at step {best_step}, {last:.4g} at step {last_step}"
            cause = "held-out loss rises while training goes on: overfitting"
            step = f"take checkpoint-{best_step}, or {commands.again} --load_best_model_at_end --early_stopping_patience 2"
            yield Finding("run-overfit", where, cause, f"{step}; or more text, fewer epochs, a smaller model")
    if len(losses) >= _LEAST_LOGS:
        third = len(losses) // 3
        early, late = (sum(v for _, v in part) / third for part in (losses[:third], losses[-third:]))
        if late > early * (1 - _FLAT):
            where = f"loss {early:.4g} in the first third of the logs, {late:.4g} in the last"
            cause = "the loss does not fall: too few steps, too low or too high a rate, or too deep a model for the data"
            yield Finding(
                "run-flat", where, cause, f"{commands.again} -l 2 --lr 0.002; does training work here: {{train_smoke}}"
            )


def of_held_out(summary: Entry, objective: str, again: str) -> Iterator[Finding]:
    """Whether held-out figures are better than knowing nothing."""
    loss, unigram = summary.get("eval_mlm_loss"), summary.get("eval_unigram_loss")
    if _is_finite(loss) and _is_finite(unigram) and loss > unigram * _NO_BETTER_THAN_UNIGRAM:
        where = f"eval_mlm_loss {loss:.4g}, eval_unigram_loss {unigram:.4g}"
        cause = "the model knows no more than how frequent words are: normal early in a run, else too few steps or a bad rate"
        yield Finding("run-unigram", where, cause, f"{again} -e 10 -l 2 --lr 0.002: more passes, a shallow model first")
    accuracy, n = summary.get("eval_nsp_accuracy"), summary.get("eval_n_items") or summary.get("eval_pairs")
    if objective != "mlm" and _is_finite(accuracy) and _is_finite(n) and n and abs(accuracy - 0.5) <= 1.5 / math.sqrt(n):
        where = f"eval_nsp_accuracy {accuracy:.3f} of {n:.0f} pairs"
        cause = (
            "next sentence is at chance: normal early in a run; later lines are no true neighbours, or seq_len trims what tells"
        )
        step = "{check_corpus} --corpus CORPUS; words alone: " + f"{again} --objective mlm"
        yield Finding("run-next-sentence", where, cause, step, LISTED)


def of_data(facts: Entry, settings: Entry, again: str) -> Iterator[Finding]:
    """Whether the data that came in are what was meant."""
    unknown, n_pairs = facts.get("unk_share"), facts.get("pairs") or 0
    if _is_finite(unknown) and unknown > _LARGE_UNKNOWN:
        where, cause = (
            f"unk_share {unknown:.3f}",
            "so many words are not in the vocabulary: --min_freq is high, or it is of another corpus",
        )
        step = "bert-vocab -c CORPUS -o vocab.json --model wordpiece --vocab_size 8000; then " + f"{again} -v vocab.json"
        yield Finding("run-unknown-words", where, cause, step)
    trimmed = facts.get("trimmed_pairs") or 0
    if n_pairs and trimmed / n_pairs > _LARGE_TRIMMED:
        where = f"{trimmed} of {n_pairs} pairs are cut to seq_len {settings.get('seq_len')}"
        step = (
            f"{{check_corpus}} --corpus CORPUS says which length fits; {again} --seq_len {2 * (settings.get('seq_len') or 64)}"
        )
        yield Finding("run-trimmed", where, "long texts lose their ends", step)
    if facts.get("skipped_lines"):
        where = f"{facts['skipped_lines']} lines were left out (--skip_bad_lines)"
        yield Finding("run-skipped", where, "lines are no pairs", "{check_corpus} --corpus CORPUS --fix OUT", LISTED)
    seen = facts.get("eval_seen_share")
    if _is_finite(seen) and seen > _LARGE_SEEN:
        where = f"eval_seen_share {seen:.2f}"
        cause = "held-out lines stand in the training corpus too: the held-out loss measures memory"
        yield Finding("run-seen", where, cause, "{make_pairs} --input DOCUMENTS --output pairs, which parts them; train again")


def _is_finite(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and math.isfinite(value)
