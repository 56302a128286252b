"""Every optimiser by its name: it is torch's own class, and Muon is two of them."""

import io

import pytest
import torch

from bert_pytorch import BERTLM
from bert_pytorch.errors import InputError, UnavailableError
from bert_pytorch.trainer import optim_schedule
from bert_pytorch.trainer.optim_schedule import ScheduledOptim
from bert_pytorch.trainer.optimizers import OPTIMIZERS, MuonWithAdamW, load_optimizer, make_optimizer, parameter_groups

from .examples import V, make_bert, same_tensors

# By name: the settings given, and the class with what it must have been called with.
CASES = [
    ("adamw_torch_fused", {}, "AdamW", {"fused": True}),
    ("adamw_torch", {"amsgrad": True}, "AdamW", {"amsgrad": True}),
    ("sgd", {}, "SGD", {}),
    ("sgd", {"momentum": 0.9, "nesterov": True}, "SGD", {"momentum": 0.9, "nesterov": True}),
    ("adagrad", {"lr_decay": 0.1}, "Adagrad", {"lr_decay": 0.1}),
    (
        "rmsprop",
        {"alpha": 0.7, "momentum": 0.5, "centered": True},
        "RMSprop",
        {"alpha": 0.7, "momentum": 0.5, "centered": True},
    ),
    ("nadam", {"momentum_decay": 0.01}, "NAdam", {"momentum_decay": 0.01}),
    ("nadamw", {}, "NAdam", {"decoupled_weight_decay": True}),
    ("radam", {"decoupled_weight_decay": True}, "RAdam", {"decoupled_weight_decay": True}),
    ("adamax", {}, "Adamax", {}),
    ("adadelta", {"rho": 0.8}, "Adadelta", {"rho": 0.8}),
    ("asgd", {"lambd": 0.01, "t0": 2, "alpha": 0.6}, "ASGD", {"lambd": 0.01, "t0": 2, "alpha": 0.6}),
    ("rprop", {"etas": (0.4, 1.3), "step_sizes": [1e-5, 3]}, "Rprop", {"etas": (0.4, 1.3), "step_sizes": (1e-5, 3)}),
    ("adafactor", {"beta2_decay": -0.7, "d": 1.5}, "Adafactor", {"beta2_decay": -0.7, "d": 1.5}),
]
ALL = [(name, settings) for name, settings, _, _ in CASES]
ALL += [("muon", {}), ("muon", {"adjust_lr_fn": "match_rms_adamw", "nesterov": False})]
muon_is_there = pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon")


def make_model(seed=0):
    bert = make_bert(n_layers=1, dropout=0.0, seed=seed)
    return BERTLM(bert, V)


def step(model, optimizer, seed):
    """One step on random gradients, the same for every model."""
    generator = torch.Generator().manual_seed(seed)
    for value in model.parameters():
        value.grad = torch.randn(value.shape, generator=generator)
    optimizer.step()


def steps(model, optimizer, seeds=range(3)):
    for seed in seeds:
        step(model, optimizer, seed)
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def optimizer_of(model, name, weight_decay=0.3, **options):
    return make_optimizer(name, parameter_groups(model, weight_decay, optim=name), lr=0.01, **options)


def needs(name):
    if name == "muon" and not hasattr(torch.optim, "Muon"):
        pytest.skip("this torch has no Muon")


def test_every_optimiser_is_tested():
    assert {name for name, _ in ALL} == set(OPTIMIZERS)


@pytest.mark.parametrize(("name", "settings", "class_name", "arguments"), CASES)
def test_three_steps_are_those_of_torchs_own_class(name, settings, class_name, arguments):
    ours, theirs = make_model(), make_model()
    groups = parameter_groups(theirs, 0.3)
    if name == "rprop":
        groups = [{"params": group["params"]} for group in groups]
    by_hand = getattr(torch.optim, class_name)(groups, lr=0.01, **arguments)
    optimizer = optimizer_of(ours, name, settings=settings)
    assert type(optimizer) is type(by_hand)
    assert [set(group) for group in optimizer.param_groups] == [set(group) for group in by_hand.param_groups]
    before = {name: value.detach().clone() for name, value in ours.state_dict().items()}
    after = steps(ours, optimizer)
    assert same_tensors(after, steps(theirs, by_hand))
    assert not same_tensors(before, after)


@muon_is_there
@pytest.mark.parametrize(
    ("settings", "arguments"),
    [
        ({}, {"lr": 0.02}),
        ({"muon_lr": 0.5, "momentum": 0.8, "ns_steps": 3}, {"lr": 0.5, "momentum": 0.8, "ns_steps": 3}),
        ({"adjust_lr_fn": "match_rms_adamw"}, {"lr": 0.01, "adjust_lr_fn": "match_rms_adamw"}),
    ],
)
def test_muon_moves_the_matrices_of_the_blocks_and_adamw_all_else(settings, arguments):
    ours, theirs = make_model(), make_model()
    blocks = dict(theirs.bert.transformer_blocks.named_parameters())
    matrices = [value for value in blocks.values() if value.dim() == 2]
    assert sorted(name.split(".", 1)[1] for name, value in blocks.items() if value.dim() == 2) == [
        "attention.output_linear.weight",
        "attention.qkv_linear.weight",
        "feed_forward.w_1.weight",
        "feed_forward.w_2.weight",
    ]
    ids = {id(value) for value in matrices}
    plain = parameter_groups(theirs, 0.3)
    rest = [{**group, "params": [value for value in group["params"] if id(value) not in ids]} for group in plain]
    muon = torch.optim.Muon(matrices, weight_decay=0.3, **arguments)
    adamw = torch.optim.AdamW(rest, lr=0.01, betas=(0.7, 0.8), eps=1e-3, fused=True)
    optimizer = optimizer_of(ours, "muon", betas=(0.7, 0.8), eps=1e-3, settings=settings)
    after = steps(ours, optimizer)
    for seed in range(3):
        step(theirs, muon, seed)
        step(theirs, adamw, seed)
    assert same_tensors(after, dict(theirs.state_dict()))


@muon_is_there
def test_muons_groups_hold_every_parameter_once_and_mark_who_moves_it():
    model = make_model()
    names = {id(value): name for name, value in model.named_parameters()}
    optimizer = optimizer_of(model, "muon")
    assert isinstance(optimizer, MuonWithAdamW)
    assert [(group["use_muon"], group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [
        (False, 0.01, 0.3),
        (False, 0.01, 0.0),
        (True, 0.02, 0.3),
    ]
    by_muon = {names[id(value)] for value in optimizer.param_groups[2]["params"]}
    assert {name.split(".")[1] for name in by_muon} == {"transformer_blocks"}
    decayed = {names[id(value)] for value in optimizer.param_groups[0]["params"]}
    assert {"bert.embedding.token.weight", "next_sentence.pooler.weight", "mask_lm.transform.weight"} <= decayed
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(names)


@pytest.mark.parametrize(("name", "settings"), ALL)
def test_a_run_goes_on_from_a_saved_optimiser_to_the_bit(name, settings):
    needs(name)
    whole = make_model()
    expected = steps(whole, optimizer_of(whole, name, settings=settings), range(5))
    model = make_model()
    optimizer = optimizer_of(model, name, settings=settings)
    steps(model, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for load in (load_optimizer, lambda optimizer, state: optimizer.load_state_dict(state)):
        file.seek(0)
        saved = torch.load(file, weights_only=True)
        resumed = make_model(seed=5)
        resumed.load_state_dict(saved["model"])
        later = optimizer_of(resumed, name, settings=settings)
        load(later, saved["optimizer"])
        assert same_tensors(later.state_dict(), saved["optimizer"])
        assert same_tensors(steps(resumed, later, range(3, 5)), expected)


@pytest.mark.parametrize(("name", "settings"), ALL)
def test_each_works_under_a_schedule_and_a_scaler(name, settings):
    needs(name)
    model, plain = make_model(), make_model()
    optimizer = optimizer_of(model, name, settings=settings)
    peaks = [group["lr"] for group in optimizer.param_groups]
    schedule = ScheduledOptim(optimizer, 15, 2, n_total_steps=6)
    reference = ScheduledOptim(optimizer_of(plain, name, settings=settings), 15, 2, n_total_steps=6)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for seed in range(4):
        for each, scheduled, scale in ((model, schedule, scaler), (plain, reference, None)):
            scheduled.zero_grad()
            generator = torch.Generator().manual_seed(seed)
            loss = sum((value * torch.randn(value.shape, generator=generator)).sum() for value in each.parameters())
            (loss if scale is None else scale.scale(loss)).backward()
            scheduled.step_and_update_lr(scale)
    assert [group["lr"] for group in optimizer.param_groups] == [peak * 0.5 for peak in peaks]
    assert same_tensors(dict(model.state_dict()), dict(plain.state_dict()))
    before = steps(model, optimizer, ())
    scaler.scale(sum((value * float("inf")).sum() for value in model.parameters())).backward()
    schedule.step_and_update_lr(scaler)
    assert same_tensors(before, steps(model, optimizer, ()))
    assert (schedule.n_current_steps, schedule.n_skipped_steps) == (5, 1)


@muon_is_there
def test_a_closure_is_run_once_for_both():
    model = make_model()
    optimizer = optimizer_of(model, "muon")
    calls = []

    def closure():
        calls.append(torch.is_grad_enabled())
        return 7.0

    with torch.no_grad():
        assert optimizer.step(closure) == 7.0
    assert calls == [True]
    steps(model, optimizer)
    optimizer.zero_grad()
    assert all(value.grad is None for value in model.parameters())


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("adam_torch", {}, "optim 'adam_torch' is unknown; did you mean adamw_torch?"),
        ("lion_32bit", {}, "expected one of: adamw_torch_fused, adamw_torch, sgd"),
        ("sgd", {"momentun": 0.9}, "optim sgd has no setting 'momentun'; did you mean momentum?"),
        ("sgd", {"rho": 0.9}, "optim sgd has no setting 'rho'; expected one of: momentum, dampening, nesterov"),
        ("adamax", {"rho": 0.9}, "optim adamax has no setting 'rho'; leave it out"),
        ("nadamw", {"decoupled_weight_decay": False}, "optim nadamw has no setting 'decoupled_weight_decay'"),
        ("adamw_torch", {"fused": True}, "optim adamw_torch has no setting 'fused'"),
        ("sgd", {"lr": 0.1}, "optim sgd has no setting 'lr'"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_right_one(name, settings, message):
    with pytest.raises(InputError) as caught:
        optimizer_of(make_model(), name, settings=settings)
    assert message in str(caught.value)
    assert caught.value.code == "E-OPTIM-NAME"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sgd", {"betas": (0.9, 0.98)}, "optim sgd has no betas; leave it out"),
        ("sgd", {"eps": 1e-6}, "optim sgd has no eps"),
        ("adagrad", {"betas": (0.9, 0.98)}, "optim adagrad has no betas"),
        ("adafactor", {"eps": 1e-6}, "optim adafactor has no eps"),
        ("asgd", {"eps": 1e-6}, "optim asgd has no eps"),
        ("sgd", {"settings": {"momentum": "much"}}, "optim sgd: momentum is 'much', expected a number"),
        ("sgd", {"settings": {"nesterov": "maybe"}}, "nesterov is 'maybe', expected true or false"),
        ("sgd", {"settings": {"nesterov": True}}, "Nesterov momentum requires a momentum and zero dampening"),
        ("rprop", {"settings": {"etas": 0.5}}, "etas is 0.5, expected 2 numbers"),
        ("rprop", {"settings": {"etas": (0.5, "x")}}, "expected 2 numbers"),
        ("adamw_torch", {"betas": (0.9, 1.5)}, "optim adamw_torch: Invalid beta"),
        ("sgd", {"settings": {"momentum": None}}, "momentum is None, expected a number"),
    ],
)
def test_a_setting_that_does_not_fit_is_an_error(name, options, message):
    with pytest.raises(InputError) as caught:
        optimizer_of(make_model(), name, **options)
    assert message in str(caught.value)
    assert caught.value.code == "E-OPTIM-SETTING"


@muon_is_there
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"muon_lr": -1}, "muon_lr is -1, expected a number of at least 0"),
        ({"ns_steps": 2.5}, "ns_steps is 2.5, expected a whole number"),
        ({"adjust_lr_fn": "none"}, "optim muon: Adjust learning rate function none is not supported"),
    ],
)
def test_a_setting_of_muon_that_does_not_fit_is_an_error(settings, message):
    with pytest.raises(InputError) as caught:
        optimizer_of(make_model(), "muon", settings=settings)
    assert message in str(caught.value)
    assert caught.value.code == "E-OPTIM-SETTING"


@muon_is_there
def test_muon_without_marked_groups_is_an_error():
    with pytest.raises(InputError, match=r"0 of 2 groups are marked use_muon.*\[E-OPTIM-SETTING\]$"):
        make_optimizer("muon", parameter_groups(make_model(), 0.1), lr=0.1)


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "muon"])
def test_the_usual_betas_and_eps_are_taken_by_every_optimiser(name):
    optimizer = optimizer_of(make_model(), name, betas=(0.9, 0.999), eps=1e-8)
    assert {group.get("betas", (0.9, 0.999)) for group in optimizer.param_groups} == {(0.9, 0.999)}


def test_betas_and_eps_reach_the_optimiser_and_text_becomes_numbers():
    model = make_model()
    group = optimizer_of(model, "radam", betas=[0.7, 0.8], eps=1e-3).param_groups[0]
    assert (group["betas"], group["eps"]) == ((0.7, 0.8), 1e-3)
    group = optimizer_of(model, "sgd", settings={"momentum": "0.9", "nesterov": "True"}).param_groups[1]
    assert (group["momentum"], group["nesterov"]) == (0.9, True)
    assert optimizer_of(model, "adadelta").param_groups[0]["eps"] == 1e-6


def test_the_decay_given_is_that_of_groups_that_state_none():
    model = make_model()
    groups = [{"params": [model.mask_lm.transform.weight]}, {"params": [model.mask_lm.transform.bias], "weight_decay": 0.0}]
    optimizer = make_optimizer("adamw_torch", groups, lr=0.1, weight_decay=0.25)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.25, 0.0]


def test_a_decay_that_rprop_does_not_have_is_an_error_only_where_it_is_asked_for():
    groups = parameter_groups(make_model(), 0.3)
    with pytest.raises(InputError, match=r"optim rprop has no weight_decay; leave it out \[E-OPTIM-SETTING\]$"):
        make_optimizer("rprop", groups, lr=0.1, weight_decay=0.3)
    assert all("weight_decay" not in group for group in make_optimizer("rprop", groups, lr=0.1).param_groups)


def test_a_torch_without_muon_says_which_one_has_it(monkeypatch):
    monkeypatch.delattr(torch.optim, "Muon", raising=False)
    with pytest.raises(
        UnavailableError, match=r"has no Muon, expected at least 2\.9; pip install 'torch>=2\.9' \[E-DEPENDENCY\]$"
    ):
        optimizer_of(make_model(), "muon")


def test_groups_are_found_where_they_were():
    assert optim_schedule.parameter_groups is parameter_groups
    assert optim_schedule.load_optimizer is load_optimizer
