"""The Transformers Trainer, set up for a task and driven from the settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, TrainingError, UsageError, UserError
from ..extras import import_extra
from .collating import HIDDEN, MaskingCollator, PaddingCollator
from .data import Data
from .examples import Example
from .features import Feature, Features, make_features
from .foreign import HubTokenizer, Prediction
from .hub_models import HubModel, errors_alone, load_hub_model
from .labels import LabelMap
from .losses import Loss, make_loss
from .metrics import Figures
from .results import Observer, Result
from .scoring import Predictions, measure, own_figures, predict
from .settings import Settings
from .tasks import ANSWERS, CLASSIFICATION, MASKED, SEQ2SEQ, SINGLE
from .trainer_arguments import make_arguments, resume_from
from .trainer_class import make_trainer
from .user_code import load_function


class Measured:
    """Figures of the data that are being evaluated, from the arrays that the Trainer hands over.

    Attributes:
        examples, features: Of the data at hand.
    """

    def __init__(self, settings: Settings, labels: LabelMap | None, tokenizer: HubTokenizer) -> None:
        """Measure for this task."""
        self.settings, self.labels, self.tokenizer = settings, labels, tokenizer
        self.examples: Sequence[Example] = ()
        self.features = Features()
        path = settings.compute_metrics
        self.own: Callable[..., Any] | None = None if path is None else load_function(path, "compute_metrics")

    def __call__(self, prediction: Prediction) -> Figures:
        """As `compute_metrics` of the Trainer."""
        predictions = self.predictions_of(prediction)
        if self.settings.task_and_kind[0].name == SEQ2SEQ:
            from .generating import rouge

            figures = rouge(predictions.values, [example.label for example in self.examples])
        else:
            figures = measure(predictions, self.examples, self.settings, self.labels)
        return figures | own_figures(self.own, predictions, self.examples)

    def predictions_of(self, prediction: Prediction) -> Predictions:
        """Predictions from logits padded to the longest window of all, or from the ids that were generated."""
        raw = prediction.predictions
        task = self.settings.task_and_kind[0].name
        if task == SEQ2SEQ:
            ids = raw[0] if isinstance(raw, tuple) else raw
            rows = [[i if i >= 0 else self.tokenizer.pad_token_id for i in row] for row in ids.tolist()]
            texts = [text.strip() for text in self.tokenizer.batch_decode(rows, skip_special_tokens=True)]
            return Predictions(texts, [None] * len(texts), [])
        if task == ANSWERS:
            logits = torch.stack([torch.from_numpy(part) for part in raw[:2]], -1)
        else:
            logits = torch.from_numpy(raw[0] if isinstance(raw, tuple) else raw)
        return predict(list(logits), self.features, self.examples, self.settings, self.labels)


@errors_alone()
def train(settings: Settings, data: Data, observer: Observer | None = None) -> Result:
    """Fine-tune with the Transformers Trainer.

    Args:
        settings: The run.
        data: Its data.
        observer: Told of each evaluation; may end the run.

    Raises:
        InputError: Model, data or settings cannot be used.
        UsageError: A setting of the Trainer is unknown or has gone.
        TrainingError: The loss is no longer a finite number.
        UnavailableError: A package is not installed.
    """
    transformers = import_extra("transformers", "transformers")
    import_extra("accelerate", "accelerate")
    notices: list[str] = []
    checkpoint = resume_from(transformers, settings)
    args = make_arguments(transformers, settings, notices)
    hub = load_hub_model(settings, data.labels)
    sets = {"train": data.train, "eval": data.validation, **({} if data.test is None else {"test": data.test})}
    features = {name: make_features(examples, hub.encoder, settings) for name, examples in sets.items()}
    collator = collator_of(settings, hub)
    held_out = {name: fixed(features[name], collator) for name in features if name != "train"}
    measured = Measured(settings, data.labels, hub.tokenizer)
    loss, datasets = loss_of(settings, data), (features["train"], held_out["eval"])
    with refusals_in_one_line():
        trainer = make_trainer(transformers, settings, args, hub, collator, loss, measured, observer, datasets)
    trainer.own_sets = {id(held_out[name]): (sets[name], features[name]) for name in held_out}
    with refusals_in_one_line():
        outcome = trainer.train(resume_from_checkpoint=checkpoint)
    figures: Figures = {}
    for name, each in held_out.items():
        figures |= trainer.evaluate(each, metric_key_prefix=name)
    check_finite(outcome.training_loss, figures)
    trainer.save_model(settings.output_dir)
    if trainer.is_world_process_zero():
        hub.tokenizer.save_pretrained(settings.output_dir)
    if args.push_to_hub:
        trainer.push_to_hub()
    state = trainer.state
    facts: dict[str, object] = {"steps": state.global_step, "train_loss": outcome.training_loss, "device": str(args.device)}
    facts |= {"best_checkpoint": state.best_model_checkpoint, "is_main": trainer.is_world_process_zero()}
    facts |= {"train_seconds": outcome.metrics.get("train_runtime")}
    facts |= {"examples_per_second": outcome.metrics.get("train_samples_per_second")}
    is_stopped = settings.stop_after_steps is not None and state.global_step < state.max_steps
    return Result(figures, facts | counts_of(features), notices, state.log_history, is_stopped)


@contextmanager
def refusals_in_one_line() -> Iterator[None]:
    """Turn what the Trainer says of its arguments into errors of ours: devices, packages, a figure that there is not."""
    try:
        yield
    except UserError:
        raise
    except KeyError as error:
        if "metric_for_best_model" not in str(error):
            raise
        raise UsageError(f"{' '.join(str(error.args[0]).split())[:300]}; set another [E-METRIC-NAME]") from error
    except (ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"the Trainer refuses: {reason}; change that argument [E-FINETUNE-ARGUMENT]") from error


def counts_of(features: Mapping[str, Features]) -> dict[str, object]:
    """How many examples were longer than `max_length`, and the tags that were lost by it."""
    counts: dict[str, object] = {f"{name}_cut_rows": each.n_cut for name, each in features.items()}
    counts |= {f"{name}_lost_tags": each.lost_tags for name, each in features.items() if each.lost_tags}
    return counts


def check_finite(train_loss: float, figures: Figures) -> None:
    """Refuse to hand over a model that is no longer one."""
    losses = {"train_loss": train_loss, **{name: value for name, value in figures.items() if name.endswith("_loss")}}
    wrong = [name for name, value in losses.items() if not math.isfinite(value)]
    if wrong:
        hint = "lower learning_rate, or leave fp16 out; nothing was saved"
        raise TrainingError(f"finetune: {wrong[0]} is no finite number; {hint} [E-LOSS-NONFINITE]")


def collator_of(settings: Settings, hub: HubModel) -> Callable[[Any], dict[str, Tensor]]:
    """What makes batches for the task."""
    task = settings.task_and_kind[0].name
    padding = PaddingCollator(int(hub.tokenizer.pad_token_id), with_types=hub.with_types and task != SEQ2SEQ)
    tokenizer = hub.tokenizer
    if task == MASKED and tokenizer.mask_token_id is not None:
        specials = tokenizer.all_special_ids
        return MaskingCollator(padding, tokenizer.mask_token_id, specials, len(tokenizer), settings.mlm_probability)
    return padding


def fixed(features: Features, collator: Callable[[Any], dict[str, Tensor]]) -> Features | list[Feature]:
    """Features for evaluation: of masked-lm with the same tokens hidden each time, so that two evaluations compare."""
    if not isinstance(collator, MaskingCollator):
        return features
    generator = torch.Generator().manual_seed(0)
    hidden = [collator.hide(collator.padding([feature]), generator) for feature in features.items]
    return [{HIDDEN: True, **{name: value[0].tolist() for name, value in batch.items()}} for batch in hidden]


def loss_of(settings: Settings, data: Data) -> Loss | None:
    """The loss in place of the model's own, if one is asked for."""
    task, kind = settings.task_and_kind
    is_single = task.name == CLASSIFICATION and kind == SINGLE
    return make_loss(settings, data.labels, [example.label for example in data.train] if is_single else [])
