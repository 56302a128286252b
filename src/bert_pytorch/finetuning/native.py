"""The native engine: heads of this library trained by its own optimisers, schedules and checkpoints; torch alone is needed."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ..errors import TrainingError, UsageError
from ..memory import keep_freed_memory
from ..trainer.distributed import World
from ..trainer.optim_schedule import ScheduledOptim
from ..trainer.optimizers import MUON, make_optimizer, parameter_groups
from ..trainer.plan import choose_devices
from ..trainer.run_folder import RunFolder
from ..trainer.schedules import PLATEAU
from ..trainer.update import Update
from . import native_state
from .collating import PaddingCollator
from .data import Data
from .encoders import encoder_of
from .features import make_features
from .losses import Loss, count_targets, make_loss, usual_loss
from .metrics import Figures
from .native_arguments import native_arguments
from .native_batches import NativeBatches
from .native_evaluation import HeldOut, evaluate
from .native_model import Head, freeze, groups_of, inputs_of, load_start, make_head, save_model, take_pooler
from .results import Observer, Result
from .settings import Settings
from .tasks import ANSWERS, CLASSIFICATION, SINGLE


class Run:
    """A run of the native engine; what a checkpoint holds are its attributes.

    Attributes:
        epoch, n_groups, step: Where it is: pass, steps of the pass, and steps of the run done.
        best: The best evaluation's `step` and `value`, if there was one.
        n_worse: Evaluations since.
        history: What was logged.
        loss_sum, loss_count: Of the steps since the last log; `total_loss`: of all steps.
        saved_step: The step of the newest checkpoint.
    """

    def __init__(self, settings: Settings, model: Head, batches: NativeBatches, held_out: HeldOut, loss: Loss | None) -> None:
        """Plan the run; `make_optimiser` follows once weights are in place."""
        self.notices: list[str] = []
        self.args, on_cpu = native_arguments(settings, self.notices)
        self.settings, self.model, self.batches, self.held_out, self.loss = settings, model, batches, held_out, loss
        self.device, _ = choose_devices(not on_cpu, None, World())
        self.update = Update(self.device, self.args)
        self.model.to(self.device)
        self.n_parameters = freeze(model, settings)
        model.bert.gradient_checkpointing = self.args.gradient_checkpointing
        if self.args.torch_compile:
            model.bert.compile_blocks(self.args.torch_compile_backend)
        self.per_pass = -(-len(batches) // self.args.gradient_accumulation_steps)
        self.max_steps = self.args.max_steps or self.per_pass * self.args.num_train_epochs
        self._make_optimizer()
        self.epoch = self.n_groups = self.step = self.n_worse = self.loss_count = 0
        self.saved_step: int | None = None
        self.best: dict[str, Any] | None = None
        self.history: list[dict[str, Any]] = []
        self.loss_sum = self.total_loss = 0.0
        self.is_ending = False

    def fit(self, folder: RunFolder, observer: Observer | None) -> None:
        """Train until the plan is done, or something ends it."""
        self.folder, self.observer = folder, observer
        self.model.train()
        with tqdm(total=self.max_steps, initial=self.step, desc="fine-tune", disable=None, file=sys.stderr) as bar:
            while self.step < self.max_steps and not self.is_ending:
                rows, size = self.batches.shuffled(self.epoch), self.args.gradient_accumulation_steps
                groups = [rows[i : i + size] for i in range(0, len(rows), size)]
                for group in groups[self.n_groups :]:
                    self._step([self.batches.make(each) for each in group])
                    bar.update()
                    self._after_step(len(groups))
                    if self.step >= self.max_steps or self.is_ending:
                        break
                if self.n_groups == len(groups):
                    self.epoch, self.n_groups = self.epoch + 1, 0
        if self.args.save_strategy != "no" and self.saved_step != self.step:
            native_state.save(self)

    def _make_optimizer(self) -> None:
        args = self.args
        groups = (
            parameter_groups(self.model, args.weight_decay, optim=args.optim)
            if args.optim == MUON
            else groups_of(self.model, args.learning_rate, args.weight_decay, self.settings.layer_rate_decay)
        )
        self.optimizer = make_optimizer(
            args.optim,
            groups,
            lr=args.learning_rate,
            betas=(args.adam_beta1, args.adam_beta2),
            eps=args.adam_epsilon if args.adam_epsilon != type(args).adam_epsilon else None,
            settings=args.optim_args,
        )
        warmup = args.warmup_steps
        if warmup is None:
            share = 0.0 if args.lr_scheduler_type == "constant" else args.warmup_ratio or 0.0
            warmup = min(math.ceil(share * self.max_steps), self.max_steps - 1)
        plan = dict(args.lr_scheduler_kwargs or {})
        if args.lr_scheduler_type == PLATEAU:
            plan.setdefault("mode", "max" if args.is_greater_better else "min")
        self.schedule = ScheduledOptim(
            self.optimizer,
            0,
            warmup,
            n_total_steps=self.max_steps,
            schedule=args.lr_scheduler_type,
            schedule_settings=plan,
        )

    def _step(self, batches: Sequence[Mapping[str, Tensor]]) -> None:
        """Add up the gradients of some batches as if they were one, and update."""
        moved = [{name: value.to(self.device) for name, value in batch.items()} for batch in batches]
        counts = [count_targets(batch) for batch in moved]
        self.schedule.zero_grad()
        total = torch.zeros((), device=self.device)
        for batch, n_targets in zip(moved, counts, strict=True):
            if not n_targets:
                continue  # Sentences of which every tag was cut off.
            with self.update.autocast():
                logits = self.model(*inputs_of(batch))
            share = self.loss_of(logits, batch) * (n_targets / sum(counts))
            self.update.scaler.scale(share).backward()
            total += share.detach()
        self.update.clip(self.schedule, self.model.parameters(), self.args.max_grad_norm or None)
        value = float(total)
        if not math.isfinite(value):
            hint = "lower learning_rate; an earlier checkpoint can be gone on from"
            raise TrainingError(f"finetune: the loss of step {self.step + 1} is {value}; {hint} [E-LOSS-NONFINITE]")
        self.update.step(self.schedule)
        self.step, self.n_groups = self.step + 1, self.n_groups + 1
        self.loss_sum, self.loss_count, self.total_loss = self.loss_sum + value, self.loss_count + 1, self.total_loss + value

    def loss_of(self, logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
        """The mean loss of a batch."""
        task, kind = self.settings.task_and_kind
        if self.loss is not None:
            return self.loss(logits, batch["labels"])
        return usual_loss(logits, batch, task.name, kind)

    def _after_step(self, n_groups: int) -> None:
        args, is_pass_end = self.args, self.n_groups == n_groups
        is_last = self.step == self.max_steps
        if is_due(args.logging_strategy, args.logging_steps, self.step, is_pass_end) or is_last:
            rate = max(group["lr"] for group in self.optimizer.param_groups)
            mean = self.loss_sum / max(1, self.loss_count)
            self._log({"loss": mean, "learning_rate": rate})
            self.loss_sum, self.loss_count = 0.0, 0
        position = self.step / self.per_pass if args.eval_strategy == "epoch" else self.step
        steps = args.eval_steps or args.logging_steps
        if is_due(args.eval_strategy or "epoch", steps, self.step, is_pass_end) and position >= args.eval_delay:
            self._evaluate()
        is_stopped = self.step == self.settings.stop_after_steps
        self.is_ending |= is_stopped
        if is_due(args.save_strategy, args.save_steps or 500, self.step, is_pass_end) or is_stopped:
            native_state.save(self)

    def _evaluate(self) -> None:
        figures = {f"eval_{name}": value for name, value in evaluate(self, self.held_out).items()}
        self._log(figures)
        name = self.args.best_metric_name
        if name not in figures:
            known = ", ".join(figures)
            raise UsageError(f"metric_for_best_model: no figure {name}, there are {known} [E-METRIC-NAME]")
        sign = 1 if self.args.is_greater_better else -1
        gain = math.inf if self.best is None else sign * (figures[name] - float(self.best["value"]))
        self.n_worse = 0 if gain > self.args.early_stopping_threshold else self.n_worse + 1
        self.schedule.report_metric(figures[name])
        if gain > 0:
            self.best = {"step": self.step, "value": figures[name]}
            if self.args.load_best_model_at_end:
                native_state.save(self)
        patience = self.args.early_stopping_patience
        self.is_ending |= patience is not None and self.n_worse >= patience
        if self.observer is not None:
            self.is_ending |= self.observer.evaluated(figures, self.step)

    def _log(self, figures: Mapping[str, float]) -> None:
        self.history.append({"step": self.step, "epoch": self.step / self.per_pass, **figures})


def is_due(strategy: str, steps: int, step: int, is_pass_end: bool) -> bool:
    """Whether something that happens by `steps` or `epoch` happens after this step."""
    return is_pass_end if strategy == "epoch" else strategy == "steps" and step % steps == 0


def train(settings: Settings, data: Data, observer: Observer | None = None) -> tuple[Result, Mapping[str, Any]]:
    """Fine-tune with this library alone.

    Args:
        settings: The run.
        data: Its data.
        observer: Told of each evaluation; may end the run.

    Returns:
        The result, and the sizes of the model.

    Raises:
        UserError: Model, data or settings cannot be used, or training cannot go on.
    """
    task, kind = settings.task_and_kind
    if settings.compute_loss is not None and task.name == ANSWERS:
        raise UsageError("compute_loss is for labels, not question-answering; leave it out [E-SETTING-CONFLICT]")
    keep_freed_memory()
    start = load_start(settings)
    model = make_head(settings, start.language_model.bert, data.labels)
    take_pooler(model, start.language_model)
    encoder = encoder_of(start.vocab)
    sets = {"train": data.train, "eval": data.validation, **({} if data.test is None else {"test": data.test})}
    features = {name: make_features(examples, encoder, settings) for name, examples in sets.items()}
    found = [example.label for example in data.train] if task.name == CLASSIFICATION and kind == SINGLE else []
    loss, collator = make_loss(settings, data.labels, found), PaddingCollator(encoder.pad_id)
    sizes = {name: int(str(settings.training.get(f"per_device_{name}_batch_size", 32))) for name in ("train", "eval")}
    batches = {
        name: NativeBatches(each, collator, sizes["train" if name == "train" else "eval"], settings.seed)
        for name, each in features.items()
    }
    held_out = {name: HeldOut(batches[name], sets[name], data.labels) for name in batches if name != "train"}
    run = Run(settings, model, batches["train"], held_out["eval"], loss)
    folder = RunFolder(settings.output_dir)
    try:
        checkpoint = native_state.find_checkpoint(folder, settings)
        torch.manual_seed(settings.seed)
        if checkpoint is not None:
            native_state.restore(run, checkpoint)
        first, began = run.step, time.monotonic()
        run.fit(folder, observer)
        seconds = time.monotonic() - began
        if run.args.load_best_model_at_end and run.best is not None:
            run.model.load_state_dict(native_state.best_weights(folder, run.best))
        figures: Figures = {}
        for name, each in held_out.items():
            figures |= {f"{name}_{metric}": value for metric, value in evaluate(run, each).items()}
        head = save_model(settings.output_dir, run.model, start.vocab)
    finally:
        folder.close()
    facts: dict[str, object] = {"steps": run.step, "train_loss": run.total_loss / max(1, run.step), "device": str(run.device)}
    has_best = run.best is not None and int(run.best["step"]) in folder.steps()
    best = str(folder.checkpoint(int(run.best["step"]))) if run.best is not None and has_best else None
    facts |= {"best_checkpoint": best, "train_seconds": seconds}
    rows = (run.step - first) / run.per_pass * len(data.train)
    facts |= {"examples_per_second": rows / seconds if rows else None, "learning_parameters": run.n_parameters}
    facts |= {f"{name}_cut_rows": each.n_cut for name, each in features.items()}
    facts |= {f"{name}_lost_tags": each.lost_tags for name, each in features.items() if each.lost_tags}
    is_stopped = settings.stop_after_steps is not None and run.step < run.max_steps
    return Result(figures, facts, run.notices, run.history, is_stopped), head
