"""Where training differs from 0.0.1a4 on purpose: its answer, then ours (clients/training_faults.py)."""

import math

import pytest


@pytest.fixture
def sides(run_both):
    return run_both("training", part="faults")


def test_not_next_counts_in_the_loss(sides):
    assert sides.theirs["criterion"]["one is next"] == pytest.approx(-math.log(0.75))
    assert sides.ours["criterion"]["one is next"] == pytest.approx(-(math.log(0.5) + math.log(0.875) + math.log(0.75)) / 3)


def test_a_batch_without_a_true_pair_has_a_loss(sides):
    assert math.isnan(sides.theirs["criterion"]["none is next"])
    assert sides.ours["criterion"]["none is next"] == pytest.approx(-(math.log(0.5) + math.log(0.875) + math.log(0.25)) / 3)


def test_a_batch_without_a_masked_word_loses_nothing(sides):
    assert math.isnan(sides.theirs["criterion"]["no masked word"])
    assert sides.ours["criterion"]["no masked word"] == 0.0


def test_lr_is_the_peak_rate(sides):
    # 1 / sqrt(hidden * warmup_steps), whatever lr is.
    assert sides.theirs["peak"]["peak"] == pytest.approx((6 * 3) ** -0.5)
    assert sides.ours["peak"]["peak"] == pytest.approx(0.01)


def test_lr_has_an_effect(sides):
    assert sides.theirs["peak"]["ratio"] == pytest.approx(1.0)
    assert sides.ours["peak"]["ratio"] == pytest.approx(100.0)


def test_the_default_warm_up_is_at_most_one_pass(sides):
    assert sides.theirs["warm-up"]["default"] == 10_000
    assert sides.ours["warm-up"]["default"] == 7


def test_no_warm_up_divides_by_nothing(sides):
    assert sides.theirs["warm-up"]["zero"] == ["divide by zero encountered in power"]
    assert sides.ours["warm-up"]["zero"] == []


def test_a_negative_warm_up_is_an_error(sides):
    assert math.isnan(sides.theirs["warm-up"]["negative"])
    assert "warmup_steps is -1, expected at least 0" in sides.ours["warm-up"]["negative"]["message"]


def test_weight_decay_is_decoupled_and_spares_norms_biases_and_segments(sides):
    assert sides.theirs["decay"] == {"optimizer": "Adam", "vectors": [0.05], "segments": 0.05, "words": 0.05}
    assert sides.ours["decay"] == {"optimizer": "AdamW", "vectors": [0.0], "segments": 0.0, "words": 0.05}


def test_a_steep_gradient_is_clipped(sides):
    assert sides.theirs["steep"] is True
    assert sides.ours["steep"] is False


def test_evaluation_has_no_dropout_and_no_gradients(sides):
    assert sides.theirs["test mode"] == {"training, gradients": [[True, True]], "training after": True}
    assert sides.ours["test mode"] == {"training, gradients": [[False, False]], "training after": True}


def test_an_average_does_not_depend_on_the_batch_size(sides):
    theirs, ours = sides.theirs["test losses"], sides.ours["test losses"]
    assert abs(theirs[0] - theirs[1]) > 1e-3
    assert ours[0] == pytest.approx(ours[1], abs=1e-5)


def test_train_and_test_return_what_they_measured(sides):
    assert sides.theirs["returned"] == {"reports": [None, None], "printed": True}
    assert sides.ours["returned"] == {"reports": [[True] * 5, [True] * 5], "printed": False}


def test_save_makes_the_folder(sides):
    assert sides.theirs["files"]["folder is made"]["raised"][0] == "RuntimeError"
    assert sides.ours["files"]["folder is made"] == ["deep/bert.model.ep0", True]


def test_a_checkpoint_loads_under_the_defaults_of_torch_load(sides):
    assert sides.theirs["files"]["safe load"]["raised"][0] == "UnpicklingError"
    assert {"format", "model", "model_config", "optimizer", "schedule", "random"} <= set(sides.ours["files"]["safe load"])


def test_a_checkpoint_is_no_pickled_object(sides):
    assert sides.theirs["files"]["whole object"] is True
    assert sides.ours["files"]["whole object"] is False


def test_a_checkpoint_holds_heads_and_optimiser_and_can_be_resumed(sides):
    theirs, ours = sides.theirs["files"], sides.ours["files"]
    assert [theirs["heads"], theirs["optimizer"], theirs["resume"]] == [False, False, False]
    assert [ours["heads"], ours["optimizer"], ours["resume"]] == [True, True, True]


def test_a_loss_that_is_no_number_ends_the_run(sides):
    assert sides.theirs["not a number"] == "trained"
    assert "RuntimeError" in sides.ours["not a number"]["raised"]
    assert "the loss is nan" in sides.ours["not a number"]["message"]


@pytest.mark.parametrize(
    ("case", "theirs", "ours"),
    [
        ("key missing", "KeyError", "got keys ['bert_input', 'is_next', 'segment_label'] [E-BATCH-KEYS]"),
        ("id outside", "IndexError", "bert_label holds 45, expected 0 to 22"),
        ("no test data", "TypeError", "there is no test data; give test_dataloader"),
        ("nothing to train on", "ZeroDivisionError", "the loader gave no batch"),
        ("log_freq=0", "ZeroDivisionError", "log_freq is 0, expected at least 1"),
    ],
)
def test_a_fault_of_the_caller_is_named(sides, case, theirs, ours):
    assert sides.theirs[case]["raised"][0] == theirs
    assert "ValueError" in sides.ours[case]["raised"]
    assert ours in sides.ours[case]["message"]


def test_a_rate_without_effect_is_an_error(sides):
    assert sides.theirs["lr=0.0"] == "trained"
    assert "lr is 0.0, expected a number above 0" in sides.ours["lr=0.0"]["message"]
