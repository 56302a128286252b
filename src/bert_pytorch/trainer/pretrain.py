"""The pretraining loop: masked words and next sentence, one pass at a time.

Shapes: B sequences, L tokens per sequence, V vocabulary size, M masked tokens in the batch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import AdamW
from tqdm import tqdm

from .. import __version__
from ..dataset.loader import BatchLoader
from ..errors import InputError
from ..memory import keep_freed_memory
from ..model import BERT, BERTLM
from .batch import prepare_batch
from .checkpoint import check_same_model, differences, load_checkpoint, load_weights, save_checkpoint
from .criterion import Metrics, PretrainingCriterion, check_finite, progress_line
from .loading import count_batches, skip_batches, tell_epoch
from .objective import ParallelObjective, PretrainingObjective, sums_by
from .optim_schedule import ScheduledOptim, load_optimizer, parameter_groups
from .plan import check_settings, check_step_settings, choose_devices, default_warmup
from .randomness import random_state, set_random_state
from .update import Update


class BERTTrainer:
    """Trains a BERT on batches of masked pairs, evaluates it, saves and resumes.

    Args:
        bert: The encoder to train; it is used, not copied.
        vocab_size: Length of the vocabulary, equal to the encoder's.
        train_dataloader: Yields dicts with the tensors `bert_input`, `bert_label`, `segment_label` `[B, L]` and `is_next`
            `[B]`, int64; see `prepare_batch` for others. Any iterable that can be gone through once a pass.
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
        settings: Plain values that say how the data were made; written into checkpoints as they are.
        gradient_accumulation_steps: Batches a step; the step is that of the one big batch.
        bf16: Multiply in bfloat16; weights and sums stay float32.
        fp16: The same in float16, with losses scaled.
        float32_matmul_precision: As `torch.set_float32_matmul_precision`, while the trainer runs; None: as it is.
        gradient_checkpointing: See `BERT`.
        torch_compile: Compile the transformer blocks, by `torch_compile_backend` or inductor.

    Attributes:
        bert, model, device, train_data, test_data, optim, optim_schedule, criterion, log_freq: As in bert-pytorch.
        objective: What steps run: the losses of `language_model`, where they count.
        language_model: The `BERTLM`, also where `model` is a `DataParallel` around it.

    Raises:
        InputError: A setting is out of its range, or the schedule does not fit into `max_steps`.
        UnavailableError: `cuda_devices` names a GPU that is not there.
    """

    def __init__(
        self,
        bert: BERT,
        vocab_size: int,
        train_dataloader: Iterable[Mapping[str, Tensor]],
        test_dataloader: Iterable[Mapping[str, Tensor]] | None = None,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
        warmup_steps: int | None = None,
        with_cuda: bool = True,
        cuda_devices: Sequence[int] | None = None,
        log_freq: int = 10,
        *,
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
        check_settings(lr, betas, weight_decay, log_freq, max_steps, max_grad_norm)
        check_step_settings(gradient_accumulation_steps, torch_compile, torch_compile_backend)
        keep_freed_memory()
        self.device, gpus = choose_devices(with_cuda, cuda_devices)
        self._update = Update(self.device, bf16=bf16, fp16=fp16, float32_matmul_precision=float32_matmul_precision)
        self.bert, self.language_model = bert, BERTLM(bert, vocab_size).to(self.device)
        if word_counts is not None:
            self.language_model.mask_lm.start_bias_at(word_counts)
        self.model, self.objective = self.language_model, PretrainingObjective(self.language_model)
        if len(gpus) > 1:
            self.model = nn.DataParallel(self.language_model, device_ids=gpus)
            self.objective = ParallelObjective(self.objective, device_ids=gpus)
        bert.gradient_checkpointing = gradient_checkpointing
        if torch_compile:
            bert.compile_blocks(torch_compile_backend)
        self.train_data, self.test_data = train_dataloader, test_dataloader
        self.max_steps, self.max_grad_norm = max_steps, max_grad_norm
        self.optim = AdamW(parameter_groups(self.language_model, weight_decay), lr=lr, betas=betas, fused=True)
        if warmup_steps is None:
            warmup_steps = default_warmup(train_dataloader, max_steps, gradient_accumulation_steps)
        self.optim_schedule = ScheduledOptim(self.optim, bert.hidden, warmup_steps, n_total_steps=max_steps)
        self.criterion, self._word_counts = PretrainingCriterion(), word_counts
        self.log_freq, self.settings, self._n_together = log_freq, dict(settings or {}), gradient_accumulation_steps
        # Where the pass began, and where its last whole step ended: what a checkpoint within a pass goes on from.
        self._epoch = self._n_batches = 0
        self._is_within_pass = self._is_to_go_on = False
        self._pass_start_random = self._random = random_state()

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
        """One pass over the test data without dropout, gradients or an effect on later training; returns as `train`."""
        if self.test_data is None:
            raise InputError("BERTTrainer.test: there is no test data; give test_dataloader [E-TRAINER-NO-TEST]")
        return self.iteration(epoch, self.test_data, train=False)

    def iteration(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]], train: bool = True) -> dict[str, float]:
        """One pass over `data_loader`, with updates when `train`; returns as `train`."""
        was_training, before = self.model.training, None if train else random_state()
        metrics = Metrics(self.device, None if train else self._word_counts)
        self.model.train(train)
        try:
            with torch.set_grad_enabled(train), self._update.precision():
                self._run_pass(epoch, data_loader, train, metrics)
        finally:
            self.model.train(was_training)
            if before is not None:
                set_random_state(before)
        report = metrics.read()
        if metrics.n_steps:
            check_finite(report["loss"], epoch, metrics)
        return report

    def save(self, epoch: int, file_path: str = "output/bert_trained.model") -> str:
        """Write weights, optimiser, schedule, random state and position to `file_path + ".ep{epoch}"`.

        Args:
            epoch: Number of the pass just done.
            file_path: Path without the suffix; its folder is made when missing.

        Returns:
            The path written.

        Raises:
            SaveError: The file cannot be written; earlier files are whole.
        """
        output_path = f"{file_path}.ep{epoch}"
        within = self._is_within_pass
        state = {
            "library_version": __version__,
            "model_config": self.bert.config,
            "model": self.language_model.state_dict(),
            "optimizer": self.optim.state_dict(),
            "schedule": self.optim_schedule.state_dict(),
            "scaler": self._update.state_dict(),
            "random": self._random if within else random_state(),
            "pass_start_random": self._pass_start_random if within else None,
            "position": {
                "epoch": self._epoch if within else epoch + 1,
                "n_batches": self._n_batches if within else 0,
                "is_within_pass": within,
            },
            "n_threads": torch.get_num_threads(),
            "settings": self.settings,
        }
        save_checkpoint(output_path, state)
        return output_path

    def resume(self, path: str) -> int:
        """Take over the state of a checkpoint, so that training goes on as if it had never stopped, to the bit.

        Args:
            path: A file written by `save` of a trainer with the same model sizes and data.

        Returns:
            The number of the next pass: continue with `train` of it.

        Raises:
            InputError: The file cannot be used, or belongs to a model of other sizes or another vocabulary.
        """
        state = load_checkpoint(path)
        check_same_model(path, state, self.bert.config, self.settings)
        load_weights(path, self.language_model, state["model"])
        load_optimizer(self.optim, state["optimizer"])
        here = {**self.optim_schedule.state_dict(), **self.settings, "n_threads": torch.get_num_threads()}
        for difference in differences(state, here):
            warnings.warn(f"{path}: {difference}: the run is not the unbroken one", stacklevel=2)
        self.optim_schedule.load_state_dict(state["schedule"])
        self._update.load_state_dict(state.get("scaler", {}))
        set_random_state(state["random"])
        self._random, self._pass_start_random = state["random"], state["pass_start_random"]
        self._epoch, self._n_batches = state["position"]["epoch"], state["position"]["n_batches"]
        self._is_within_pass = self._is_to_go_on = state["position"]["is_within_pass"]
        return self._epoch

    @property
    def is_done(self) -> bool:
        """Whether the run has had its `max_steps`."""
        return self.max_steps is not None and self.optim_schedule.n_current_steps >= self.max_steps

    def _run_pass(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]], train: bool, metrics: Metrics) -> None:
        batches = self._train_batches(epoch, data_loader) if train else iter(data_loader)
        n_batches = count_batches(data_loader)
        name = f"EP_{'train' if train else 'test'}:{epoch}"
        with tqdm(total=n_batches, initial=self._n_batches if train else 0, desc=name, disable=None, file=sys.stderr) as bar:
            while not (train and self.is_done) and (group := list(islice(batches, self._n_together if train else 1))):
                prepared = [prepare_batch(batch, self.bert.vocab_size, self.device) for batch in group]
                self._step(prepared, train, metrics)
                bar.update(len(group))
                if train:
                    self._n_batches += len(group)
                    self._random = random_state()
                    if metrics.n_steps % self.log_freq == 0:
                        self._log(name, epoch, n_batches, metrics)
        if not (metrics.n_steps or (train and (self.is_done or self._n_batches))):
            raise InputError(f"{name}: the loader gave no batch; check that it can be gone through again [E-TRAINER-NO-DATA]")
        if train and (self._n_batches == n_batches or not self.is_done):
            self._epoch, self._is_within_pass = epoch + 1, False

    def _step(self, batches: Sequence[dict[str, Any]], train: bool, metrics: Metrics) -> None:
        """One or more batches forward and, in training, back, and one update by all of them."""
        targets = [batch["bert_label"].flatten()[batch["places"][1]] for batch in batches]
        n_targets = sum(len(each) for each in targets)
        n_answers = sum(len(batch.get("is_next", ())) for batch in batches)
        if train:
            self.optim_schedule.zero_grad()
        for batch, targets_M in zip(batches, targets, strict=True):
            with self._update.autocast():
                # A criterion of someone's own takes the plain way.
                is_ours = type(self.criterion) is PretrainingCriterion
                sums = self.objective(**batch) if is_ours else sums_by(self.criterion, self.model, batch)
            if train:
                self._update.backward(sums, n_targets, n_answers)
            metrics.add(sums.detach(), targets_M)
        if train:
            self._update.step(self.optim_schedule, self.language_model.parameters(), self.max_grad_norm)
        metrics.n_steps += 1

    def _train_batches(self, epoch: int, data_loader: Iterable[Mapping[str, Tensor]]) -> Iterator[Mapping[str, Tensor]]:
        """The batches of a pass that are still to be trained on, after telling the loader which pass it is."""
        tell_epoch(data_loader, epoch)
        if not self._is_to_go_on:
            self._epoch, self._n_batches, self._is_within_pass = epoch, 0, True
            self._pass_start_random = random_state()
            batches = iter(data_loader)
            self._random = random_state()
            return batches
        if epoch != self._epoch:
            where = f"the checkpoint stopped within pass {self._epoch}"
            raise InputError(f"train({epoch}): {where}; call train({self._epoch}) first [E-RESUME-EPOCH]")
        self._is_to_go_on = False
        if isinstance(data_loader, BatchLoader):
            data_loader.start_at(self._n_batches)
            return iter(data_loader)
        # A foreign loader may draw its order from the global state, so it is rewound to where the pass began.
        set_random_state(self._pass_start_random)
        batches = skip_batches(data_loader, self._n_batches, epoch)
        set_random_state(self._random)
        return batches

    def _log(self, name: str, epoch: int, n_batches: int | None, metrics: Metrics) -> None:
        report = metrics.read()
        check_finite(report["loss"], epoch, metrics)
        n_left = None if self.max_steps is None else self.max_steps - self.optim_schedule.n_current_steps
        where = f"{name} batch {self._n_batches}" + (f"/{n_batches}" if n_batches else "")
        tqdm.write(f"{where} {progress_line(report, self.optim.param_groups[0]['lr'], n_left)}", file=sys.stderr)
