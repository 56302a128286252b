"""Figures of each task, computed here so that both engines and all scripts tell the same ones.

Classification: accuracy, macro-F1 over the labels that are true or predicted somewhere, Matthews' correlation. Entities: exact
spans, as the CoNLL evaluation counts them. Questions: exact match and word F1 of SQuAD.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Sequence

Figures = dict[str, float]


def confusion(predicted: Sequence[int], true: Sequence[int], n_labels: int) -> list[list[int]]:
    """How often each true label (row) was taken for each (column)."""
    matrix = [[0] * n_labels for _ in range(n_labels)]
    for p, t in zip(predicted, true, strict=True):
        matrix[t][p] += 1
    return matrix


def class_table(matrix: Sequence[Sequence[int]]) -> list[dict[str, float]]:
    """Precision, recall, F1 and support of each label; 0 where there is nothing to divide by."""
    table = []
    for i, row in enumerate(matrix):
        hit, n_true, n_predicted = row[i], sum(row), sum(line[i] for line in matrix)
        precision, recall = _share(hit, n_predicted), _share(hit, n_true)
        table.append({"precision": precision, "recall": recall, "f1": _f1(hit, n_predicted, n_true), "support": n_true})
    return table


def classification(predicted: Sequence[int], true: Sequence[int], n_labels: int) -> Figures:
    """Accuracy, macro-F1 and MCC.

    Source: Gorodkin 2004 (Computational Biology and Chemistry 28), the K-category correlation; 0 where it is not defined.
    """
    matrix = confusion(predicted, true, n_labels)
    n, hits = len(true), sum(matrix[i][i] for i in range(n_labels))
    rows = [sum(row) for row in matrix]
    columns = [sum(line[i] for line in matrix) for i in range(n_labels)]
    covariance = hits * n - sum(r * c for r, c in zip(rows, columns, strict=True))
    spread = (n * n - sum(c * c for c in columns)) * (n * n - sum(r * r for r in rows))
    # A label that is neither true nor predicted anywhere here says nothing.
    met = [row["f1"] for row, r, c in zip(class_table(matrix), rows, columns, strict=True) if r + c]
    return {
        "accuracy": _share(hits, n),
        "macro_f1": sum(met) / max(1, len(met)),
        "mcc": covariance / math.sqrt(spread) if spread else 0.0,
    }


def multi_label(predicted: Sequence[Sequence[int]], true: Sequence[Sequence[int]]) -> Figures:
    """Micro- and macro-F1 over the labels, and the share of texts whose whole set is right."""
    n_labels = len(true[0])
    hits, n_predicted, n_true = [0] * n_labels, [0] * n_labels, [0] * n_labels
    for p, t in zip(predicted, true, strict=True):
        for i in range(n_labels):
            hits[i] += bool(p[i] and t[i])
            n_predicted[i] += bool(p[i])
            n_true[i] += bool(t[i])
    each = [_f1(*counts) for counts in zip(hits, n_predicted, n_true, strict=True)]
    same = sum(list(map(bool, p)) == list(map(bool, t)) for p, t in zip(predicted, true, strict=True))
    return {
        "micro_f1": _f1(sum(hits), sum(n_predicted), sum(n_true)),
        "macro_f1": sum(each) / n_labels,
        "subset_accuracy": _share(same, len(true)),
    }


def regression(predicted: Sequence[float], true: Sequence[float]) -> Figures:
    """Pearson's and Spearman's correlation, mean squared and mean absolute error; a correlation with a constant is 0."""
    n = len(true)
    gaps = [p - t for p, t in zip(predicted, true, strict=True)]
    return {
        "pearson": _pearson(predicted, true),
        "spearman": _pearson(_ranks(predicted), _ranks(true)),
        "mse": sum(gap * gap for gap in gaps) / n,
        "mae": sum(map(abs, gaps)) / n,
    }


def spans(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Entities of a sentence as (type, first word, end), from tags such as `B-person`, `I-person`, `O`.

    An `I-` that no entity of its type stands before begins one, as in the CoNLL evaluation. Tags without a mark, as parts of
    speech have, are runs of one word each.
    """
    found = set()
    start, kind = 0, ""
    for i, tag in enumerate([*tags, "O"]):
        mark, dash, name = tag.partition("-")
        is_marked = bool(dash) and mark in ("B", "I")
        if kind and not (is_marked and mark == "I" and name == kind):
            found.add((kind, start, i))
            kind = ""
        if is_marked and not kind:
            start, kind = i, name
        elif not is_marked and tag != "O":
            found.add((tag, i, i + 1))
    return found


def entities(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> Figures:
    """Precision, recall and F1 of whole entities, and the share of words with the right tag."""
    hits = n_predicted = n_true = same = words = 0
    for p, t in zip(predicted, true, strict=True):
        found, wanted = spans(p), spans(t)
        hits, n_predicted, n_true = hits + len(found & wanted), n_predicted + len(found), n_true + len(wanted)
        same += sum(a == b for a, b in zip(p, t, strict=True))
        words += len(t)
    return {
        "entity_f1": _f1(hits, n_predicted, n_true),
        "entity_precision": _share(hits, n_predicted),
        "entity_recall": _share(hits, n_true),
        "token_accuracy": _share(same, words),
    }


def entity_table(predicted: Sequence[Sequence[str]], true: Sequence[Sequence[str]]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and support of each type of entity."""
    pairs = [(spans(p), spans(t)) for p, t in zip(predicted, true, strict=True)]
    kinds = sorted({kind for found, wanted in pairs for kind, _, _ in found | wanted})
    table = {}
    for kind in kinds:
        hits = sum(kind == each[0] for found, wanted in pairs for each in found & wanted)
        n_found = sum(kind == each[0] for found, _ in pairs for each in found)
        n_true = sum(kind == each[0] for _, wanted in pairs for each in wanted)
        rates = {"precision": _share(hits, n_found), "recall": _share(hits, n_true)}
        table[kind] = {**rates, "f1": _f1(hits, n_found, n_true), "support": n_true}
    return table


def answer_words(text: str) -> list[str]:
    """The words of an answer as SQuAD compares them: small letters, no punctuation, no articles.

    Source: Rajpurkar et al. 2016 (arXiv 1606.05250), section 6.1.
    """
    plain = "".join(letter for letter in text.lower() if letter not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", plain).split()


def answer_scores(predicted: str, true: Iterable[str]) -> tuple[float, float]:
    """Exact match and word F1 of an answer with the best of the right ones."""
    words = answer_words(predicted)
    exact = f1 = 0.0
    for each in true:
        wanted = answer_words(each)
        hits = sum((Counter(words) & Counter(wanted)).values())
        exact = max(exact, float(words == wanted))
        f1 = max(f1, float(words == wanted) if not words or not wanted else _f1(hits, len(words), len(wanted)))
    return exact, f1


def answers(predicted: Sequence[str], true: Sequence[Sequence[str]]) -> Figures:
    """Exact match and F1, in [0, 1]."""
    scores = [answer_scores(p, t) for p, t in zip(predicted, true, strict=True)]
    return {
        "exact_match": sum(exact for exact, _ in scores) / len(scores),
        "f1": sum(f1 for _, f1 in scores) / len(scores),
    }


def perplexity(loss: float) -> float:
    """What a loss in nats is as a number of words to choose from; infinite where that is too many to count."""
    return math.exp(loss) if loss < 700 else math.inf


def calibration(confidence: Sequence[float], is_right: Sequence[bool], n_bins: int = 10) -> tuple[float, list[list[float]]]:
    """How far confidence is from the share that is right.

    Source: Guo et al. 2017 (arXiv 1706.04599), section 2: expected calibration error, bins of equal width.

    Returns:
        The error in [0, 1], and for each bin that is not empty its mean confidence, its share right, and its size.
    """
    bins: list[list[tuple[float, bool]]] = [[] for _ in range(n_bins)]
    for c, right in zip(confidence, is_right, strict=True):
        bins[min(n_bins - 1, int(c * n_bins))].append((c, right))
    rows = [
        [sum(c for c, _ in one) / len(one), sum(right for _, right in one) / len(one), float(len(one))] for one in bins if one
    ]
    n = max(1, len(confidence))
    return sum(abs(c - share) * size / n for c, share, size in rows), rows


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _f1(hits: float, n_predicted: float, n_true: float) -> float:
    return _share(2 * hits, n_predicted + n_true)


def _pearson(one: Sequence[float], other: Sequence[float]) -> float:
    n = len(one)
    mean_one, mean_other = sum(one) / n, sum(other) / n
    top = sum((a - mean_one) * (b - mean_other) for a, b in zip(one, other, strict=True))
    below = math.sqrt(sum((a - mean_one) ** 2 for a in one) * sum((b - mean_other) ** 2 for b in other))
    return top / below if below else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    i = 0
    while i < len(order):
        j = i
        while j + 1 < len(order) and values[order[j + 1]] == values[order[i]]:
            j += 1
        for k in range(i, j + 1):
            ranks[order[k]] = (i + j) / 2 + 1
        i = j + 1
    return ranks
