"""The settings of a fine-tuning, read from one YAML and `name=value` words; all others are settings of the trainer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from ..config import load_yaml
from ..errors import InputError, UsageError
from .tasks import ANSWERS, CLASSIFICATION, SINGLE, TASKS, Task, find_task, metric_of

_FROM_1 = ("max_length", "max_target_length", "max_answer_tokens", "min_train_rows", "max_train_rows", "stop_after_steps")
ENGINES = ("transformers", "native")
FORMATS = ("csv", "tsv", "jsonl", "json", "parquet", "conll", "squad", "text")
POOLINGS = ("cls", "mean", "max")
NATIVE_ONLY = ("pooling", "layer_rate_decay", "freeze_layers", "freeze_embeddings")
DEFAULTS: dict[str, object] = {
    "per_device_train_batch_size": 32,
    "per_device_eval_batch_size": 64,
    "learning_rate": 5e-5,
    "num_train_epochs": 3,
    "warmup_steps": 0.1,
    "weight_decay": 0.01,
    "eval_strategy": "epoch",
    "save_strategy": "epoch",
    "save_total_limit": 2,
    "logging_steps": 50,
    "seed": 42,
}
"""Settings of the trainer, the same for both engines, where the user has none."""


@dataclass(frozen=True)
class Settings:
    """What is to be learned, from which data, by which model.

    Raises:
        InputError: A value is not of its kind.
    """

    task: str = field(default="", metadata={"help": "what is learned; required"})
    model: str = field(default="", metadata={"help": "checkpoint of this project, local folder, or hub name; required"})
    output_dir: str = field(default="", metadata={"help": "folder of the run and of the model; required"})
    problem_type: str | None = field(default=None, metadata={"help": "kind of classification; single label where not said"})
    engine: str = field(default="transformers", metadata={"help": "transformers (the Trainer) or native (torch alone)"})
    vocab: str | None = field(default=None, metadata={"help": "vocabulary of a checkpoint of this project"})
    from_scratch: bool = field(default=False, metadata={"help": "the model's sizes with new weights"})
    allow_network: bool = field(default=False, metadata={"help": "may fetch a model by its hub name"})
    train_file: str | None = field(default=None, metadata={"help": "training data; needed, or data_dir"})
    validation_file: str | None = field(default=None, metadata={"help": "held-out data (validation_share of training)"})
    test_file: str | None = field(default=None, metadata={"help": "data measured once, at the end"})
    data_dir: str | None = field(default=None, metadata={"help": "folder saved by the datasets package, with splits"})
    file_format: str | None = field(
        default=None, metadata={"help": "csv, tsv, jsonl, parquet, conll, squad, text (by the name)"}
    )
    validation_share: float = field(default=0.1, metadata={"help": "share held out where there is no validation_file"})
    text_column: str | None = field(default=None, metadata={"help": "the text, or first text; found by usual names"})
    pair_column: str | None = field(default=None, metadata={"help": "the second text of a pair"})
    label_column: str | None = field(default=None, metadata={"help": "label, tags, or target text; found by usual names"})
    label_names: Sequence[str] | None = field(default=None, metadata={"help": "all labels in order of their ids"})
    source_prefix: str = field(default="", metadata={"help": "put before each text of seq2seq, as T5 wants"})
    max_length: int | None = field(default=None, metadata={"help": "tokens of an example (128; 384 for questions)"})
    max_target_length: int = field(default=64, metadata={"help": "tokens of a seq2seq target"})
    stride: int | None = field(default=None, metadata={"help": "tokens two windows share (128, at most a third of max_length)"})
    max_answer_tokens: int = field(default=30, metadata={"help": "longest answer"})
    label_all_tokens: bool = field(default=False, metadata={"help": "label every piece of a word, not the first alone"})
    mlm_probability: float = field(default=0.15, metadata={"help": "share of tokens hidden for masked-lm"})
    skip_bad_rows: bool = field(default=False, metadata={"help": "leave bad rows out and count them"})
    min_train_rows: int = field(default=20, metadata={"help": "fewer training rows than this are refused"})
    max_train_rows: int | None = field(default=None, metadata={"help": "use this many rows, drawn by seed, to try things"})
    max_validation_rows: int | None = field(default=None, metadata={"help": "likewise of the held-out rows"})
    class_weights: str | Sequence[float] | None = field(default=None, metadata={"help": "balanced, or a weight a label"})
    loss: str = field(default="cross_entropy", metadata={"help": "cross_entropy, or focal for classes hard to tell"})
    compute_loss: str | None = field(default=None, metadata={"help": "Python file with compute_loss(logits, labels)"})
    compute_metrics: str | None = field(default=None, metadata={"help": "Python file with compute_metrics(predicted, labels)"})
    callbacks: str | None = field(default=None, metadata={"help": "Python file with a list `callbacks`"})
    early_stopping_patience: int | None = field(default=None, metadata={"help": "evaluations without a new best, then stop"})
    early_stopping_threshold: float = field(default=0.0, metadata={"help": "by how much a best must be better"})
    pooling: str = field(default="cls", metadata={"help": "native: vector of a text from cls, mean or max"})
    layer_rate_decay: float = field(default=1.0, metadata={"help": "native: each layer's rate over that of the next above"})
    freeze_layers: int = field(default=0, metadata={"help": "native: lowest layers that stay as they are"})
    freeze_embeddings: bool = field(default=False, metadata={"help": "native: embeddings stay as they are"})
    stop_after_steps: int | None = field(default=None, metadata={"help": "end this process early, saved; the plan stays"})
    resume_from_checkpoint: str | None = field(default=None, metadata={"help": "last, or a checkpoint-STEP of output_dir"})
    training: Mapping[str, object] = field(default_factory=dict, metadata={"help": "settings of the trainer"})
    search: Mapping[str, object] = field(default_factory=dict, metadata={"help": "what search.py tries"})

    def __post_init__(self) -> None:
        """Check values that do not depend on data or model."""
        for name in ("task", "model", "output_dir"):
            if not getattr(self, name):
                raise UsageError(f"{name} is missing; write it into the YAML or as {name}=VALUE [E-FINETUNE-SETTING]")
        words = {"engine": ENGINES, "loss": ("cross_entropy", "focal"), "pooling": POOLINGS}
        for name, allowed in words.items():
            if getattr(self, name) not in allowed:
                raise _wrong(name, getattr(self, name), f"one of: {', '.join(allowed)}")
        if self.file_format is not None and self.file_format not in FORMATS:
            raise _wrong("file_format", self.file_format, f"one of: {', '.join(FORMATS)}")
        for name in _FROM_1:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise _wrong(name, value, "at least 1")
        for name in ("validation_share", "mlm_probability"):
            if not 0 < getattr(self, name) < 1:
                raise _wrong(name, getattr(self, name), "above 0 and below 1")
        if not 0 < self.layer_rate_decay <= 1:
            raise _wrong("layer_rate_decay", self.layer_rate_decay, "above 0 and at most 1")
        self._check_together()

    @property
    def task_and_kind(self) -> tuple[Task, str | None]:
        """The task, and for classification its kind."""
        task, kind = find_task(self.task)
        if task.name != CLASSIFICATION:
            return task, None
        return task, self.problem_type or kind or SINGLE

    @property
    def metric(self) -> str:
        """The figure that decides."""
        return metric_of(*self.task_and_kind)

    @property
    def length(self) -> int:
        """Most tokens of an example."""
        return self.max_length or (384 if self.task_and_kind[0].name == ANSWERS else 128)

    @property
    def overlap(self) -> int | None:
        """Tokens that two windows of one context share; None: texts are cut off."""
        if self.task_and_kind[0].name != ANSWERS:
            return None
        return min(128, self.length // 3) if self.stride is None else self.stride

    @property
    def seed(self) -> int:
        """Of everything that is drawn."""
        return int(str(self.training.get("seed", DEFAULTS["seed"])))

    def _check_together(self) -> None:
        task, kind = self.task_and_kind
        defaults = {each.name: each.default for each in fields(self)}
        if self.engine == "transformers":
            for name in NATIVE_ONLY:
                if getattr(self, name) != defaults[name]:
                    message = f"{name} has no effect with engine transformers; set engine to native"
                    raise UsageError(f"{message} [E-SETTING-CONFLICT]")
        if self.engine == "native" and not task.is_native:
            able = ", ".join(each.name for each in TASKS.values() if each.is_native)
            raise UsageError(f"engine native has heads for {able}; {task.name} needs engine transformers [E-FINETUNE-TASK]")
        if self.problem_type is not None and task.name != CLASSIFICATION:
            raise UsageError(f"problem_type has no effect on {task.name}; leave it out [E-SETTING-CONFLICT]")
        if (self.class_weights is not None or self.loss != "cross_entropy") and kind != SINGLE:
            message = f"class_weights and focal loss are for one label a text, not {kind or task.name}; leave them out"
            raise UsageError(f"{message} [E-SETTING-CONFLICT]")
        if self.compute_loss and (self.class_weights is not None or self.loss != "cross_entropy"):
            raise UsageError("compute_loss is set beside class_weights or loss; leave one out [E-SETTING-CONFLICT]")
        if self.data_dir and (self.train_file or self.validation_file or self.test_file):
            raise UsageError("data_dir and files are both named; leave one out [E-SETTING-CONFLICT]")
        if self.early_stopping_threshold and self.early_stopping_patience is None:
            raise UsageError("early_stopping_threshold has no effect without early_stopping_patience [E-SETTING-CONFLICT]")
        if self.stride is not None and task.name != ANSWERS:
            raise UsageError(f"stride has no effect on {task.name}; leave it out [E-SETTING-CONFLICT]")
        if self.stride is not None and not 0 <= self.stride < self.length:
            raise _wrong("stride", self.stride, f"at least 0 and below max_length {self.length}")


OWN = tuple(each.name for each in fields(Settings) if each.name != "training")
_TYPES = {each.name: str(each.type) for each in fields(Settings)}


def read_settings(path: str | None, words: Sequence[str]) -> Settings:
    """Settings from a YAML file and from words `name=value`, which win.

    Raises:
        UnreadableError: The file cannot be read.
        InputError: It is no mapping, or a value is not of its kind.
        UsageError: A word is no `name=value`, or something is missing or contradictory.
    """
    import yaml

    values = {} if path is None else _read_yaml(path)
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UsageError(f"{word}: expected NAME=VALUE [E-USAGE]")
        try:
            values[name.lstrip("-").replace("-", "_")] = _number(yaml.safe_load(value))
        except yaml.YAMLError:
            values[name.lstrip("-").replace("-", "_")] = value
    return settings_of(values)


def settings_of(values: Mapping[str, object]) -> Settings:
    """Settings from values by name; what is not one of this library's goes to the trainer.

    Raises:
        InputError: A value is not of its kind.
        UsageError: Something is missing or contradictory.
    """
    nested = values.get("training")
    flat = {name: value for name, value in values.items() if name != "training"}
    flat |= nested if isinstance(nested, dict) else {}
    own: dict[str, Any] = {}
    training = dict(DEFAULTS)
    for name, value in flat.items():
        if name in OWN:
            if value is not None:
                own[name] = _checked(name, value)
            continue
        near = difflib.get_close_matches(name, OWN, n=1, cutoff=0.87)
        if near:
            raise UsageError(f"{name}: unknown setting; did you mean {near[0]}? [E-FINETUNE-SETTING]")
        # YAML reads the word `no` as false.
        training[name] = "no" if value is False and name.endswith("_strategy") else _number(value)
    for old, new in (("warmup_ratio", "warmup_steps"), ("evaluation_strategy", "eval_strategy")):
        if old in flat and new not in flat:
            del training[new]
    if str(own.get("resume_from_checkpoint")).lower() == "true":
        own["resume_from_checkpoint"] = "last"
    return Settings(**own, training=training)


def _read_yaml(path: str) -> dict[str, object]:
    values = load_yaml(path, "task: causal-lm")
    if not isinstance(values, dict):
        message = f"expected names and values, got {type(values).__name__}; write lines such as `task: causal-lm`"
        raise InputError(f"{path}: {message} [E-CONFIG-YAML]")
    return {str(name): value for name, value in values.items()}


def _number(value: object) -> object:
    """A number that YAML takes for a text, as it does `5e-5`, which has no point; else the value."""
    if isinstance(value, str) and re.fullmatch(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+", value):
        return float(value)
    return value


def _checked(name: str, value: object) -> object:
    """A value of the kind that the setting is of."""
    value, kind = _number(value), _TYPES[name]
    if kind.startswith("bool"):
        good, expected = isinstance(value, bool), "true or false"
    elif kind.startswith("int"):
        good, expected = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    elif kind.startswith("float"):
        good, expected = isinstance(value, (int, float)) and not isinstance(value, bool), "a number"
    elif kind.startswith("Mapping"):
        good, expected = isinstance(value, dict), "names and values"
    elif kind.startswith("Sequence[str]"):
        good, expected = isinstance(value, list), "a list"
        value = [str(each) for each in value] if isinstance(value, list) else value
    elif "Sequence[float]" in kind:
        numbers = isinstance(value, list) and all(isinstance(each, (int, float)) for each in value)
        good, expected = value == "balanced" or numbers, "balanced, or a list of numbers"
    else:
        good, expected = isinstance(value, (str, int, float)), "a text"
        value = str(value).lower() if isinstance(value, bool) else str(value)
    if not good:
        raise _wrong(name, value, expected)
    return value


def _wrong(name: str, value: object, expected: str) -> InputError:
    return InputError(f"{name} is {value!r}, expected {expected} [E-FINETUNE-SETTING]")
