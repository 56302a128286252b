"""Names of training settings: those of the Transformers that is installed, and what has become of older ones.

A name that Transformers has taken away leads to its successor where there is one, with a notice that says what to write; where
there is none it is refused with the reason.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping

from ..errors import InputError, UsageError

Values = dict[str, object]


def _under(new: str) -> Callable[[object], Values]:
    """The same value under another name."""
    return lambda value: {new: value}


def _if_on(new: Values) -> Callable[[object], Values]:
    """Other settings for a switch that is on, none for one that is off."""
    return lambda value: dict(new) if value else {}


RENAMED: dict[str, tuple[str, Callable[[object], Values]]] = {
    "evaluation_strategy": ("eval_strategy", _under("eval_strategy")),
    "warmup_ratio": ("warmup_steps, where a number below 1 is a share of the run", _under("warmup_steps")),
    "no_cuda": ("use_cpu", _under("use_cpu")),
    "per_gpu_train_batch_size": ("per_device_train_batch_size", _under("per_device_train_batch_size")),
    "per_gpu_eval_batch_size": ("per_device_eval_batch_size", _under("per_device_eval_batch_size")),
    "group_by_length": (
        "train_sampling_strategy: group_by_length",
        _if_on({"train_sampling_strategy": "group_by_length"}),
    ),
    "adafactor": ("optim: adafactor", _if_on({"optim": "adafactor"})),
    "gradient_checkpointing": ("activation_checkpointing", _under("activation_checkpointing")),
    "gradient_checkpointing_kwargs": ("activation_checkpointing_kwargs", _under("activation_checkpointing_kwargs")),
    "push_to_hub_model_id": ("hub_model_id", _under("hub_model_id")),
    "push_to_hub_token": ("hub_token", _under("hub_token")),
    "xpu_backend": ("ddp_backend", _under("ddp_backend")),
    "torchdynamo": ("torch_compile_backend", lambda value: {"torch_compile": True, "torch_compile_backend": value}),
    "include_inputs_for_metrics": ("include_for_metrics: [inputs]", _if_on({"include_for_metrics": ["inputs"]})),
    "split_batches": ("accelerator_config", lambda value: {"accelerator_config": {"split_batches": value}}),
    "dispatch_batches": ("accelerator_config", lambda value: {"accelerator_config": {"dispatch_batches": value}}),
}
"""Old names of Transformers' settings: what to write today, and the settings of today that a value stands for."""

GONE = {
    "overwrite_output_dir": "an output_dir that holds a run is refused unless resume_from_checkpoint is set; name a new one",
    "save_safetensors": "weights are always saved as safetensors; leave it out",
    "logging_dir": "set the environment variable TENSORBOARD_LOGGING_DIR instead",
    "fp16_opt_level": "apex is no longer used; leave it out",
    "fp16_backend": "torch's own half precision is used; leave it out",
    "half_precision_backend": "torch's own half precision is used; leave it out",
    "use_mps_device": "an Apple GPU is used where there is one; leave it out, or set use_cpu",
    "use_ipex": "torch itself does it; leave it out",
    "jit_mode_eval": "use torch_compile",
    "past_index": "no model needs it; leave it out",
    "tokenizer": "it is processing_class, and taken from the model here; leave it out",
    "predict_with_generate": "seq2seq always generates for its figures; leave it out",
    "push_to_hub_organization": "write it into hub_model_id: ORGANISATION/NAME",
    "ray_scope": "Ray is not used; search.py searches with Optuna",
    "local_rank": "torchrun sets it; leave it out",
}
"""Names that nothing takes the place of, and what to do."""

OLD_OPTIMISERS = {"adamw_hf": "adamw_torch"}


def modern(given: Mapping[str, object], known: Collection[str], notices: list[str]) -> Values:
    """Settings under the names of the Transformers that is installed.

    Args:
        given: As the user wrote them.
        known: The names that it has.
        notices: A line is added for each old name.

    Raises:
        UsageError: A name is unknown or has gone, or an old name and its successor are both there.
    """
    values: Values = {}
    for name, value in given.items():
        if name in GONE and (name not in known or name in ("predict_with_generate", "local_rank")):
            raise UsageError(f"{name}: not a setting of this Transformers; {GONE[name]} [E-FINETUNE-ARGUMENT]")
        is_old = name in RENAMED and (name not in known or name.startswith("gradient_checkpointing"))
        if not is_old and name not in known:
            raise UsageError(f"{name}: unknown setting; {_nearest(name, known)} [E-FINETUNE-ARGUMENT]")
        new = {name: value}
        if is_old and RENAMED[name][1](value).keys() <= set(known):
            new = RENAMED[name][1](value)
            notices.append(f"{name} is an old name: write {RENAMED[name][0]}")
        if name == "optim" and value in OLD_OPTIMISERS:
            new = {"optim": OLD_OPTIMISERS[str(value)]}
            notices.append(f"optim {value} is gone: write {new['optim']}")
        for each, its_value in new.items():
            if each in values or (each != name and each in given):
                raise UsageError(f"{name}: {each} is set too, which is its name today; leave {name} out [E-SETTING-CONFLICT]")
            values[each] = its_value
    return values


def for_native(given: Mapping[str, object], known: Collection[str], notices: list[str]) -> Values:
    """The same settings under the names of this library's own trainer.

    Raises:
        UsageError: The native engine has no such setting.
    """
    values: Values = {}
    for name, value in given.items():
        new = {name: value}
        if name == "evaluation_strategy":
            new = {"eval_strategy": value}
            notices.append("evaluation_strategy is an old name: write eval_strategy")
        elif name == "activation_checkpointing":
            new = {"gradient_checkpointing": value}
        elif name == "warmup_steps" and isinstance(value, float) and 0 < value < 1:
            new = {"warmup_ratio": value}
        elif name == "max_steps" and value == -1:
            new = {}
        elif name == "group_by_length" or (name, value) == ("train_sampling_strategy", "group_by_length"):
            new = {}
            notices.append(f"{name}: the native engine always groups by length; leave it out")
        elif name not in known:
            hint = _nearest(name, known)
            raise UsageError(f"{name}: not a setting of the native engine; {hint} [E-FINETUNE-ARGUMENT]")
        values |= new
    return values


def whole_epochs(value: object) -> int:
    """A number of passes that the native engine can plan: a whole one.

    Raises:
        InputError: It is a fraction.
    """
    if isinstance(value, (int, float)) and float(value).is_integer():
        return int(value)
    raise InputError(f"num_train_epochs is {value}: the native engine makes whole passes; set max_steps [E-FINETUNE-ARGUMENT]")


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, [*known, *RENAMED], n=1)
    return f"did you mean {near[0]}?" if near else "the settings are those of Transformers' TrainingArguments"
