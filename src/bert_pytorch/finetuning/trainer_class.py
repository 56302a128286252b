"""This library's Trainer: Transformers' own, which knows what data it evaluates and who looks on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from ..errors import UsageError
from .features import IGNORED
from .foreign import Arguments, Trainer
from .hub_models import HubModel
from .losses import Loss
from .metrics import Figures, perplexity
from .results import Observer
from .settings import Settings
from .tasks import ANSWERS, CAUSAL, MASKED, SEQ2SEQ
from .user_code import load_list

if TYPE_CHECKING:
    from .trainer_engine import Measured


def make_trainer(
    transformers: ModuleType,
    settings: Settings,
    args: Arguments,
    hub: HubModel,
    collator: Callable[[Any], dict[str, Tensor]],
    loss: Loss | None,
    measured: Measured,
    observer: Observer | None,
    datasets: tuple[Any, Any],
) -> Trainer:
    """A Trainer of the task, on training and held-out data.

    Raises:
        UsageError: A loss of the user's own is asked for where the head needs its own.
    """
    task = settings.task_and_kind[0].name
    if loss is not None and task in (ANSWERS, MASKED, CAUSAL, SEQ2SEQ):
        raise UsageError(f"compute_loss is for classification, not {task}; leave it out [E-SETTING-CONFLICT]")
    is_generative, is_language = task == SEQ2SEQ, task in (MASKED, CAUSAL)
    base = transformers.Seq2SeqTrainer if is_generative else transformers.Trainer

    class Finetuner(base):
        """The Trainer with the data that it evaluates."""

        own_sets: dict[int, Any]

        def evaluate(
            self, eval_dataset: object = None, ignore_keys: None = None, metric_key_prefix: str = "eval"
        ) -> dict[str, float]:
            """Evaluate, add perplexity for language models, and tell the observer."""
            chosen = self.eval_dataset if eval_dataset is None else eval_dataset
            measured.examples, measured.features = self.own_sets[id(chosen)]
            figures: Figures = super().evaluate(chosen, ignore_keys, metric_key_prefix)
            if is_language:
                figures[f"{metric_key_prefix}_perplexity"] = perplexity(figures[f"{metric_key_prefix}_loss"])
            if observer is not None and self.is_in_train and metric_key_prefix == "eval":
                self.control.should_training_stop |= observer.evaluated(figures, self.state.global_step)
            return figures

        def training_step(
            self, model: nn.Module, inputs: dict[str, Tensor], num_items_in_batch: Tensor | int | None = None
        ) -> Tensor:
            """One batch; after the step that is to be the last of this process, stop and save."""
            value = super().training_step(model, inputs, num_items_in_batch)
            if self.state.global_step + 1 == settings.stop_after_steps and self.accelerator.sync_gradients:
                self.control.should_training_stop = self.control.should_save = True
            return value

    return Finetuner(
        model=hub.model,
        args=args,
        data_collator=collator,
        train_dataset=datasets[0],
        eval_dataset=datasets[1],
        processing_class=hub.tokenizer,
        compute_metrics=None if is_language else measured,
        compute_loss_func=None if loss is None else scaled(loss),
        callbacks=callbacks_of(transformers, settings),
    )


def scaled(loss: Loss) -> Callable[..., Tensor]:
    """A mean loss as the Trainer wants it: over all items of the step, which may have several batches."""

    def compute(outputs: Mapping[str, Tensor], labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        value = loss(outputs["logits"], labels)
        if num_items_in_batch is None:
            return value
        return value * (labels != IGNORED).sum() / num_items_in_batch

    return compute


def callbacks_of(transformers: ModuleType, settings: Settings) -> list[Any]:
    """Early stopping, and the user's own."""
    callbacks = [] if settings.callbacks is None else load_list(settings.callbacks, "callbacks")
    if settings.early_stopping_patience is not None:
        stopping = transformers.EarlyStoppingCallback(settings.early_stopping_patience, settings.early_stopping_threshold)
        callbacks = [*callbacks, stopping]
    return callbacks
