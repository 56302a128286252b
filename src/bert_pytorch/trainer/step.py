"""One step of training: the gradients of its batches, added up as if they were one batch, and the update.

Where memory is short, batches are computed in parts. Where a loss or gradient is no number, the update is left out.

Shapes: B sequences, L tokens per sequence, S sums of a batch.
"""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ..errors import InputError, TrainingError, is_out_of_memory
from .batch import prepare_batch, split
from .criterion import Metrics, PretrainingCriterion
from .objective import SUMS, sums_by
from .parallel import Replicated, gathered, replicate, row_of_padding
from .randomness import random_state, set_random_state

if TYPE_CHECKING:
    from .pretrain import BERTTrainer

_LOSSES = [SUMS.index("mlm_loss"), SUMS.index("nsp_loss")]
ComputeLoss = Callable[[nn.Module, dict[str, Any], int], Tensor]
"""From the model, a prepared batch and the number of targets of the whole step to the batch's share of the step's loss."""


class EvalPrediction(NamedTuple):
    """What `compute_metrics` is given: the words predicted at all targets of an evaluation, and the true ones, `[M]` int64."""

    predictions: Tensor
    label_ids: Tensor


ComputeMetrics = Callable[[EvalPrediction], Mapping[str, float]]


class Verdict:
    """Whether a step was good. A GPU knows when it has done the step; only who asks waits for it."""

    def __init__(self, is_good: Tensor) -> None:
        """Begin to copy the answer `[]`."""
        self._is_good, self._copied = is_good, None
        if is_good.is_cuda:
            self._is_good = torch.empty((), dtype=torch.bool, pin_memory=True)
            self._is_good.copy_(is_good, non_blocking=True)
            self._copied = torch.cuda.Event()
            self._copied.record()

    def __bool__(self) -> bool:
        """The answer."""
        if self._copied is not None:
            self._copied.synchronize()
        return bool(self._is_good)


class _Prepared(NamedTuple):
    """A batch on the device, with its targets, its next-sentence answers counted, and whether it is any."""

    values: dict[str, Any]
    targets: Tensor
    n_answers: int
    is_there: bool


class Outcome(NamedTuple):
    """What a step did."""

    loss: Tensor
    """The sum of its losses, `[]`."""
    grad_norm: Tensor
    """Before clipping, `[]`."""
    rate: float
    """The learning rate it was taken at."""
    is_good: Verdict
    """Whether the weights were updated."""


class Step:
    """Takes the steps of a trainer.

    Attributes:
        n_parts, n_eval_parts: In how many parts each batch is trained on and evaluated; more than 1 once memory was short.
        is_deferred: Whether bad steps are left out on the device and told of later, so that no step waits for another.
    """

    def __init__(self, trainer: BERTTrainer, compute_loss: ComputeLoss | None, compute_metrics: ComputeMetrics | None) -> None:
        """Step this trainer.

        Raises:
            InputError: Label smoothing is asked for beside a loss that would not know of it.
        """
        if compute_loss is not None and trainer.args.label_smoothing_factor:
            message = "label_smoothing_factor has no effect on a compute_loss; smooth there, and leave it out"
            raise InputError(f"BERTTrainer: {message} [E-SETTING-CONFLICT]")
        self.trainer, self.compute_loss, self.compute_metrics = trainer, compute_loss, compute_metrics
        self.n_parts = self.n_eval_parts = 1
        is_fused, is_simple = bool(trainer.optim.defaults.get("fused")), trainer.args.nan_policy == "skip"
        is_plain = is_simple and not trainer.update.is_scaled and trainer.args.sharding is None
        self.is_deferred = trainer.device.type == "cuda" and is_fused and is_plain
        self._predictions: list[EvalPrediction] = []

    def evaluate(self, batch: Mapping[str, Tensor], metrics: Metrics) -> None:
        """Measure a batch, in parts where memory is short."""
        waiting = deque(self._parts(batch, self.n_eval_parts))
        while waiting:
            try:
                sums, targets, predictions = self._measure(waiting[0])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or len(waiting[0]["bert_input"]) < 2 or self.trainer.args.sharding is not None:
                    raise
                self.n_eval_parts *= 2
            else:
                waiting.popleft()
                metrics.add(sums, targets)
                if predictions is not None:
                    self._predictions.append(predictions)
                continue
            self._memory_was_short(f"each batch is evaluated in {self.n_eval_parts} parts; the figures stay what they are")
            waiting.extendleft(reversed(split(waiting.popleft(), 2)))
        metrics.n_steps += 1
        self.trainer.tell("on_prediction_step")

    def _measure(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, EvalPrediction | None]:
        """The sums of a batch, its targets, and what is predicted for them where someone asks."""
        prepared, targets, _, is_there = self._prepare(batch)
        sums = self._sums(prepared, len(targets))
        sums = sums if is_there else sums * 0
        if self.compute_metrics is None:
            return sums, targets, None
        model, (_, places) = self.trainer.language_model, prepared["places"]
        with self.trainer.update.autocast(), gathered(self.trainer.exchanger):
            vectors = model.bert(prepared["bert_input"], prepared["segment_label"], prepared.get("example"), places)
            predicted = model.mask_lm.predict(vectors)
        return sums, targets, EvalPrediction(predicted[: len(targets)].cpu(), targets.cpu())

    def own_metrics(self) -> dict[str, float]:
        """What `compute_metrics` makes of the batches evaluated since it was last asked."""
        if self.compute_metrics is None:
            return {}
        ranks = self.trainer.world.gather(self._predictions)
        words = EvalPrediction(*map(torch.cat, zip(*(each for rank in ranks for each in rank), strict=True)))
        self._predictions = []
        return {name: float(value) for name, value in self.compute_metrics(words).items()}

    def loss_of(self, batch: Mapping[str, Tensor]) -> float:
        """The sum of a batch's losses, whatever they are."""
        prepared = prepare_batch(batch, self.trainer.bert.vocab_size, self.trainer.device)
        sums = self._sums(prepared, max(1, len(targets_of(prepared))))
        return float(sums[:, _LOSSES].sum())

    def train(self, batches: Sequence[Mapping[str, Tensor]], metrics: Metrics) -> Outcome:
        """Add up the gradients of batches and update once.

        A step that does not fit into memory is tried again in twice as many parts, from the same random state.
        """
        random, trainer = random_state(), self.trainer
        while True:
            try:
                measured = self._add_gradients([part for batch in batches for part in self._parts(batch, self.n_parts)])
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error) or self.n_parts >= max(len(batch["bert_input"]) for batch in batches):
                    raise
                if trainer.world.size > 1:
                    # The others wait in the middle of this step, which cannot begin again here alone.
                    message = (
                        f"rank {trainer.world.rank}: out of memory; set tokens_per_part, and go on from the last checkpoint"
                    )
                    raise TrainingError(f"{message} [E-MEMORY-RANK]") from error
                self.n_parts *= 2
            else:
                return self._update(measured, metrics)
            set_random_state(random)
            self._memory_was_short(f"each batch is computed in {self.n_parts} parts; a step stays what it is")

    def _parts(self, batch: Mapping[str, Tensor], n_parts: int) -> list[Mapping[str, Tensor]]:
        """A batch in so many parts, or in as many as `tokens_per_part` asks for."""
        most = self.trainer.args.tokens_per_part
        n_needed = 1 if most is None else math.ceil(batch["bert_input"].numel() / most)
        parts = split(batch, max(n_parts, n_needed))
        if most is not None and self.trainer.args.sharding is not None:
            # Processes gather weights together, so that each has as many parts.
            nothing = {name: value[:0] for name, value in batch.items()}
            parts += [nothing] * (self.trainer.world.highest(len(parts)) - len(parts))
        return parts

    def _memory_was_short(self, what: str) -> None:
        """Say what follows; called where the failed try holds no tensor any more."""
        if self.trainer.device.type == "cuda":
            torch.cuda.empty_cache()
        warnings.warn(f"out of memory: from here on {what}", stacklevel=3)

    def _add_gradients(self, batches: Sequence[Mapping[str, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        trainer, world = self.trainer, self.trainer.world
        self._replicate(batches)
        prepared = [self._prepare(batch) for batch in batches]
        n_targets, n_answers = world.totals(
            sum(len(each.targets) for each in prepared), sum(each.n_answers for each in prepared)
        )
        trainer.optim_schedule.zero_grad()
        measured = []
        for number, (batch, targets_M, _, is_there) in enumerate(prepared, start=1):
            if measured:
                trainer.tell("on_substep_end")
            with trainer.update.exchanging(trainer.exchanger, is_last=number == len(prepared)):
                sums = self._sums(batch, n_targets)
                # A row of padding takes part in what all processes do together, and counts for nothing.
                sums = sums if is_there else sums * 0
                trainer.update.backward(sums, n_targets, n_answers, world.size)
            measured.append((sums.detach(), targets_M))
        return measured

    def _replicate(self, batches: Sequence[Mapping[str, Tensor]]) -> None:
        """Before the first step of several processes, which tells what a loss depends on, let them average gradients."""
        trainer = self.trainer
        if trainer.args.deepspeed is not None:
            from .deepspeed_engine import engage

            engage(trainer)
            return
        if trainer.world.size == 1 or trainer.args.sharding is not None or isinstance(trainer.exchanger, Replicated):
            return
        if self.compute_loss is not None:
            trainer.model = replicate(trainer.model, trainer.device, uses_all=False)
        elif type(trainer.criterion) is PretrainingCriterion:
            uses_all = all("is_next" in batch for batch in batches)
            trainer.objective = replicate(trainer.objective, trainer.device, uses_all=uses_all)
        else:
            message = "a criterion of your own is not shared by several processes; give a compute_loss"
            raise InputError(f"BERTTrainer: {message} [E-SETTING-CONFLICT]")

    def _prepare(self, batch: Mapping[str, Tensor]) -> _Prepared:
        trainer = self.trainer
        is_there = trainer.world.size == 1 or bool(batch["bert_input"].numel())
        values = prepare_batch(batch if is_there else row_of_padding(batch), trainer.bert.vocab_size, trainer.device)
        targets = targets_of(values)
        return _Prepared(values, targets if is_there else targets[:0], len(values.get("is_next", ())) * is_there, is_there)

    def _sums(self, batch: dict[str, Any], n_targets: int) -> Tensor:
        trainer = self.trainer
        with trainer.update.autocast():
            if self.compute_loss is not None:
                return _sums_of_share(self.compute_loss(trainer.model, batch, n_targets), batch, n_targets)
            # A criterion of someone's own takes the plain way.
            if type(trainer.criterion) is PretrainingCriterion:
                return trainer.objective(**batch)
            return sums_by(trainer.criterion, trainer.model, batch)

    def _update(self, measured: Sequence[tuple[Tensor, Tensor]], metrics: Metrics) -> Outcome:
        trainer = self.trainer
        rate = trainer.optim.param_groups[0]["lr"]
        norm = trainer.update.clip(trainer.optim_schedule, trainer.language_model.parameters(), trainer.max_grad_norm)
        losses = torch.stack([sums[:, _LOSSES].sum() for sums, _ in measured]).sum()
        is_good = torch.isfinite(losses) if trainer.update.is_scaled else torch.isfinite(losses) & torch.isfinite(norm)
        verdict = Verdict(is_good := trainer.world.all(is_good))
        trainer.tell("on_pre_optimizer_step")
        if self.is_deferred:
            trainer.update.step(trainer.optim_schedule, is_good)
            for sums, targets in measured:
                metrics.add(sums.where(is_good, 0.0), targets)
        elif verdict:
            trainer.update.step(trainer.optim_schedule)
            for sums, targets in measured:
                metrics.add(sums, targets)
        else:
            trainer.optim_schedule.skip()
        trainer.tell("on_optimizer_step")
        metrics.n_steps += 1
        return Outcome(losses, norm, rate, verdict)


def targets_of(prepared: Mapping[str, Any]) -> Tensor:
    """Target ids `[M]` of a prepared batch."""
    return prepared["bert_label"].flatten()[prepared["places"][1]]


def _sums_of_share(share: Tensor, batch: Mapping[str, Any], n_targets: int) -> Tensor:
    """A loss of someone's own as the sums of a batch; what it does not tell is not a number."""
    columns = dict.fromkeys(SUMS, share.new_zeros(()))
    n_here = len(targets_of(batch))
    columns |= {"mlm_loss": share * n_targets, "mlm_correct": share.new_full((), math.nan)}
    counts = {"n_targets": n_here, "n_items": len(batch["places"][0]), "real_tokens": (batch["bert_input"] != 0).sum()}
    columns |= {name: torch.as_tensor(count, dtype=share.dtype, device=share.device) for name, count in counts.items()}
    return torch.stack([columns[name] for name in SUMS])[None]
