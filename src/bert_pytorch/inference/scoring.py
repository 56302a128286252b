"""How well a model expects each line: what a log, a corpus or a translation has that is odd.

Shapes: B sequences, L tokens per sequence, M hidden words, V vocabulary size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..dataset.examples import share_room
from ..dataset.vocab import Vocab
from ..model import BERTLM
from .batches import TOKENS_AT_ONCE, by_length, pad, run_over

_LINES_AT_ONCE = 256
_SCORES_AT_ONCE = 1 << 22


class Score(NamedTuple):
    """What a model says of a line."""

    perplexity: float
    """Pseudo-perplexity: e to the mean surprise, in nats, at its words, each hidden in turn; 1: all foreseen. NaN: no word."""
    outside_share: float
    """Share of its words that are not among the likeliest `top_k`, as LogBERT counts; NaN: no word."""
    next_sentence: float
    """Probability that its second text follows the first; NaN for lines of one text."""
    n_words: int


class _Row(NamedTuple):
    """A line with some of its words hidden."""

    line: int
    ids: list[int]
    places: list[int]


def score_lines(model: BERTLM, vocab: Vocab, lines: Sequence[str], top_k: int = 5, passes: int | None = None) -> list[Score]:
    """Score lines of one text, or of two with a tab between them.

    Source: pseudo-perplexity by Salazar et al. 2019 (arXiv 1910.14659), section 2; words outside the likeliest as in Guo et al.
    2021 (arXiv 2103.04475), section III-C. `Differs:` every word is hidden once, not a random share.

    Args:
        model: In evaluation mode.
        vocab: Its vocabulary.
        lines: The texts; words beyond the model's longest sequence are left out.
        top_k: Candidates that count as expected.
        passes: Hide each n-th word of a line together, in so many passes: faster, and less exact. None: one word at a time.
    """
    scores: list[Score] = []
    for start in range(0, len(lines), _LINES_AT_ONCE):
        scores += _score(model, vocab, lines[start : start + _LINES_AT_ONCE], top_k, passes)
    return scores


def _score(model: BERTLM, vocab: Vocab, lines: Sequence[str], top_k: int, passes: int | None) -> list[Score]:
    laid_out = [_lay_out(vocab, line, model.bert.max_len) for line in lines]
    rows = [row for i, (ids, segments) in enumerate(laid_out) for row in _rows(vocab, i, ids, passes)]
    surprise, n_outside = [0.0] * len(lines), [0] * len(lines)
    device = model.bert.embedding.token.weight.device
    results: list[tuple[list[int], list[float], list[bool]]] = []

    def hide(batch: list[int]) -> None:
        x_BL = pad([rows[i].ids for i in batch], device)
        segments_BL = pad([laid_out[rows[i].line][1] for i in batch], device)
        places = [(n, place) for n, i in enumerate(batch) for place in rows[i].places]
        flat_M = torch.tensor([n * x_BL.size(1) + place for n, place in places], device=device)
        true_M = torch.tensor([laid_out[rows[batch[n]].line][0][place] for n, place in places], device=device)
        hidden_MD = model.bert(x_BL, segments_BL, places=flat_M)
        n_rows = max(1, _SCORES_AT_ONCE // len(vocab))
        for part_MD, part_M, some in zip(hidden_MD.split(n_rows), true_M.split(n_rows), _parts(places, n_rows), strict=True):
            log_probabilities_MV = model.mask_lm(part_MD).float()
            true = log_probabilities_MV.gather(1, part_M[:, None])
            is_outside_M = (log_probabilities_MV > true).sum(1) >= top_k
            results.append(([rows[batch[n]].line for n, _ in some], true[:, 0].tolist(), is_outside_M.tolist()))

    run_over(by_length([len(row.ids) for row in rows], TOKENS_AT_ONCE), hide, device)
    # Threads end in any order, and sums of floats tell: the same lines give the same scores.
    for numbers, log_probabilities, outside in sorted(results):
        for line, value, is_outside in zip(numbers, log_probabilities, outside, strict=True):
            surprise[line] -= value
            n_outside[line] += is_outside
    follows = _next_sentence(model, laid_out, device)
    scores = []
    for i, (ids, _) in enumerate(laid_out):
        n = len(_words(vocab, ids))
        perplexity = math.exp(min(surprise[i] / n, 700.0)) if n else math.nan
        scores.append(Score(perplexity, n_outside[i] / n if n else math.nan, follows.get(i, math.nan), n))
    return scores


def _lay_out(vocab: Vocab, line: str, max_len: int) -> tuple[list[int], list[int]]:
    """Ids and segments of a line, as the model was trained on them."""
    seqs = [vocab.to_seq(text) for text in line.split("\t")[:2]]
    room = share_room(torch.tensor([list(map(len, seqs))]), max_len - len(seqs) - 1)[0].tolist()
    ids, segments = [vocab.sos_index], [1]
    for number, (seq, length) in enumerate(zip(seqs, room, strict=True), start=1):
        ids += [*seq[:length], vocab.eos_index]
        segments += [number] * (length + 1)
    return ids, segments


def _words(vocab: Vocab, ids: Sequence[int]) -> list[int]:
    """Places of words: all but markers."""
    markers = {vocab.sos_index, vocab.eos_index, vocab.pad_index}
    return [place for place, i in enumerate(ids) if i not in markers]


def _rows(vocab: Vocab, line: int, ids: list[int], passes: int | None) -> list[_Row]:
    places = _words(vocab, ids)
    n = len(places) if passes is None else min(passes, len(places))
    groups = [places[first::n] for first in range(n)]
    rows = []
    for group in groups:
        hidden = list(ids)
        for place in group:
            hidden[place] = vocab.mask_index
        rows.append(_Row(line, hidden, group))
    return rows


def _parts(places: list[tuple[int, int]], size: int) -> list[list[tuple[int, int]]]:
    return [places[i : i + size] for i in range(0, len(places), size)]


def _next_sentence(model: BERTLM, laid_out: Sequence[tuple[list[int], list[int]]], device: torch.device) -> dict[int, float]:
    """By line, the probability that its second text follows the first."""
    pairs = [i for i, (_, segments) in enumerate(laid_out) if segments[-1] == 2]
    found: dict[int, float] = {}

    def answer(batch: list[int]) -> None:
        numbers = [pairs[i] for i in batch]
        x_BL, segments_BL = (pad([laid_out[i][part] for i in numbers], device) for part in (0, 1))
        answers_B = model.next_sentence(model.bert(x_BL, segments_BL))[:, 1].float().exp()
        found.update(zip(numbers, answers_B.tolist(), strict=True))

    run_over(by_length([len(laid_out[i][0]) for i in pairs], TOKENS_AT_ONCE), answer, device)
    return found
