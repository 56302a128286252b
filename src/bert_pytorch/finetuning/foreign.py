"""What is used of objects of Transformers, as types: the package itself is imported only where it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor


class HubTokenizer(Protocol):
    """A tokenizer of Transformers."""

    pad_token: str | None
    pad_token_id: int
    eos_token: str | None
    eos_token_id: int | None
    unk_token: str | None
    mask_token_id: int | None
    all_special_ids: list[int]
    model_max_length: int
    model_input_names: list[str]
    backend_tokenizer: Any

    def __len__(self) -> int:
        """Count the ids."""
        ...

    def batch_decode(self, ids: Sequence[Sequence[int]], skip_special_tokens: bool) -> list[str]:
        """Turn ids into texts."""
        ...

    def save_pretrained(self, folder: str) -> object:
        """Write its files."""
        ...


class HubConfig(Protocol):
    """The configuration of a model of Transformers."""

    vocab_size: int
    num_labels: int
    id2label: Mapping[int, str]
    label2id: Mapping[str, int]
    problem_type: str | None
    pad_token_id: int | None


class Output(Protocol):
    """What a model gives: the logits of its head."""

    logits: Tensor
    start_logits: Tensor
    end_logits: Tensor


class Network(Protocol):
    """A model of Transformers."""

    def __call__(self, *, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor = ...) -> Output:
        """Compute."""
        ...

    def generate(self, *, input_ids: Tensor, attention_mask: Tensor, max_length: int) -> Tensor:
        """Write texts."""
        ...


class Arguments(Protocol):
    """`TrainingArguments` of Transformers."""

    device: object
    push_to_hub: bool


class Prediction(Protocol):
    """`EvalPrediction` of Transformers: arrays, or a tuple of them."""

    predictions: Any


class Outcome(Protocol):
    """What `Trainer.train` returns."""

    training_loss: float
    metrics: Mapping[str, Any]


class Trainer(Protocol):
    """The Trainer of Transformers, as `trainer_class.py` has it."""

    own_sets: dict[int, Any]
    state: Any

    def train(self, resume_from_checkpoint: str | None) -> Outcome:
        """Train; figures of it."""
        ...

    def evaluate(self, eval_dataset: object, ignore_keys: None = None, metric_key_prefix: str = "eval") -> dict[str, float]:
        """Measure."""
        ...

    def save_model(self, output_dir: str) -> None:
        """Write the model."""
        ...

    def is_world_process_zero(self) -> bool:
        """Whether this process is the one that writes."""
        ...

    def push_to_hub(self) -> object:
        """Upload."""
        ...
