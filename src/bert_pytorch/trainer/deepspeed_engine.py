"""DeepSpeed as the engine of a run: what `--deepspeed FILE` asks of it, filled up from the settings.

Its ZeRO stages share moments (1), gradients (2) and weights (3) out over the processes. Checkpoints stay ours, whole, so that a
run goes on with or without it and with any number of processes.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from ..dataset.loader import BatchLoader
from ..errors import InputError, UnreadableError
from ..extras import import_extra
from .optim_schedule import ScheduledOptim
from .update import Update

if TYPE_CHECKING:
    from .arguments import TrainingArguments
    from .pretrain import BERTTrainer

_MOMENTS = ("exp_avg", "exp_avg_sq")
_AUTO = "auto"


class Engine(Update):
    """Updates the weights of a trainer by DeepSpeed."""

    def __init__(self, trainer: BERTTrainer) -> None:
        """Hand the trainer's model and optimiser over; they hold what a checkpoint gave them, if one did.

        Raises:
            InputError: The file cannot be used, or says other than the settings.
            UnavailableError: `deepspeed` is not installed.
        """
        super().__init__(trainer.device, trainer.args)
        deepspeed = _import(trainer.device)
        config = read_config(trainer.args, _rows_of(trainer), trainer.world.size)
        if not dist.is_initialized():
            os.environ.setdefault("LOCAL_RANK", "0")
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self._base, before = trainer.optim, trainer.optim.state_dict()
        self._groups = [{**group, "params": list(group["params"])} for group in trainer.optim.param_groups]
        self._weights = dict(trainer.language_model.state_dict(keep_vars=True))
        self._engine, *_ = deepspeed.initialize(
            model=trainer.objective, optimizer=trainer.optim, config=config, dist_init_required=False
        )
        self._norm, self._fragments = torch.zeros(()), deepspeed.utils
        self._take(before)
        trainer.objective = self._engine

    @contextmanager
    def exchanging(self, module: nn.Module, *, is_last: bool) -> Iterator[None]:
        """As `Update.exchanging`."""
        self._engine.set_gradient_accumulation_boundary(is_last)
        yield

    def autocast(self) -> torch.autocast:
        """Nothing: the engine decides the type of the weights."""
        return torch.autocast(self._device_type, enabled=False)

    def backward(self, sums: Tensor, n_targets: int, n_answers: int, n_ranks: int = 1) -> None:
        """As `Update.backward`."""
        self._engine.backward(self.share_of(sums, n_targets, n_answers) * n_ranks, scale_wrt_gas=False)

    def clip(self, optim_schedule: ScheduledOptim, parameters: Iterable[nn.Parameter], max_grad_norm: float | None) -> Tensor:
        """The norm, `[]`, which `step` fills in: the engine clips where it steps."""
        self._norm = torch.zeros(())
        return self._norm

    def step(self, optim_schedule: ScheduledOptim, is_good: Tensor | None = None) -> None:
        """As `Update.step`."""
        self._engine.step()
        norm = self._engine.get_global_grad_norm()
        self._norm.fill_(0.0 if norm is None else float(norm))
        optim_schedule.skip()

    def weights(self, model: nn.Module) -> dict[str, Tensor]:
        """Whole weights, in float32 where the engine has them so."""
        made: dict[int, Tensor] = {}
        for value in self._weights.values():
            if id(value) not in made:
                whole = self._fragments.safe_get_full_fp32_param(value) if isinstance(value, nn.Parameter) else None
                made[id(value)] = (value if whole is None else whole).detach().clone()
        return {name: made[id(value)] for name, value in self._weights.items()}

    def moments(self, optimizer: Optimizer) -> dict[str, Any]:
        """The state of the optimiser, as if it had whole tensors."""
        state: dict[int, dict[str, Tensor]] = {}
        number, groups = 0, []
        steps = [each["step"] for each in self._base.state.values() if "step" in each]
        for group in self._groups:
            numbers = []
            for value in group["params"]:
                own = {name: self._fragments.safe_get_full_optimizer_state(value, name) for name in _MOMENTS}
                if steps and all(each is not None for each in own.values()):
                    moments = {name: each.detach().clone() for name, each in own.items()}
                    state[number] = {"step": torch.as_tensor(steps[0]).detach().clone(), **moments}
                numbers.append(number)
                number += 1
            groups.append({**group, "params": numbers})
        for group, now in zip(groups, self._base.param_groups, strict=True):
            group.update({name: value for name, value in now.items() if name != "params"})
        return {"state": state, "param_groups": groups}

    def _take(self, before: Mapping[str, Any]) -> None:
        """Go on from the moments that a checkpoint had put into the optimiser."""
        self._make_moments()
        values = [value for group in self._groups for value in group["params"]]
        for number, own in before["state"].items():
            for name in _MOMENTS:
                self._fragments.safe_set_full_optimizer_state(values[int(number)], own[name], name)
        steps = [own["step"] for own in before["state"].values()]
        for each in self._base.state.values():
            if steps and "step" in each:
                each["step"] = torch.as_tensor(steps[0]).clone() if isinstance(each["step"], Tensor) else int(steps[0])

    def _make_moments(self) -> None:
        """Let the moments be there before the first step.

        DeepSpeed links weights with moments behind the first step of the first group of weights, when those of the second are
        not there yet, and never finds them later.
        """
        zero = self._engine.optimizer
        names = ("single_partition_of_fp32_groups", "fp32_partitioned_groups_flat")
        flat = next((getattr(zero, name) for name in names if hasattr(zero, name)), [])
        for value in flat:
            moments = {name: torch.zeros_like(value) for name in _MOMENTS}
            self._base.state[value] = {"step": torch.zeros(()), **moments}
        link = getattr(zero, "_lazy_init_hp_params_optimizer_state", None)
        if link is not None:
            link()


def engage(trainer: BERTTrainer) -> None:
    """Hand a trainer over, once, before its first step; raises as `Engine`."""
    if not isinstance(trainer.update, Engine):
        trainer.update = Engine(trainer)


def read_config(args: TrainingArguments, n_rows: int, n_ranks: int) -> dict[str, Any]:
    """The file that `args.deepspeed` names, with "auto" filled in.

    Args:
        args: The settings.
        n_rows: Rows a batch of one process.
        n_ranks: Processes.

    Raises:
        InputError: It cannot be read, or contradicts a setting; the message names both.
    """
    path = str(args.deepspeed)
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise UnreadableError.of(path, error, "give a DeepSpeed configuration [E-DEEPSPEED-CONFIG]") from error
    except ValueError as error:
        raise InputError(f"{path}: no JSON: {error}; give a DeepSpeed configuration [E-DEEPSPEED-CONFIG]") from error
    if not isinstance(config, dict):
        raise InputError(f"{path}: expected a mapping; give a DeepSpeed configuration [E-DEEPSPEED-CONFIG]")
    if "scheduler" in config:
        message = "scheduler: the rate follows lr_scheduler_type and warmup_steps"
        raise InputError(f"{path}: {message}; leave it out [E-DEEPSPEED-CONFIG]")
    wanted = {
        "train_micro_batch_size_per_gpu": n_rows,
        "gradient_accumulation_steps": args.gradient_accumulation_steps,
        "train_batch_size": n_rows * args.gradient_accumulation_steps * n_ranks,
        "gradient_clipping": args.max_grad_norm,
        "bf16.enabled": args.bf16,
        "fp16.enabled": args.fp16,
        "optimizer.params.lr": args.learning_rate,
        "optimizer.params.betas": [args.adam_beta1, args.adam_beta2],
        "optimizer.params.eps": args.adam_epsilon,
        "optimizer.params.weight_decay": args.weight_decay,
    }
    for name, value in wanted.items():
        _fill(config, name, value, path)
    kind = config.pop("optimizer", {}).get("type", "AdamW")
    if kind.lower() not in ("adam", "adamw"):
        raise InputError(f"{path}: optimizer.type is {kind}, expected AdamW, as {args.optim} [E-DEEPSPEED-CONFIG]")
    left = _autos(config, "")
    if left:
        raise InputError(f"{path}: {left[0]} is auto, which follows from no setting; give a value [E-DEEPSPEED-CONFIG]")
    # The optimiser is torch's own AdamW, whose steps are those of a run without DeepSpeed.
    return {"steps_per_print": 1 << 40, "zero_allow_untested_optimizer": True, "zero_force_ds_cpu_optimizer": False, **config}


def _fill(config: dict[str, Any], name: str, value: object, path: str) -> None:
    *parents, last = name.split(".")
    place: Any = config
    for parent in parents:
        place = place.get(parent) if isinstance(place, dict) else None
    if not isinstance(place, dict):
        return
    there = place.get(last, None if parents else _AUTO)
    if there is None:
        return
    if there == _AUTO:
        place[last] = value
    elif there != value:
        raise InputError(f'{path}: {name} is {there}, the settings say {value}; write "auto" there [E-DEEPSPEED-CONFIG]')


def _autos(value: object, name: str) -> list[str]:
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in _autos(each, f"{name}.{key}" if name else str(key))]
    return [name] if value == _AUTO else []


def _rows_of(trainer: BERTTrainer) -> int:
    """Rows a batch of this process."""
    loader = trainer.train_data
    if isinstance(loader, BatchLoader):
        return max(1, loader.batch_size // loader.n_ranks)
    return trainer.args.per_device_train_batch_size or getattr(loader, "batch_size", None) or 1


def _import(device: torch.device) -> ModuleType:
    if device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    deepspeed = import_extra("deepspeed", "deepspeed")
    # Else it compiles this for minutes, and one that is killed leaves a lock at which all later ones wait.
    import_extra("deepspeed.ops", "deepspeed").__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.utils.logger.setLevel(logging.ERROR)
    return deepspeed
