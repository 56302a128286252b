"""The figures equal those of the packages that people know, and the statistics what they claim."""

import math
import random
import warnings

import pytest

from bert_pytorch.finetuning import metrics
from bert_pytorch.finetuning.comparing import bootstrap, mean_interval

TAGS = ["O", "O", "O", "B-per", "I-per", "B-loc", "I-loc"]


def drawn(n_labels=4, n=300, seed=0):
    draw = random.Random(seed)
    true = [draw.randrange(n_labels) for _ in range(n)]
    return [t if draw.random() < 0.6 else draw.randrange(n_labels) for t in true], true


@pytest.mark.parametrize("n_labels", [2, 4])
def test_classification_equals_scikit_learn(n_labels):
    theirs = pytest.importorskip("sklearn.metrics")
    predicted, true = drawn(n_labels)
    ours = metrics.classification(predicted, true, n_labels)
    assert ours["accuracy"] == pytest.approx(theirs.accuracy_score(true, predicted))
    assert ours["macro_f1"] == pytest.approx(theirs.f1_score(true, predicted, average="macro"))
    assert ours["mcc"] == pytest.approx(theirs.matthews_corrcoef(true, predicted))
    assert metrics.confusion(predicted, true, n_labels) == theirs.confusion_matrix(true, predicted).tolist()
    p, r, f, support = theirs.precision_recall_fscore_support(true, predicted)
    for i, row in enumerate(metrics.class_table(metrics.confusion(predicted, true, n_labels))):
        assert list(row.values()) == pytest.approx([p[i], r[i], f[i], support[i]])


def test_one_label_everywhere_has_no_correlation():
    assert metrics.classification([1, 1, 1], [0, 1, 1], 3) == {"accuracy": 2 / 3, "macro_f1": pytest.approx(0.4), "mcc": 0.0}


def test_sets_of_labels_equal_scikit_learn():
    theirs = pytest.importorskip("sklearn.metrics")
    draw = random.Random(0)
    true = [[draw.randrange(2) for _ in range(5)] for _ in range(99)]
    predicted = [[t if draw.random() < 0.8 else 1 - t for t in row] for row in true]
    ours = metrics.multi_label(predicted, true)
    assert ours["micro_f1"] == pytest.approx(theirs.f1_score(true, predicted, average="micro"))
    assert ours["macro_f1"] == pytest.approx(theirs.f1_score(true, predicted, average="macro"))
    assert ours["subset_accuracy"] == pytest.approx(theirs.accuracy_score(true, predicted))


def test_correlations_equal_scipy_with_ties():
    stats = pytest.importorskip("scipy.stats")
    draw = random.Random(0)
    true = [draw.randrange(5) for _ in range(80)]
    predicted = [t + draw.randrange(4) for t in true]
    ours = metrics.regression(predicted, true)
    assert ours["pearson"] == pytest.approx(stats.pearsonr(predicted, true).statistic)
    assert ours["spearman"] == pytest.approx(stats.spearmanr(predicted, true).statistic)
    assert metrics.regression([1.0, 1.0], [0.0, 2.0]) == {"pearson": 0.0, "spearman": 0.0, "mse": 1.0, "mae": 1.0}


def test_entities_equal_seqeval():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pytest.importorskip("seqeval.metrics")
    draw = random.Random(0)
    true = [[draw.choice(TAGS) for _ in range(draw.randint(1, 12))] for _ in range(200)]
    predicted = [[t if draw.random() < 0.8 else draw.choice(TAGS) for t in tags] for tags in true]
    ours = metrics.entities(predicted, true)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ours["entity_f1"] == pytest.approx(theirs.f1_score(true, predicted))
        assert ours["entity_precision"] == pytest.approx(theirs.precision_score(true, predicted))
        assert ours["entity_recall"] == pytest.approx(theirs.recall_score(true, predicted))
        assert ours["token_accuracy"] == pytest.approx(theirs.accuracy_score(true, predicted))
        report = theirs.classification_report(true, predicted, output_dict=True)
    for kind, row in metrics.entity_table(predicted, true).items():
        assert row["f1"] == pytest.approx(report[kind]["f1-score"])
        assert row["support"] == report[kind]["support"]


def test_spans_begin_where_their_type_does():
    assert metrics.spans(["I-a", "I-a", "I-b", "B-b", "O"]) == {("a", 0, 2), ("b", 2, 3), ("b", 3, 4)}
    assert metrics.spans(["NOUN", "O", "NOUN"]) == {("NOUN", 0, 1), ("NOUN", 2, 3)}


@pytest.mark.parametrize(
    ("predicted", "true", "exact", "f1"),
    [
        ("The Eiffel Tower!", ["eiffel tower"], 1.0, 1.0),
        ("in Paris", ["Paris"], 0.0, 2 / 3),
        ("London", ["Paris", "London"], 1.0, 1.0),
        ("", ["Paris"], 0.0, 0.0),
        ("the", ["a"], 1.0, 1.0),
    ],
)
def test_answers_are_compared_as_squad_does(predicted, true, exact, f1):
    assert metrics.answer_scores(predicted, true) == (exact, pytest.approx(f1))


def test_perplexity_and_calibration():
    assert metrics.perplexity(math.log(7)) == pytest.approx(7)
    assert metrics.perplexity(1e9) == math.inf
    error, bins = metrics.calibration([0.95, 0.95, 0.55, 0.55, 1.0], [True, True, True, False, True])
    assert [row[2] for row in bins] == [2, 3]
    assert error == pytest.approx((abs(0.55 - 0.5) * 2 + abs((0.95 * 2 + 1) / 3 - 1) * 3) / 5)


def test_rouge_is_that_of_the_package():
    pytest.importorskip("rouge_score")
    from bert_pytorch.finetuning.generating import rouge

    figures = rouge(["the cat sat", "dog"], ["the cat ran", "dog"])
    assert figures["rouge1"] == pytest.approx((2 / 3 + 1) / 2)
    assert figures["exact_match"] == 0.5


def test_a_bootstrap_interval_covers_the_truth_as_often_as_it_says():
    draw = random.Random(0)
    covered = 0
    for trial in range(100):
        differences = [0.1 + draw.gauss(0, 0.5) for _ in range(60)]
        interval = bootstrap(differences, 400, trial)
        covered += interval.low <= 0.1 <= interval.high
    assert 85 <= covered <= 100
    assert bootstrap([0.3] * 20, 200) == (pytest.approx(0.3),) * 3


def test_an_interval_of_few_values_is_students():
    stats = pytest.importorskip("scipy.stats")
    values = [0.82, 0.79, 0.84, 0.8]
    ours = mean_interval(values)
    low, high = stats.t.interval(0.95, 3, loc=sum(values) / 4, scale=stats.sem(values))
    assert (ours.low, ours.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))
    assert ours.excludes_zero
    assert not mean_interval([-0.1, 0.1]).excludes_zero
    with pytest.raises(ValueError, match="two values"):
        mean_interval([1.0])
