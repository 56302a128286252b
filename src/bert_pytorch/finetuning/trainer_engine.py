"""The Transformers Trainer, set up for a task and driven from the settings."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, TrainingError
from ..extras import import_extra
from .collating import MaskingCollator, PaddingCollator
from .data import Data
from .examples import Example
from .features import IGNORED, Features, make_features
from .hub_models import HubModel, load_hub_model
from .labels import LabelMap
from .losses import Loss, make_loss
from .metrics import Figures, perplexity
from .names import Values, modern
from .results import Observer, Result
from .scoring import Predictions, measure, predict
from .settings import Settings
from .tasks import ANSWERS, CAUSAL, CLASSIFICATION, MASKED, SEQ2SEQ, SINGLE
from .user_code import load_function, load_list


class Measured:
    """Figures of the data that are being evaluated, from what the Trainer hands over.

    Attributes:
        examples, features: Those of the data at hand.
        predictions: The last ones.
    """

    def __init__(self, settings: Settings, labels: LabelMap | None, tokenizer: Any) -> None:
        """Measure for this task."""
        self.settings, self.labels, self.tokenizer = settings, labels, tokenizer
        self.examples: Sequence[Example] = ()
        self.features = Features()
        self.predictions: Predictions | None = None
        path = settings.compute_metrics
        self.own: Callable[..., Any] | None = None if path is None else load_function(path, "compute_metrics")

    def __call__(self, prediction: Any) -> Figures:
        """As `compute_metrics` of the Trainer."""
        self.predictions = self.predictions_of(prediction.predictions)
        if self.settings.task_and_kind[0].name == SEQ2SEQ:
            from .generating import rouge

            figures = rouge(self.predictions.values, [example.label for example in self.examples])
        else:
            figures = measure(self.predictions, self.examples, self.settings, self.labels)
        if self.own is not None:
            true = [example.label if not example.answers else list(example.answers) for example in self.examples]
            figures |= {name: float(value) for name, value in self.own(self.predictions.values, true).items()}
        return figures

    def predictions_of(self, raw: Any) -> Predictions:
        """Predictions from the arrays of the Trainer, which are padded to the longest window of all."""
        if self.settings.task_and_kind[0].name == SEQ2SEQ:
            ids = raw[0] if isinstance(raw, tuple) else raw
            ids = [[i if i >= 0 else self.tokenizer.pad_token_id for i in row] for row in ids.tolist()]
            texts = self.tokenizer.batch_decode(ids, skip_special_tokens=True)
            return Predictions([text.strip() for text in texts], [None] * len(texts), [])
        if self.settings.task_and_kind[0].name == ANSWERS:
            raw = torch.stack([torch.from_numpy(part) for part in raw[:2]], -1)
        else:
            raw = torch.from_numpy(raw[0] if isinstance(raw, tuple) else raw)
        return predict(list(raw), self.features, self.examples, self.settings, self.labels)


def train(settings: Settings, data: Data, observer: Observer | None = None) -> Result:
    """Fine-tune with the Transformers Trainer.

    Args:
        settings: The run.
        data: Its data.
        observer: Told of each evaluation; may end the run.

    Raises:
        InputError: Model, data or settings cannot be used.
        UsageError: A setting of the Trainer is unknown or has gone.
        UnavailableError: A package is not installed.
    """
    transformers = import_extra("transformers", "bert-pytorch[finetune]")
    import_extra("accelerate", "bert-pytorch[finetune]")
    notices: list[str] = []
    args = make_arguments(transformers, settings, notices)
    hub = load_hub_model(settings, data.labels)
    sets = {"train": data.train, "eval": data.validation, **({} if data.test is None else {"test": data.test})}
    features = {name: make_features(examples, hub.encoder, settings) for name, examples in sets.items()}
    measured = Measured(settings, data.labels, hub.tokenizer)
    trainer = make_trainer(transformers, settings, args, hub, data, measured, observer)
    trainer.train_dataset, trainer.own_sets = features["train"], {name: (sets[name], features[name]) for name in sets}
    trainer.eval_dataset = prepared_for_evaluation(features["eval"], trainer.data_collator)
    with contextlib.redirect_stdout(sys.stderr):
        outcome = trainer.train(resume_from_checkpoint=_resume_from(transformers, settings))
        figures = trainer.evaluate()
        if "test" in features:
            trainer.own_split = "test"
            tested = prepared_for_evaluation(features["test"], trainer.data_collator)
            figures |= trainer.evaluate(tested, metric_key_prefix="test")
        trainer.save_model(settings.output_dir)
        hub.tokenizer.save_pretrained(settings.output_dir)
        if args.push_to_hub:
            trainer.push_to_hub()
    facts = {"steps": trainer.state.global_step, "train_loss": outcome.metrics.get("train_loss")}
    facts |= {"best_checkpoint": trainer.state.best_model_checkpoint, "device": str(args.device)}
    seconds = outcome.metrics.get("train_runtime")
    facts |= {"train_seconds": seconds, "examples_per_second": outcome.metrics.get("train_samples_per_second")}
    counts = {f"{name}_cut_rows": each.n_cut for name, each in features.items()}
    counts |= {f"{name}_lost_tags": each.lost_tags for name, each in features.items() if each.lost_tags}
    is_stopped = settings.stop_after_steps is not None and trainer.state.global_step < trainer.state.max_steps
    return Result(figures, {**facts, **counts}, notices, trainer.state.log_history, is_stopped)
