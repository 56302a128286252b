"""The learning rate over the run, and which parameters decay."""

import json
import warnings
from itertools import pairwise

import pytest
import torch
from transformers.optimization import get_scheduler

from bert_pytorch.errors import InputError
from bert_pytorch.trainer.optim_schedule import ScheduledOptim
from bert_pytorch.trainer.schedules import SCHEDULES

from .examples import D, make_bert, make_trainer


def make_optimizer(*rates):
    groups = [{"params": [torch.nn.Parameter(torch.ones(3))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups, lr=1.0)


def run(schedule, optimizer, n_steps):
    """The rate at which each step is taken, and then that of the step after the last."""
    rates = []
    for _ in range(n_steps):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step_and_update_lr()
    return [*rates, optimizer.param_groups[0]["lr"]]


def rates_of(n_steps, warmup, total=None, peak=0.5, schedule="linear", **settings):
    optimizer = make_optimizer(peak)
    scheduled = ScheduledOptim(optimizer, 768, warmup, n_total_steps=total, schedule=schedule, schedule_settings=settings)
    return run(scheduled, optimizer, n_steps)


def rates_of_transformers(n_steps, warmup, total, peak, schedule, settings):
    """The rate of each step, and of the step after the last, by Transformers itself."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=peak)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It warns where both the run's length and that of the peak are given.
        theirs = get_scheduler(schedule, optimizer, warmup, total, dict(settings))
    rates = []
    for _ in range(n_steps + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    return rates


def test_the_rate_rises_evenly_to_the_peak_and_falls_evenly_to_zero():
    rates = rates_of(10, warmup=4, total=10, peak=0.5)
    assert max(rates) == 0.5
    assert rates[-1] == 0.0
    assert rates == pytest.approx([0.125, 0.25, 0.375, 0.5, 0.5, 5 / 12, 4 / 12, 3 / 12, 2 / 12, 1 / 12, 0.0])


@pytest.mark.parametrize(("warmup", "total"), [(0, 1), (0, 7), (1, 2), (1, 7), (6, 7), (3, 1000)])
def test_the_peak_is_reached_every_step_moves_and_the_end_is_exactly_zero(warmup, total):
    rates = rates_of(total, warmup, total, peak=3e-4)
    assert max(rates) == 3e-4
    assert min(rates[:-1]) > 0
    assert rates[-1] == 0.0
    moves = [later - earlier for earlier, later in pairwise(rates)]
    assert moves[: max(warmup - 1, 0)] == pytest.approx([3e-4 / max(warmup, 1)] * max(warmup - 1, 0))
    assert moves[warmup:] == pytest.approx([-3e-4 / (total - warmup)] * (total - warmup))


def test_the_rate_is_never_negative_beyond_the_plan():
    assert rates_of(9, warmup=1, total=5)[5:] == [0.0] * 5


def test_without_a_known_end_the_rate_stays_at_the_peak():
    assert rates_of(500, warmup=4, peak=0.5)[3:] == [0.5] * 498


def test_no_warm_up_starts_at_the_peak():
    assert rates_of(3, warmup=0, peak=0.25) == [0.25] * 4


def test_the_peak_does_not_depend_on_the_model_size():
    for d_model in (1, 768, 4096):
        optimizer = make_optimizer(0.5)
        assert max(run(ScheduledOptim(optimizer, d_model, 2), optimizer, 5)) == 0.5


def test_each_parameter_group_has_the_peak_of_its_own():
    optimizer = make_optimizer(0.5, 0.25)
    schedule = ScheduledOptim(optimizer, 768, 2, n_total_steps=4)
    seen = []
    for _ in range(5):
        seen.append([group["lr"] for group in optimizer.param_groups])
        schedule.step_and_update_lr()
    assert seen == [[0.25, 0.125], [0.5, 0.25], [0.5, 0.25], [0.25, 0.125], [0.0, 0.0]]


@pytest.mark.parametrize(("warmup", "total"), [(5, 5), (6, 5), (10_000, 30)])
def test_a_warm_up_longer_than_the_run_is_an_error_with_both_numbers(warmup, total):
    with pytest.raises(ValueError, match=rf"\b{warmup}\b.*\b{total}\b.*\[E-SCHEDULE-WARMUP\]$"):
        ScheduledOptim(make_optimizer(0.5), 768, warmup, n_total_steps=total)


def test_a_negative_warm_up_is_an_error():
    with pytest.raises(ValueError, match=r"-1.*\[E-SCHEDULE-WARMUP\]$"):
        ScheduledOptim(make_optimizer(0.5), 768, -1)


def test_it_is_used_as_in_the_ancestor():
    optimizer = make_optimizer(0.5)
    schedule = ScheduledOptim(optimizer, 768, n_warmup_steps=4)
    weight = optimizer.param_groups[0]["params"][0]
    weight.sum().backward()
    schedule.zero_grad()
    assert weight.grad is None or not weight.grad.any()
    weight.sum().backward()
    schedule.step_and_update_lr()
    assert (schedule.n_current_steps, schedule.n_warmup_steps) == (1, 4)
    assert weight.tolist() == pytest.approx([1 - 0.125] * 3)


def test_a_schedule_goes_on_from_its_state():
    whole = rates_of(10, warmup=4, total=10)
    for n_done in (0, 3, 4, 7, 10):
        optimizer = make_optimizer(0.5)
        schedule = ScheduledOptim(optimizer, 768, 4, n_total_steps=10)
        run(schedule, optimizer, n_done)
        later = make_optimizer(0.5)
        resumed = ScheduledOptim(later, 768, 4, n_total_steps=10)
        resumed.load_state_dict(schedule.state_dict())
        assert run(resumed, later, 10 - n_done) == whole[n_done:]


class Sized(list):
    """A loader that says it has many batches."""

    def __len__(self):
        return 50_000


@pytest.mark.parametrize(
    ("loader", "options", "warmup"),
    [
        ([None] * 7, {}, 7),
        (Sized(), {}, 10_000),
        (iter(()), {}, 10_000),
        ([None] * 7, {"warmup_steps": 0}, 0),
        ([None] * 7, {"warmup_steps": 3}, 3),
        ([None] * 7, {"warmup_steps": 400}, 400),
    ],
)
def test_the_default_warm_up_is_the_ancestors_but_at_most_one_pass(loader, options, warmup):
    assert make_trainer(loader, **options).optim_schedule.n_warmup_steps == warmup


@pytest.mark.parametrize("max_steps", [1, 2, 6, 7, 8, 100])
@pytest.mark.parametrize("loader", [[None] * 7, iter(())])
def test_the_default_warm_up_always_fits_a_run_of_known_length(loader, max_steps):
    schedule = make_trainer(loader, max_steps=max_steps).optim_schedule
    assert 0 <= schedule.n_warmup_steps < max_steps
    assert schedule.n_warmup_steps <= 7 or max_steps > 7


def test_the_trainers_rate_is_the_peak_and_has_an_effect():
    rates, moved = {}, {}
    for lr in (1e-3, 1e-2):
        trainer = make_trainer(lr=lr, warmup_steps=0, dropout=0.0)
        before = trainer.bert.embedding.token.weight.detach().clone()
        rates[lr] = {group["lr"] for group in trainer.optim.param_groups}
        trainer.train(0)
        moved[lr] = (trainer.bert.embedding.token.weight - before).abs().max().item()
    assert rates == {1e-3: {1e-3}, 1e-2: {1e-2}}
    assert moved[1e-2] > 3 * moved[1e-3] > 0


def test_a_run_of_known_length_ends_at_rate_zero():
    trainer = make_trainer(lr=0.01, warmup_steps=2, max_steps=9)
    for epoch in range(3):
        trainer.train(epoch)
    assert [group["lr"] for group in trainer.optim.param_groups] == [0.0, 0.0]


def test_decay_shrinks_weights_and_nothing_else():
    trainer = make_trainer(lr=0.1, warmup_steps=0, weight_decay=0.3)
    names = {id(value): name for name, value in trainer.model.named_parameters()}
    groups = trainer.optim.param_groups
    decayed = {names[id(value)] for group in groups if group["weight_decay"] for value in group["params"]}
    exempt = {
        names[id(value)] for group in trainer.optim.param_groups if not group["weight_decay"] for value in group["params"]
    }
    assert {group["weight_decay"] for group in trainer.optim.param_groups} == {0.3, 0.0}
    assert decayed | exempt == set(names.values())
    assert not decayed & exempt
    assert [name for name in decayed if name.endswith("bias") or "norm" in name] == []
    assert "bert.embedding.token.weight" in decayed
    assert "bert.transformer_blocks.0.feed_forward.w_1.weight" in decayed
    assert {"bert.embedding.position.weight", "bert.embedding.segment.weight"} <= exempt
    assert len(decayed) == 1 + 4 + 3
    assert sum(len(group["params"]) for group in groups) == len(names)


def test_decay_is_decoupled_from_the_gradient():
    trainer = make_trainer(lr=0.1, warmup_steps=0, weight_decay=0.3)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    for value in trainer.model.parameters():
        value.grad = torch.zeros_like(value)
    trainer.optim_schedule.step_and_update_lr()
    exempt = {id(value) for group in trainer.optim.param_groups if not group["weight_decay"] for value in group["params"]}
    for name, value in trainer.model.named_parameters():
        factor = 1.0 if id(value) in exempt else 1 - 0.1 * 0.3
        assert torch.allclose(value, before[name] * factor, atol=1e-7), name


def test_settings_of_the_optimiser_are_those_given():
    trainer = make_trainer(betas=(0.7, 0.8), weight_decay=0.0)
    assert {group["betas"] for group in trainer.optim.param_groups} == {(0.7, 0.8)}
    assert {group["weight_decay"] for group in trainer.optim.param_groups} == {0.0}
    assert make_bert().hidden == D


def test_a_new_peak_given_during_the_run_has_its_effect():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=0.5)
    schedule = ScheduledOptim(optimizer, 15, 4)
    schedule.step_and_update_lr()
    schedule.init_lr = 2.0
    assert schedule.init_lr == 2.0
    assert optimizer.param_groups[0]["lr"] == 2.0 * 2 / 4


TRANSFORMERS = [
    ("linear", {}),
    ("cosine", {}),
    ("cosine", {"num_cycles": 1.25}),
    ("cosine_with_restarts", {}),
    ("cosine_with_restarts", {"num_cycles": 3}),
    ("polynomial", {}),
    ("polynomial", {"lr_end": 1e-3, "power": 2.5}),
    ("constant_with_warmup", {}),
    ("inverse_sqrt", {}),
    ("inverse_sqrt", {"timescale": 5}),
    ("warmup_stable_decay", {"num_decay_steps": 11}),
    ("warmup_stable_decay", {"num_decay_steps": 11, "num_stable_steps": 13}),
    ("warmup_stable_decay", {"num_decay_steps": 11, "decay_type": "linear", "warmup_type": "cosine"}),
    ("warmup_stable_decay", {"num_decay_steps": 11, "decay_type": "1-sqrt", "warmup_type": "1-sqrt", "min_lr_ratio": 0.25}),
    ("warmup_stable_decay", {"num_decay_steps": 11, "num_cycles": 1.5}),
    ("cosine_with_min_lr", {"min_lr": 1e-3}),
    ("cosine_with_min_lr", {"min_lr_rate": 0.25, "num_cycles": 1.5}),
]


@pytest.mark.parametrize("warmup", [0, 1, 7])
@pytest.mark.parametrize(("schedule", "settings"), TRANSFORMERS)
def test_each_schedule_is_that_of_transformers_but_for_a_warm_up_that_is_one_step_ahead(schedule, settings, warmup):
    """Transformers begins its warm-up at rate 0, a step that moves nothing; step k here has the rate of its step k + 1."""
    ours = rates_of(41, warmup, 41, 3e-2, schedule, **settings)
    theirs = rates_of_transformers(41, warmup, 41, 3e-2, schedule, settings)
    assert ours[:warmup] == pytest.approx(theirs[1 : warmup + 1], rel=1e-12)
    assert ours[warmup:] == pytest.approx(theirs[warmup:], rel=1e-12, abs=1e-18)
    assert ours[0] > 0


def test_every_schedule_is_compared_with_transformers():
    assert {name for name, _ in TRANSFORMERS} | {"constant", "reduce_lr_on_plateau"} == set(SCHEDULES)
    assert rates_of(9, 0, 9, 0.5, "constant") == rates_of_transformers(9, 0, 9, 0.5, "constant", {}) == [0.5] * 10


def test_the_decay_after_a_stable_rate_has_a_tenth_of_the_run_where_no_length_is_given():
    by_default = rates_of(40, 3, 40, schedule="warmup_stable_decay")
    assert by_default == rates_of(40, 3, 40, schedule="warmup_stable_decay", num_decay_steps=4)
    assert by_default[2:37] == [0.5] * 35
    assert by_default[37] < 0.5
    assert by_default[40] == 0.0
    assert rates_of(40, 3, 40, schedule="warmup_stable_decay", num_stable_steps=30)[33:35] == [
        0.5,
        pytest.approx(0.5 * 0.9505, rel=1e-3),
    ]
    assert rates_of(5, 3, 5, schedule="warmup_stable_decay")[-2:] == [0.5, 0.0]
    assert rates_of(7, 2, None, schedule="warmup_stable_decay", num_stable_steps=2, num_decay_steps=3)[4:] == pytest.approx(
        [0.5, 0.375, 0.125, 0.0]
    )


@pytest.mark.parametrize("schedule", ["cosine", "cosine_with_restarts", "polynomial", "cosine_with_min_lr"])
def test_beyond_the_plan_the_rate_stays_where_it_ended(schedule):
    settings = {"min_lr_rate": 0.1} if schedule == "cosine_with_min_lr" else {}
    rates = rates_of(29, 3, 17, schedule=schedule, **settings)
    assert rates[17:] == [min(rates)] * 13


def test_each_group_ends_at_the_least_rate_that_was_given():
    for schedule, name in (("polynomial", "lr_end"), ("cosine_with_min_lr", "min_lr")):
        optimizer = make_optimizer(0.5, 0.25)
        run(
            ScheduledOptim(optimizer, 768, 2, n_total_steps=7, schedule=schedule, schedule_settings={name: 0.125}), optimizer, 7
        )
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([0.125, 0.125])


@pytest.mark.parametrize(
    ("schedule", "settings", "message"),
    [
        ("cosin", {}, "schedule 'cosin' is unknown; did you mean cosine?"),
        ("greedy", {}, "expected one of: linear, cosine, cosine_with_restarts, polynomial"),
        ("cosine", {"num_cycle": 1}, "schedule cosine has no setting 'num_cycle'; did you mean num_cycles?"),
        ("cosine", {"power": 2}, "schedule cosine has no setting 'power'; expected one of: num_cycles"),
        ("linear", {"power": 2}, "schedule linear has no setting 'power'; leave it out"),
        ("reduce_lr_on_plateau", {"patients": 2}, "did you mean patience?"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_right_one(schedule, settings, message):
    with pytest.raises(InputError) as caught:
        rates_of(1, 0, 9, schedule=schedule, **settings)
    assert message in str(caught.value)
    assert caught.value.code == "E-SCHEDULE-NAME"


@pytest.mark.parametrize(
    ("schedule", "settings", "message"),
    [
        ("cosine", {"num_cycles": "many"}, "num_cycles is 'many', expected a number of at least 0"),
        ("cosine", {"num_cycles": float("nan")}, "num_cycles is nan"),
        ("cosine", {"num_cycles": True}, "num_cycles is True"),
        ("inverse_sqrt", {"timescale": 2.5}, "timescale is 2.5, expected a whole number of at least 1"),
        ("warmup_stable_decay", {"decay_type": "steep"}, "decay_type is 'steep', expected one of: linear, cosine, 1-sqrt"),
        ("warmup_stable_decay", {"min_lr_ratio": 1}, "expected a number of at least 0 and below 1"),
        ("warmup_stable_decay", {"num_decay_steps": 7}, "2 + 0 + 7 steps"),
        ("warmup_stable_decay", {"num_stable_steps": 8}, "2 + 8 + 0 steps"),
        ("warmup_stable_decay", {"num_stable_steps": 3, "num_decay_steps": 4}, "do not fit into 8"),
        ("cosine_with_min_lr", {}, "expected either min_lr or min_lr_rate"),
        ("cosine_with_min_lr", {"min_lr": 0.1, "min_lr_rate": 0.1}, "got both or none"),
        ("cosine_with_min_lr", {"min_lr": 0.5}, "min_lr is 0.5, but the peak rate is 0.5"),
        ("polynomial", {"lr_end": 0.75}, "lr_end is 0.75, but the peak rate is 0.5"),
        ("reduce_lr_on_plateau", {"factor": 1.0}, "factor is 1.0"),
        ("reduce_lr_on_plateau", {"mode": "low"}, "expected one of: min, max"),
    ],
)
def test_a_setting_out_of_its_range_is_an_error(schedule, settings, message):
    with pytest.raises(InputError) as caught:
        rates_of(1, 2, 8, schedule=schedule, **settings)
    assert message in str(caught.value)
    assert caught.value.code == "E-SCHEDULE-SETTING"


def test_a_peak_set_later_is_checked_too():
    schedule = ScheduledOptim(make_optimizer(0.5), 768, 0, n_total_steps=9, schedule="polynomial")
    with pytest.raises(InputError, match=r"lr_end is 1e-07, but the peak rate is 1e-08"):
        schedule.init_lr = 1e-8
    assert schedule.init_lr == 0.5


@pytest.mark.parametrize(
    "schedule", ["cosine", "cosine_with_restarts", "polynomial", "cosine_with_min_lr", "warmup_stable_decay"]
)
def test_a_schedule_that_needs_the_length_of_the_run_says_so(schedule):
    with pytest.raises(InputError, match=r"needs the length of the run; give n_total_steps.*\[E-SCHEDULE-SETTING\]$"):
        rates_of(1, 0, None, schedule=schedule)


def test_a_warm_up_has_no_effect_in_the_constant_schedule_and_is_an_error():
    with pytest.raises(InputError, match=r"use constant_with_warmup.*\[E-SCHEDULE-WARMUP\]$"):
        rates_of(1, 2, 9, schedule="constant")


def test_settings_may_come_as_text():
    assert rates_of(9, 2, 9, schedule="cosine", num_cycles="1.5") == rates_of(9, 2, 9, schedule="cosine", num_cycles=1.5)
    assert rates_of(9, 2, 9, schedule="inverse_sqrt", timescale=None) == rates_of(9, 2, 9, schedule="inverse_sqrt")


PLATEAUS = [
    {},
    {"patience": 1, "factor": 0.5},
    {"patience": 0, "factor": 0.3, "cooldown": 2, "min_lr": 0.01},
    {"patience": 1, "mode": "max", "threshold": 0.1},
    {"patience": 2, "threshold": 0.2, "threshold_mode": "abs"},
    {"patience": 0, "mode": "max", "threshold_mode": "abs", "threshold": 0.05, "eps": 0.2},
]


def metrics():
    generator = torch.Generator().manual_seed(3)
    return [*(torch.rand(41, generator=generator) * 2 - 0.5).tolist(), float("nan"), float("inf"), 0.5, 0.5, 0.5]


@pytest.mark.parametrize("settings", PLATEAUS)
def test_a_plateau_lowers_the_rates_by_the_rule_of_torch_and_goes_on_from_json(settings):
    ours, theirs = make_optimizer(0.5, 0.25), make_optimizer(0.5, 0.25)
    rule = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **settings)
    options = {"schedule": "reduce_lr_on_plateau", "schedule_settings": settings}
    schedule = ScheduledOptim(ours, 768, 0, **options)
    for metric in metrics():
        before = [group["lr"] for group in ours.param_groups]
        schedule.step_and_update_lr()
        is_lower = schedule.report_metric(metric)
        rule.step(metric)
        rates = [group["lr"] for group in ours.param_groups]
        assert rates == [group["lr"] for group in theirs.param_groups]
        assert is_lower == (rates != before)
        state = schedule.state_dict()
        ours = make_optimizer(0.5, 0.25)
        schedule = ScheduledOptim(ours, 768, 0, **options)
        schedule.load_state_dict(json.loads(json.dumps(state)))
        assert schedule.state_dict() == state
        assert [group["lr"] for group in ours.param_groups] == rates
    assert rates != [0.5, 0.25]


def test_a_plateau_warms_up_to_rates_it_may_have_lowered():
    optimizer = make_optimizer(0.5)
    settings = {"patience": 0, "factor": 0.5}
    schedule = ScheduledOptim(optimizer, 768, 4, schedule="reduce_lr_on_plateau", schedule_settings=settings)
    assert [schedule.report_metric(1.0), schedule.report_metric(1.0)] == [False, True]
    assert run(schedule, optimizer, 5) == [0.0625, 0.125, 0.1875, 0.25, 0.25, 0.25]
    assert schedule.init_lr == 0.5


def test_other_schedules_pay_no_heed_to_a_metric():
    schedule = ScheduledOptim(make_optimizer(0.5), 768, 0)
    assert [schedule.report_metric(1.0) for _ in range(20)] == [False] * 20
    assert schedule.optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("is_fused", [False, True])
def test_a_step_that_overflowed_moves_neither_weights_nor_rate(kind, is_fused):
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = kind([weight], lr=0.5, fused=is_fused)
    schedule = ScheduledOptim(optimizer, 768, 4, n_total_steps=9)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    rates, moved = [], []
    for factor in (1.0, float("inf"), 1.0, 1.0, float("nan"), 1.0):
        schedule.zero_grad()
        before = weight.detach().clone()
        rates.append(optimizer.param_groups[0]["lr"])
        scaler.scale(weight.sum() * factor).backward()
        schedule.step_and_update_lr(scaler)
        moved.append(not torch.equal(weight, before))
    assert moved == [True, False, True, True, False, True]
    assert rates == [0.125, 0.25, 0.25, 0.375, 0.5, 0.5]
    assert (schedule.n_current_steps, schedule.n_skipped_steps) == (6, 2)
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_a_scale_that_is_used_up_skips_steps_too():
    weight = torch.nn.Parameter(torch.ones(3))
    schedule = ScheduledOptim(torch.optim.SGD([weight], lr=0.5), 768, 4)
    scaler = torch.amp.GradScaler("cpu", init_scale=1e-45)
    for _ in range(3):
        scaler.scale(weight.sum() * float("inf")).backward()
        schedule.step_and_update_lr(scaler)
    assert (schedule.n_current_steps, schedule.n_skipped_steps) == (3, 3)


def test_a_scaler_that_is_off_changes_nothing():
    optimizer = make_optimizer(0.5)
    schedule = ScheduledOptim(optimizer, 768, 4)
    schedule.step_and_update_lr(torch.amp.GradScaler("cpu", enabled=False))
    assert (schedule.n_current_steps, schedule.n_skipped_steps, optimizer.param_groups[0]["lr"]) == (1, 0, 0.25)


def test_a_step_left_out_by_the_trainer_is_counted_and_the_plan_goes_on():
    optimizer = make_optimizer(0.5)
    schedule = ScheduledOptim(optimizer, 768, 4, n_total_steps=9)
    schedule.step_and_update_lr()
    schedule.skip()
    assert (schedule.n_current_steps, schedule.n_skipped_steps, optimizer.param_groups[0]["lr"]) == (2, 0, 0.375)
    resumed = ScheduledOptim(make_optimizer(0.5), 768, 4, n_total_steps=9)
    resumed.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    assert resumed.state_dict() == schedule.state_dict()
    assert resumed.optimizer.param_groups[0]["lr"] == 0.375


def test_the_state_of_an_older_file_is_taken_over():
    for options in ({}, {"schedule": "cosine"}, {"schedule": "reduce_lr_on_plateau"}):
        schedule = ScheduledOptim(make_optimizer(0.5), 768, 4, n_total_steps=9, **options)
        schedule.skip()
        schedule.load_state_dict({"n_current_steps": 2, "n_warmup_steps": 4, "n_total_steps": 9})
        assert (schedule.n_current_steps, schedule.n_skipped_steps) == (2, 0)
        assert schedule.optimizer.param_groups[0]["lr"] == 0.375


def test_a_new_peak_keeps_the_proportion_of_the_groups():
    optimizer = make_optimizer(0.5, 0.25)
    schedule = ScheduledOptim(optimizer, 768, 0)
    schedule.init_lr = 2.0
    assert [group["lr"] for group in optimizer.param_groups] == [2.0, 1.0]
