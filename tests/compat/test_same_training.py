"""The trainer, and training loops of a user's own, run as with 0.0.1a4 (clients/training.py)."""

import math

import pytest


@pytest.fixture
def sides(run_both):
    return run_both("training")


def test_a_trainer_keeps_what_it_is_given(sides):
    for side in sides:
        assert side["constructed"] == {
            "bert": [True, True],
            "data": [True, True, True],
            "device": "cpu",
            "log_freq": [3, 7],
            "optimizer": [True, [0.8, 0.99]],
            "weight_decay": [0.05, 0.05],
            "schedule": [True, 11],
            "criterion": True,
            "all parameters": True,
        }


def test_train_save_and_test_as_the_command_runs_them(sides):
    for side in sides:
        assert side["passes"]["steps"] == 6
        assert side["passes"]["bert learned"] is True
        assert side["passes"]["test changes nothing"] == [True, True]
        assert side["passes"]["goes on after save"] == [5, 7, 23]


def test_save_returns_the_path_it_wrote(sides):
    for side in sides:
        assert side["passes"]["paths"] == ["bert.model.ep0", "bert.model.ep1"]
        assert side["passes"]["files"] == [True, True]
        assert side["passes"]["default path"] == ["output/bert_trained.model.ep2", True]
        assert side["passes"]["loads"] is True


def test_a_loader_of_the_users_own(sides):
    for side in sides:
        assert side["own loader"] == 6


def test_a_training_loop_of_the_users_own(sides):
    for side in sides:
        assert side["own loop"] == {
            "shapes": [[5, 2], [5, 7, 23], []],
            "finite": True,
            "steps": 3,
            "correct": True,
            "moved": True,
        }


def test_a_trainer_class_of_the_users_own(sides):
    for side in sides:
        assert side["own trainer"] == [3, True]


def test_the_loss_of_known_probabilities(sides):
    for side in sides:
        assert side["criterion"]["all are next"] == pytest.approx(-(math.log(0.75) + math.log(0.5) + math.log(0.125)) / 3)
        assert side["criterion"]["masked words"] == pytest.approx(-(2 * math.log(0.5) + math.log(0.02)) / 3)


def test_a_criterion_of_the_users_own(sides):
    for side in sides:
        assert side["own criterion"] == 3


def test_a_schedule_around_an_optimiser_of_the_users_own(sides):
    for side in sides:
        assert side["schedule"] == {
            "warm-up": [11, 7],
            "steps": [3, 0],
            "rises evenly": True,
            "weights move": True,
            "gradients are cleared": True,
            "init_lr": True,
        }
