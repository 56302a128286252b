"""The pretraining loop: masked words and next sentence, one pass at a time.

Shapes: B sequences, L tokens per sequence, V vocabulary size, M masked tokens in the batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from tqdm import tqdm

from ..errors import InputError
from ..memory import keep_freed_memory
from ..model import BERT, BERTLM
from .arguments import TrainingArguments
from .bad_steps import BadSteps
from .checkpoint import save_checkpoint
from .criterion import Metrics, PretrainingCriterion, check_finite
from .distributed import start
from .fit import Run
from .loading import Batches, Collator, Position, as_loaders, count_batches, settings_of
from .measuring import print_progress
from .optim_schedule import ScheduledOptim
from .plan import build_optimizer, build_schedule, choose_devices, count_steps, place_model, settle
from .randomness import random_state, set_random_state
from .state import collect, restore
from .step import ComputeLoss, ComputeMetrics, Step
from .update import Update


class BERTTrainer:
    """Trains a BERT on batches of masked pairs, evaluates it, saves and resumes.

    Args:
        bert: The encoder to train; it is used, not copied.
        vocab_size: Length of the vocabulary, equal to the encoder's.
        train_dataloader: Yields dicts with the tensors `bert_input`, `bert_label`, `segment_label` `[B, L]` and `is_next`
            `[B]`, int64; see `prepare_batch` for others. Any iterable that can be gone through once a pass; or a dataset.
        test_dataloader: The same for evaluation; None: `test` cannot be called.
        lr: Peak learning rate.
        betas: AdamW's decay rates.
        weight_decay: Decoupled weight decay, for all weights but norms, biases, position and segment tables.
        warmup_steps: Steps of linear warm-up; 0: none. None: 10,000, but at most one pass over the training loader and at
            most a tenth of `max_steps`.
        with_cuda: Train on CUDA where there is one.
        cuda_devices: Numbers of the GPUs to use; None: all. The first holds the model.
        log_freq: Steps between two lines of progress on stderr.
        max_steps: Length of the whole run in steps: the rate decays to 0 over them, and `train` stops after them. None: not
            known; the rate stays at its peak after the warm-up.
        max_grad_norm: Scale gradients down to this norm, all together; None: never. The released BERT code has 1.0.
        word_counts: Corpus frequency by id (`dataset.word_counts`). Starts the masked-word bias there, and adds the
            unigram figures to what `test` reports.
        settings: Plain values that say how the data were made; written into checkpoints, beside those of a `BERTDataset`.
        args: All settings of training by Transformers' names, for `fit`; those above are then left alone.
        callbacks: Look on while `fit` runs, and may steer it (`callbacks.py` says how).
        compute_metrics: From the words predicted at all targets of an evaluation and the true ones to figures by name.
        compute_loss: A loss in place of ours: from the model, a batch and the number n of targets of the whole step to the sum
            of the batch's losses over n.
        data_collator: Makes batches of a dataset's examples; None: ours.
        gradient_accumulation_steps, bf16, fp16, float32_matmul_precision, gradient_checkpointing, torch_compile,
            torch_compile_backend: As in `TrainingArguments`.

    Attributes:
        bert, model, device, train_data, test_data, optim, optim_schedule, criterion, log_freq: As in bert-pytorch.
        objective: What steps run: the losses of `language_model`, where they count.
        language_model: The `BERTLM`, also where `model` is a `DataParallel` around it.

    Raises:
        InputError: A setting is out of its range, or the schedule does not fit into `max_steps`.
        UnavailableError: `cuda_devices` names a GPU that is not there.
    """

    language_model: BERTLM

    def __init__(
        self,
        bert: BERT,
        vocab_size: int,
        train_dataloader: Batches | Dataset[Any],
        test_dataloader: Batches | Dataset[Any] | None = None,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
        warmup_steps: int | None = None,
        with_cuda: bool = True,
        cuda_devices: Sequence[int] | None = None,
        log_freq: int = 10,
        *,
        args: TrainingArguments | None = None,
        callbacks: Sequence[object] = (),
        compute_metrics: ComputeMetrics | None = None,
        compute_loss: ComputeLoss | None = None,
        data_collator: Collator | None = None,
        max_steps: int | None = None,
        max_grad_norm: float | None = 1.0,
        word_counts: Sequence[int] | None = None,
        settings: Mapping[str, Any] | None = None,
        gradient_accumulation_steps: int = 1,
        bf16: bool = False,
        fp16: bool = False,
        float32_matmul_precision: str | None = None,
        gradient_checkpointing: bool = False,
        torch_compile: bool = False,
        torch_compile_backend: str | None = None,
    ) -> None:
        """Build the language model, its optimiser and its schedule."""
        given = {
            **{"lr": lr, "betas": betas, "weight_decay": weight_decay, "warmup_steps": warmup_steps, "log_freq": log_freq},
            **{"max_steps": max_steps, "max_grad_norm": max_grad_norm, "bf16": bf16, "fp16": fp16},
            **{"gradient_accumulation_steps": gradient_accumulation_steps, "gradient_checkpointing": gradient_checkpointing},
            "float32_matmul_precision": float32_matmul_precision,
            **{"torch_compile": torch_compile, "torch_compile_backend": torch_compile_backend},
        }
        self.args = settle(args, given)
        keep_freed_memory()
        self.world = start(with_cuda and torch.cuda.is_available(), self.args.ddp_timeout)
        self.device, gpus = choose_devices(with_cuda, cuda_devices, self.world)
        self.update, self.bert = Update(self.device, self.args), bert
        places = (self.device, gpus, self.world)
        placed = place_model(bert, vocab_size, self.args, *places, word_counts, has_own_loss=compute_loss is not None)
        self.language_model, self.model, self.objective = placed
        data = (train_dataloader, test_dataloader)
        self.train_data, self.test_data = as_loaders(*data, self.args, data_collator, self.world)
        self.max_steps = self.args.max_steps if args is None else count_steps(args, self.train_data)
        self.max_grad_norm, self.log_freq = self.args.max_grad_norm or None, self.args.logging_steps
        self.optim = build_optimizer(self.args, self.language_model)
        self.optim_schedule: ScheduledOptim = build_schedule(self.args, self.optim, self.train_data, self.max_steps)
        self.criterion, self._word_counts = PretrainingCriterion(), word_counts
        self.callbacks, self.settings = callbacks, {**settings_of(self.train_data), **(settings or {})}
        self.position, self.step = Position(), Step(self, compute_loss, compute_metrics)
        self.bad_steps = BadSteps(self)
        self._run: Run | None = None
        self.pass_metrics: Metrics | None = None
        self.metrics_to_go_on_from: tuple[list[float], int] | None = None

    def fit(self) -> dict[str, Any]:
        """The whole run that `args` describe: passes, logs, evaluations, checkpoints, and what callbacks make of it.

        Returns:
            `stopped_by` (`plan`, or what ended it before), what `train` told of the last pass, and the last evaluation with
            the prefix `eval_`.

        Raises:
            InterruptedRunError: SIGTERM or SIGINT came; the step was finished and saved.
            UserError: The run cannot begin, or not go on.
        """
        self._run = Run(self, self.callbacks)
        try:
            return self._run.fit()
        finally:
            self._run = None

    def train(self, epoch: int) -> dict[str, float]:
        """One pass over the training data, or what is left of it after a resume, or until `max_steps`.

        Args:
            epoch: Number of the pass, from 0; decides order, masks and partners.

        Returns:
            `loss, mlm_loss, nsp_loss` in nats, `mlm_accuracy, nsp_accuracy` in [0, 1], averaged over targets and pairs;
            `n_targets, n_items, real_tokens, steps, seconds`.

        Raises:
            TrainingError: The loss is no longer a finite number.
        """
        return self.iteration(epoch, self.train_data)

    def test(self, epoch: int) -> dict[str, float]:
        """One pass over the test data without dropout, gradients or an effect on training; as `train`, and own metrics."""
        if self.test_data is None:
            raise InputError("BERTTrainer.test: there is no test data; give test_dataloader [E-TRAINER-NO-TEST]")
        return self.iteration(epoch, self.test_data, train=False)

    def iteration(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]], train: bool = True) -> dict[str, float]:
        """One pass over `data_loader`, with updates when `train`; returns as `train`."""
        was_training, before = self.model.training, None if train else random_state()
        metrics = Metrics(self.device, None if train else self._word_counts, self.world)
        self.model.train(train)
        try:
            with torch.set_grad_enabled(train), self.update.precision():
                self._run_pass(epoch, data_loader, train, metrics)
        finally:
            self.model.train(was_training)
            if before is not None:
                set_random_state(before)
        report = metrics.read()
        if metrics.n_steps:
            check_finite(report["loss"], epoch, metrics)
        return report if train else {**report, **self.step.own_metrics()}

    def save(self, epoch: int, file_path: str = "output/bert_trained.model", *, run: Mapping[str, Any] | None = None) -> str:
        """Write weights, optimiser, schedule, random state and position to `file_path + ".ep{epoch}"`.

        Args:
            epoch: Number of the pass just done.
            file_path: Path without the suffix; its folder is made when missing.
            run: What `fit` wants to find again.

        Returns:
            The path written.

        Raises:
            SaveError: The file cannot be written; earlier files are whole.
        """
        output_path, state = f"{file_path}.ep{epoch}", {**collect(self, epoch), "run": run}
        self.world.on_main(lambda: save_checkpoint(output_path, state))
        return output_path

    def resume(self, path: str, *, allow_change: bool = True) -> int:
        """Take over the state of a checkpoint, so that training goes on as if it had never stopped, to the bit.

        Args:
            path: A file written by `save`, or a `checkpoint-STEP` folder, of a trainer with the same model sizes and data.
            allow_change: Go on, with a warning, where settings differ that change what is computed.

        Returns:
            The number of the next pass: continue with `train` of it.

        Raises:
            InputError: The file cannot be used, or belongs to a model of other sizes, another vocabulary or other settings.
        """
        restore(self, path, allow_change=allow_change)
        return self.position.epoch

    def tell(self, event: str) -> None:
        """Call an event of the callbacks, while `fit` runs."""
        if self._run is not None:
            self._run.handler.call(event)

    @property
    def exchanger(self) -> nn.Module:
        """What exchanges gradients with other processes: that which a step runs."""
        return self.objective if self.step.compute_loss is None else self.model

    @property
    def is_done(self) -> bool:
        """Whether the run has had its `max_steps`."""
        return self.max_steps is not None and self.optim_schedule.n_current_steps >= self.max_steps

    def _run_pass(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]], train: bool, metrics: Metrics) -> None:
        n_batches, position = count_batches(data_loader), self.position
        if train:
            batches = position.batches(epoch, data_loader)
            self.pass_metrics = metrics
            if self.metrics_to_go_on_from is not None:
                metrics.go_on_from(*self.metrics_to_go_on_from)
                self.metrics_to_go_on_from = None
        else:
            batches = iter(data_loader)
        name, n_together = f"EP_{'train' if train else 'test'}:{epoch}", self.args.gradient_accumulation_steps if train else 1
        with tqdm(
            total=n_batches,
            initial=position.n_batches if train else 0,
            desc=name,
            disable=None if self.world.is_main else True,
            file=sys.stderr,
        ) as bar:
            while not (train and self._is_to_stop) and (group := list(islice(batches, n_together))):
                if train:
                    self._train_on(group, epoch, n_batches, metrics)
                else:
                    self.step.evaluate(group[0], metrics)
                    if self._run is not None:
                        self._run.poll()
                bar.update(len(group))
        if not (metrics.n_steps or (train and (self._is_to_stop or position.n_batches))):
            raise InputError(f"{name}: the loader gave no batch; check that it can be gone through again [E-TRAINER-NO-DATA]")
        if train and (position.n_batches == n_batches or not self._is_to_stop):
            position.pass_done()
            self.bad_steps.pass_ends()

    @property
    def _is_to_stop(self) -> bool:
        return self.is_done or (self._run is not None and self._run.is_to_stop)

    def _train_on(self, group: Sequence[Mapping[str, Tensor]], epoch: int, n_batches: int | None, metrics: Metrics) -> None:
        self.tell("on_step_begin")
        self.position.step_begins()
        outcome = self.step.train(group, metrics)
        self.position.batches_done(len(group))
        self.bad_steps.note(outcome, group, epoch)
        if self._run is not None:
            self._run.step_ended(epoch, n_batches, outcome)
        elif metrics.n_steps % self.log_freq == 0:
            print_progress(self, epoch, n_batches, outcome.rate)
