"""Every setting of training, under the names that users of Transformers know.

Where `bert` has an older name for one, as `--lr` for `learning_rate`, both are flags. Torch is not imported here, so that the
command line can be read without it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from ..errors import InputError

T = TypeVar("T")
STRATEGIES = ("no", "steps", "epoch")
NAN_POLICIES = ("skip", "raise", "rollback")
ABOVE_0, FROM_0 = "a number above 0", "a number of at least 0"
FROM_1, WHOLE = "at least 1", "at least 0"
SHARE = "a number of at least 0 and below 1"
_EXPECTED = {
    ABOVE_0: lambda value: _is_number(value) and 0 < value < math.inf,
    FROM_0: lambda value: _is_number(value) and 0 <= value < math.inf,
    SHARE: lambda value: _is_number(value) and 0 <= value < 1,
    FROM_1: lambda value: _is_whole(value) and value >= 1,
    WHOLE: lambda value: _is_whole(value) and value >= 0,
}


def _of(default: T, expected: str | tuple[str, ...], what: str, *, changes: bool = False) -> T:
    """A field: its default, which values are good, what it is for, and whether it changes what is computed."""
    return field(default=default, metadata={"expected": expected, "help": what, "changes": changes})


@dataclass(frozen=True)
class TrainingArguments:
    """The settings of `BERTTrainer.fit`.

    Raises:
        InputError: A value is out of its range, two contradict each other, or one would have no effect.
    """

    output_dir: str | None = _of(None, "", "folder of the run: checkpoint-STEP, log.jsonl, report.html")
    output_path: str | None = _of(None, "", "checkpoints of whole passes are PATH.ep0, PATH.ep1, ...")
    num_train_epochs: int = _of(3, FROM_1, "passes over the corpus, the plan", changes=True)
    max_steps: int | None = _of(None, FROM_1, "steps of the whole run, in place of num_train_epochs", changes=True)
    stop_after_epochs: int | None = _of(None, FROM_1, "end after N epochs in all; plan and rate stay those of the whole")
    max_minutes: float | None = _of(None, ABOVE_0, "stop after so many minutes of this process, saved")
    per_device_train_batch_size: int | None = _of(None, FROM_1, "examples a batch, where a dataset is given", changes=True)
    per_device_eval_batch_size: int | None = _of(None, FROM_1, "examples an evaluation batch")
    gradient_accumulation_steps: int = _of(1, FROM_1, "batches a step", changes=True)
    tokens_per_part: int | None = _of(None, FROM_1, "most tokens computed at once: a batch is done in parts, the same step")
    learning_rate: float = _of(1e-4, ABOVE_0, "peak learning rate", changes=True)
    lr_scheduler_type: str = _of("linear", "", "what the rate does after the warm-up", changes=True)
    lr_scheduler_kwargs: Mapping[str, float | int | str] | None = _of(None, "", "settings of the schedule", changes=True)
    warmup_steps: int | None = _of(None, WHOLE, "steps up to the peak rate (a tenth of the run)", changes=True)
    warmup_ratio: float | None = _of(None, SHARE, "the same as a share of the run", changes=True)
    optim: str = _of("adamw_torch_fused", "", "the optimiser", changes=True)
    optim_args: Mapping[str, float | int | str] | None = _of(None, "", "settings of the optimiser", changes=True)
    weight_decay: float = _of(0.01, FROM_0, "decoupled weight decay", changes=True)
    adam_beta1: float = _of(0.9, SHARE, "first decay rate of Adam", changes=True)
    adam_beta2: float = _of(0.999, SHARE, "second decay rate of Adam", changes=True)
    adam_epsilon: float = _of(1e-8, ABOVE_0, "keeps Adam's division finite", changes=True)
    max_grad_norm: float = _of(1.0, FROM_0, "clip the gradient norm; 0: never", changes=True)
    label_smoothing_factor: float = _of(0.0, SHARE, "share of the target spread over all words", changes=True)
    logging_strategy: str = _of("steps", STRATEGIES, "when figures of training are logged")
    logging_steps: int = _of(10, FROM_1, "steps between two logs")
    logging_first_step: bool = _of(False, "", "log the first step too")
    logging_dir: str | None = _of(None, "", "folder for TensorBoard")
    eval_strategy: str | None = _of(None, STRATEGIES, "when the held-out data are evaluated (epoch, where there are any)")
    eval_steps: int | None = _of(None, FROM_1, "steps between two evaluations (logging_steps)")
    eval_delay: float = _of(0, FROM_0, "steps or epochs before the first evaluation")
    save_strategy: str = _of("epoch", STRATEGIES, "when checkpoint-STEP is saved")
    save_steps: int | None = _of(None, FROM_1, "steps between two checkpoints (500)")
    save_total_limit: int | None = _of(None, FROM_1, "newest checkpoints that stay, the best aside (all)")
    on_save_error: str = _of("stop", ("stop", "continue"), "when a checkpoint cannot be written")
    load_best_model_at_end: bool = _of(False, "", "end with the weights of the best evaluation")
    metric_for_best_model: str | None = _of(None, "", "figure that decides (eval_loss)")
    greater_is_better: bool | None = _of(None, "", "whether more of it is better (not for losses)")
    early_stopping_patience: int | None = _of(None, FROM_1, "stop after so many evaluations without a new best")
    early_stopping_threshold: float = _of(0.0, FROM_0, "by how much a new best must be better to count")
    fp16: bool = _of(False, "", "multiply in float16, losses scaled", changes=True)
    bf16: bool = _of(False, "", "multiply in bfloat16", changes=True)
    float32_matmul_precision: str | None = _of(None, ("highest", "high", "medium"), "bits of float32 products", changes=True)
    gradient_checkpointing: bool = _of(False, "", "a fraction of the memory for a third more work")
    torch_compile: bool = _of(False, "", "compile the blocks", changes=True)
    torch_compile_backend: str | None = _of(None, "", "torch.compile's backend (inductor)", changes=True)
    sharding: str | None = _of(
        None, ("full", "grad"), "processes share weights, gradients and moments out (FSDP2), or keep weights"
    )
    deepspeed: str | None = _of(None, "", "DeepSpeed configuration, a JSON file; values may be auto")
    ddp_timeout: float = _of(1800, ABOVE_0, "seconds that a process waits for another before the run ends")
    seed: int = _of(42, WHOLE, "same seed, same run", changes=True)
    resume_from_checkpoint: str | None = _of(None, "", "last, or a checkpoint")
    allow_change: bool = _of(False, "", "go on from a checkpoint of other settings")
    nan_policy: str = _of("skip", NAN_POLICIES, "what follows a step whose numbers are not finite")
    max_bad_steps: int | None = _of(None, FROM_1, "such steps in a row that end the run, or send it back (10)")

    def __post_init__(self) -> None:
        """Check every value, then what they mean together."""
        for each in fields(self):
            self._check(each.name, each.metadata["expected"])
        for wrong, message in (*self._contradictions(), *self._contradictions_of_several_processes()):
            if wrong:
                raise InputError(f"TrainingArguments: {message} [E-SETTING-CONFLICT]")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrainingArguments:
        """The settings that a mapping holds, from a YAML file for instance.

        Raises:
            InputError: A name is unknown; the nearest one is named. Else as for the class.
        """
        names = [each.name for each in fields(cls)]
        for name in values:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(names)}"
                raise InputError(f"TrainingArguments: unknown setting {name}; {hint} [E-CONFIG-KEY]")
        return cls(**values)

    def to_dict(self) -> dict[str, object]:
        """All values by name, plain."""
        return asdict(self)

    @property
    def best_metric_name(self) -> str:
        """The figure that decides which evaluation is the best, with its prefix."""
        name = self.metric_for_best_model or "loss"
        return name if name.startswith("eval_") else f"eval_{name}"

    @property
    def is_greater_better(self) -> bool:
        """Whether more of it is better: as asked for, else not for losses."""
        return not self.best_metric_name.endswith("loss") if self.greater_is_better is None else self.greater_is_better

    @property
    def needs_evaluations(self) -> bool:
        """Whether something follows from how good the evaluations are."""
        is_plateau = self.lr_scheduler_type == "reduce_lr_on_plateau"
        return self.load_best_model_at_end or self.early_stopping_patience is not None or is_plateau

    def _check(self, name: str, expected: str | tuple[str, ...]) -> None:
        value = getattr(self, name)
        if value is None or expected == "":
            return
        if isinstance(expected, tuple):
            is_good, text = value in expected, f"one of: {', '.join(expected)}"
        else:
            is_good, text = _EXPECTED[expected](value), expected
        if not is_good:
            raise InputError(f"TrainingArguments: {name} is {value!r}, expected {text} [E-TRAINER-SETTING]")

    def _contradictions(self) -> list[tuple[bool, str]]:
        """What does not go together, each with the message."""
        evaluates = self.eval_strategy != "no"
        mode = (self.lr_scheduler_kwargs or {}).get("mode")
        return [
            (self.bf16 and self.fp16, "bf16 and fp16 are both on; leave fp16 out, or bf16 on an older GPU"),
            (
                self.torch_compile_backend is not None and not self.torch_compile,
                "torch_compile_backend has no effect without torch_compile; leave it out",
            ),
            (
                self.warmup_steps is not None and self.warmup_ratio is not None,
                "warmup_steps and warmup_ratio are both set; leave one out",
            ),
            (
                self.eval_steps is not None and self.eval_strategy not in ("steps", None),
                f"eval_steps has no effect with eval_strategy {self.eval_strategy}; set eval_strategy to steps",
            ),
            (
                self.save_steps is not None and self.save_strategy != "steps",
                f"save_steps has no effect with save_strategy {self.save_strategy}; set save_strategy to steps",
            ),
            (
                self.needs_evaluations and not evaluates,
                "the best model and reduce_lr_on_plateau need evaluations; set eval_strategy to steps or epoch",
            ),
            (
                mode in ("min", "max") and (mode == "max") != self.is_greater_better,
                f"mode {mode} in lr_scheduler_kwargs is not what {self.best_metric_name} asks for; leave it out, or set "
                "greater_is_better",
            ),
            (
                self.early_stopping_threshold > 0 and self.early_stopping_patience is None,
                "early_stopping_threshold has no effect without early_stopping_patience; set that too",
            ),
            (
                self.nan_policy == "raise" and self.max_bad_steps is not None,
                "max_bad_steps has no effect with nan_policy raise, which ends the run at the first; leave it out",
            ),
            (
                self.nan_policy == "rollback" and (not self.output_dir or self.save_strategy == "no"),
                "nan_policy rollback needs checkpoints; name an output_dir, and save_strategy steps or epoch",
            ),
            (self.load_best_model_at_end and not self.output_dir, "load_best_model_at_end needs an output_dir; name one"),
            (
                self.save_total_limit is not None and not self.output_dir,
                "save_total_limit has no effect without output_dir; name one",
            ),
        ]

    def _contradictions_of_several_processes(self) -> list[tuple[bool, str]]:
        return [
            (
                self.sharding is not None and self.fp16,
                "fp16 does not go with sharding, whose parts would be scaled apart; set bf16",
            ),
            (
                self.sharding is not None and self.optim in ("muon", "adafactor"),
                f"optim {self.optim} needs whole matrices and does not go with sharding; set adamw_torch_fused",
            ),
            (
                self.deepspeed is not None and self.sharding is not None,
                "deepspeed and sharding both share the model out; leave one out",
            ),
            (
                self.deepspeed is not None and self.optim not in ("adamw_torch", "adamw_torch_fused"),
                f"optim {self.optim} does not go with deepspeed, which shares AdamW's moments out; set adamw_torch",
            ),
            (
                self.deepspeed is not None and (self.nan_policy == "rollback" or self.load_best_model_at_end),
                "nan_policy rollback and load_best_model_at_end do not go with deepspeed; leave them out",
            ),
        ]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
