"""The learning rate over the run, and which parameters decay."""

from itertools import pairwise

import pytest
import torch

from bert_pytorch.trainer.optim_schedule import ScheduledOptim

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


def rates_of(n_steps, warmup, total=None, peak=0.5):
    optimizer = make_optimizer(peak)
    return run(ScheduledOptim(optimizer, 768, warmup, n_total_steps=total), optimizer, n_steps)


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
