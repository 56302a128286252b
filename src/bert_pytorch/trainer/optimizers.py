"""The optimisers of torch under the names of Transformers' `optim`, and the parameter groups they work on."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..errors import InputError, UnavailableError
from .choices import Setting, Value, check_name, number_of, read_settings

DEFAULT_OPTIM = "adamw_torch_fused"
MUON = "muon"
MUON_LR = 0.02

# By name: the class in torch.optim, and arguments that the name stands for.
OPTIMIZERS: dict[str, tuple[str, dict[str, bool]]] = {
    DEFAULT_OPTIM: ("AdamW", {"fused": True}),
    "adamw_torch": ("AdamW", {}),
    "sgd": ("SGD", {}),
    "adagrad": ("Adagrad", {}),
    "rmsprop": ("RMSprop", {}),
    "nadam": ("NAdam", {}),
    "nadamw": ("NAdam", {"decoupled_weight_decay": True}),
    "radam": ("RAdam", {}),
    "adamax": ("Adamax", {}),
    "adadelta": ("Adadelta", {}),
    "asgd": ("ASGD", {}),
    "rprop": ("Rprop", {}),
    "adafactor": ("Adafactor", {}),
    MUON: ("Muon", {}),
}
_SINCE = {"Muon": "2.9"}
_COMMON = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0}
# How torch computes, not what: no settings of a run.
_NO_SETTINGS = {"self", "params", "lr", *_COMMON, "foreach", "fused", "maximize", "capturable", "differentiable"}


def make_optimizer(
    name: str,
    groups: Iterable[dict[str, Any]],
    *,
    lr: float,
    betas: tuple[float, float] | None = None,
    eps: float | None = None,
    weight_decay: float | None = None,
    settings: Mapping[str, Value] | None = None,
) -> Optimizer:
    """Build an optimiser of torch by its name.

    `muon` is `MuonWithAdamW`; lr, betas and eps are then those of its AdamW.

    Args:
        name: One of `OPTIMIZERS`.
        groups: Parameter groups, as `parameter_groups` makes them; for `muon`, by its argument `optim="muon"`.
        lr: Peak learning rate.
        betas: Decay rates of the Adam family; None: (0.9, 0.999).
        eps: Added to the denominator; None: the default of the class.
        weight_decay: Of groups that state none of their own; None: the default of the class. Decoupled from the gradient in
            AdamW, `nadamw`, Adafactor and Muon, and part of it (L2) in the others; `rprop` has none.
        settings: Further arguments of the class in torch, under its names: momentum, nesterov, alpha, rho, ... For `muon` also
            `muon_lr`, its own peak rate: 0.02 by default, and `lr` with `adjust_lr_fn="match_rms_adamw"`.

    Returns:
        The optimiser.

    Raises:
        InputError: The optimiser or a setting is unknown, a value is out of its range, or a betas, eps or weight_decay that
            the optimiser does not have was given and is not the usual one.
        UnavailableError: This torch is too old for it.
    """
    check_name("optim", name, OPTIMIZERS, "[E-OPTIM-NAME]")
    class_name, fixed = OPTIMIZERS[name]
    make = _torch_class(name, class_name)
    known = _settings_of(make, fixed)
    values = read_settings(f"optim {name}", settings, known, "[E-OPTIM-NAME]", "[E-OPTIM-SETTING]")
    common: dict[str, Any] = {"betas": betas and tuple(betas), "eps": eps, "weight_decay": weight_decay}
    given = {key: value for key, value in common.items() if value is not None}
    if name == MUON:
        return _make_muon(make, list(groups), lr, given, values)
    lacks = [key for key in common if not _has(make, key)]
    for key in lacks:
        if given.pop(key, _COMMON[key]) != _COMMON[key]:
            raise InputError(f"optim {name} has no {key}; leave it out [E-OPTIM-SETTING]")
    own = [{key: value for key, value in group.items() if key not in lacks} for group in groups]
    return _make(name, make, own, {"lr": lr, **given, **fixed, **values})


class MuonWithAdamW(Optimizer):
    """Two optimisers of torch as one: Muon for the groups marked `use_muon`, AdamW for the others.

    Parameter groups and state are those of the two, not copies, so that gradient scalers, schedules and `state_dict` see one
    plain optimiser. The groups of AdamW come first.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/: Muon is for hidden matrices alone, with momentum
    0.95 and rate 0.02; `adjust_lr_fn="match_rms_adamw"` is that of Liu et al. 2025 (arXiv 2502.16982), section 2.2.
    """

    def __init__(self, muon: Optimizer, adamw: Optimizer) -> None:
        """Take two new optimisers together."""
        super().__init__([*adamw.param_groups, *muon.param_groups], {"lr": adamw.defaults["lr"]})
        self._muon, self._adamw = muon, adamw
        self._share()

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all parameters; returns the closure's loss where there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._adamw.step()
        self._muon.step()
        return loss

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the moments and settings of both."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        self._adamw.param_groups = [group for group in self.param_groups if not group["use_muon"]]
        self._muon.param_groups = [group for group in self.param_groups if group["use_muon"]]
        self._adamw.state = self._muon.state = self.state


def load_optimizer(optimizer: Optimizer, state: dict[str, Any]) -> None:
    """Take over the moments of a saved optimiser; the settings (betas, weight decay, ...) stay those of this one."""
    settings = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, own in zip(optimizer.param_groups, settings, strict=True):
        group.update(own)


def parameter_groups(model: nn.Module, weight_decay: float, *, optim: str = DEFAULT_OPTIM) -> list[dict[str, object]]:
    """Part a model's parameters into those that decay and those that do not: norms, biases, position and segment tables.

    Source: the optimiser of the released BERT code, which exempts norms and biases.
    `Differs:` the small tables are exempt too; a row that few examples touch would only shrink.

    Args:
        model: The model.
        weight_decay: Of those that decay.
        optim: The optimiser's name; for `muon` the matrices of the transformer blocks are a third group, marked `use_muon`.

    Returns:
        The groups.
    """
    decayed: list[Tensor] = []
    exempt: list[Tensor] = []
    hidden: list[Tensor] = []
    for name, parameter in model.named_parameters():
        is_table = name.endswith(("embedding.position.weight", "embedding.segment.weight"))
        if optim == MUON and parameter.dim() == 2 and "transformer_blocks." in name:
            hidden.append(parameter)
        else:
            (exempt if parameter.dim() < 2 or is_table else decayed).append(parameter)
    groups: list[dict[str, object]] = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": exempt, "weight_decay": 0.0},
    ]
    return [*groups, {"params": hidden, "weight_decay": weight_decay, "use_muon": True}] if hidden else groups


def _torch_class(name: str, class_name: str) -> Callable[..., Optimizer]:
    found = getattr(torch.optim, class_name, None)
    if found is None:
        since = _SINCE.get(class_name, "2.6")
        lacks = f"optim {name}: torch {torch.__version__} has no {class_name}"
        raise UnavailableError(f"{lacks}, expected at least {since}; pip install 'torch>={since}' [E-DEPENDENCY]")
    return found


def _settings_of(make: Callable[..., Optimizer], fixed: Mapping[str, bool]) -> dict[str, Setting]:
    """The arguments of a class that are settings of a run; their kinds follow from their defaults."""
    known: dict[str, Setting] = {}
    for name, parameter in inspect.signature(make).parameters.items():
        default = parameter.default
        if name in _NO_SETTINGS or name in fixed:
            continue
        if isinstance(default, bool):
            known[name] = Setting(default, "switch")
        elif isinstance(default, tuple):
            known[name] = Setting(default, "numbers", n_numbers=len(default))
        elif isinstance(default, int | float):
            # Some numbers have a whole one as default: the annotation tells.
            known[name] = Setting(default, "count" if parameter.annotation in (int, "int") else "number")
        else:
            known[name] = Setting(default, "word")
    if "adjust_lr_fn" in known:
        known["muon_lr"] = Setting(None, low=0)
    return known


def _has(make: Callable[..., Optimizer], name: str) -> bool:
    """Whether a class takes betas, eps or weight_decay as a user gives them; Adafactor's eps are two numbers."""
    parameter = inspect.signature(make).parameters.get(name)
    return parameter is not None and isinstance(parameter.default, tuple) == (name == "betas")


def _make_muon(
    make: Callable[..., Optimizer],
    groups: list[dict[str, Any]],
    lr: float,
    common: dict[str, Any],
    values: dict[str, Value],
) -> MuonWithAdamW:
    hidden = [group for group in groups if group.get("use_muon")]
    others = [{**group, "use_muon": False} for group in groups if not group.get("use_muon")]
    if not hidden or not others:
        got = f"{len(hidden)} of {len(groups)} groups are marked use_muon, expected some and not all"
        raise InputError(f"optim muon: {got}; make them by parameter_groups(..., optim='muon') [E-OPTIM-SETTING]")
    usual = lr if values["adjust_lr_fn"] == "match_rms_adamw" else MUON_LR
    own = {key: value for key, value in values.items() if key != "muon_lr"}
    own["lr"] = usual if values["muon_lr"] is None else number_of(values, "muon_lr")
    own.update({key: value for key, value in common.items() if key == "weight_decay"})
    adamw = _make(MUON, _torch_class(MUON, "AdamW"), others, {"lr": lr, "fused": True, **common})
    return MuonWithAdamW(_make(MUON, make, hidden, own), adamw)


def _make(
    name: str, make: Callable[..., Optimizer], groups: list[dict[str, Any]], arguments: Mapping[str, object]
) -> Optimizer:
    try:
        return make(groups, **arguments)
    except ValueError as error:
        raise InputError(f"optim {name}: {error}; change its settings [E-OPTIM-SETTING]") from error
