"""The report of a run, written when it ends, however it ends: figures, settings, and words filled in before and after.

Beside it the other callbacks that settings ask for.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import torch

from .. import __version__
from ..errors import SaveError
from .batch import prepare_batch
from .callbacks import EarlyStoppingCallback, JsonlCallback, TensorBoardCallback
from .parallel import gathered, row_of_padding
from .randomness import random_state, set_random_state
from .report import write_report
from .step import targets_of

if TYPE_CHECKING:
    from .arguments import TrainingArguments
    from .callbacks import TrainerControl, TrainerState
    from .pretrain import BERTTrainer

_N_SAMPLES, _N_GUESSES = 6, 3


@contextmanager
def collected(said: list[str]) -> Iterator[None]:
    """Note each warning that is shown."""
    show = warnings.showwarning

    def note(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        said.append(str(message))
        show(message, category, filename, lineno, file, line)

    warnings.showwarning = note
    try:
        yield
    finally:
        warnings.showwarning = show


class Words(Protocol):
    """What tells the words of ids, such as a vocabulary."""

    itos: list[str]


class ReportCallback:
    """Writes `report.json` and `report.html` into `output_dir`."""

    def __init__(self, facts: Mapping[str, object] | None = None, vocab: Words | None = None) -> None:
        """Choose what to tell beside the figures.

        Args:
            facts: Of the data, by name.
            vocab: Shows what the model fills in for hidden words; None: that is left out.
        """
        self.facts, self.vocab = dict(facts or {}), vocab
        self._before: list[list[list[object]]] = []
        self._samples: list[dict[str, object]] = []

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, trainer: BERTTrainer
    ) -> None:
        """See what the model fills in before."""
        if self.vocab is not None:
            earlier, (self._samples, before) = self._samples, self._fill_in(trainer)
            # A run that goes on keeps what the untrained model said of the same texts.
            self._before = self._before if earlier == self._samples else before

    def state_dict(self) -> dict[str, list[Any]]:
        """What the model filled in before the run began."""
        return {"samples": self._samples, "before": self._before}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep that, in a run that goes on."""
        self._samples, self._before = state["samples"], state["before"]

    def on_run_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        trainer: BERTTrainer,
        metrics: Mapping[str, object],
    ) -> None:
        """Write the report; a full disk costs the report only."""
        samples = []
        # After a failure the other processes may be gone, with parts of the weights.
        if self._samples and (state.message is None or trainer.args.sharding is None):
            _, after = self._fill_in(trainer)
            parts = zip(self._samples, self._before, after, strict=True)
            samples = [{**sample, "before": before, "after": now} for sample, before, now in parts]
        report = {
            "ok": state.message is None,
            "stopped_by": state.stopped_by,
            "message": state.message,
            "settings": {"model": trainer.bert.config, **args.to_dict(), **trainer.settings},
            "environment": {
                "library_version": __version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
                "system": platform.platform(),
                "device": str(trainer.device),
                "n_threads": torch.get_num_threads(),
            },
            "data": self.facts,
            "summary": dict(metrics),
            "log_history": state.log_history,
            "samples": samples,
            "warnings": state.warnings,
        }
        if not state.is_world_process_zero:
            return
        try:
            write_report(args.output_dir or ".", report)
        except SaveError as error:
            warnings.warn(f"no report: {error}", stacklevel=2)

    def _fill_in(self, trainer: BERTTrainer) -> tuple[list[dict[str, object]], list[list[list[object]]]]:
        """Some held-out texts with a hidden word each, and the likeliest words there."""
        assert self.vocab is not None
        data = trainer.train_data if trainer.test_data is None else trainer.test_data
        before, was_training, words = random_state(), trainer.model.training, self.vocab.itos
        batch = {name: value[:_N_SAMPLES] for name, value in next(iter(data)).items() if name in _WANTED}
        # A process without a row of the first batch takes part all the same; the main one has some.
        batch = batch if batch["bert_input"].numel() else row_of_padding(batch)
        trainer.model.eval()
        with torch.no_grad():
            # What lies in parts is set up by the first run through the whole of it.
            if trainer.args.sharding is not None:
                trainer.step.loss_of(batch)
        with torch.no_grad(), gathered(trainer.exchanger):
            prepared = prepare_batch(batch, trainer.bert.vocab_size, trainer.device)
            places, targets = prepared["places"][1], targets_of(prepared).tolist()
            model, inputs = trainer.language_model, prepared["bert_input"]
            vectors = model.bert(inputs, prepared["segment_label"], prepared.get("example"), places)
            chances, guesses = model.mask_lm(vectors).exp().topk(min(_N_GUESSES, len(words)))
        trainer.model.train(was_training)
        set_random_state(before)
        samples, answers, seen = [], [], set()
        for place, target, chance, guess in zip(places.tolist(), targets, chances.tolist(), guesses.tolist(), strict=True):
            row = place // inputs.size(1)
            if row not in seen:
                seen.add(row)
                text = " ".join(words[number] for number in inputs[row].tolist() if number)
                samples.append({"text": text, "expected": words[target]})
                answers.append([[words[number], share] for number, share in zip(guess, chance, strict=True)])
        return samples, answers


_WANTED = ("bert_input", "bert_label", "segment_label", "example")


def with_built_in(args: TrainingArguments, callbacks: Sequence[object]) -> list[object]:
    """The callbacks that the settings ask for, then the user's own."""
    built_in: list[object] = [JsonlCallback(), *([] if args.logging_dir is None else [TensorBoardCallback()])]
    if args.early_stopping_patience is not None:
        built_in.append(EarlyStoppingCallback(args.early_stopping_patience, args.early_stopping_threshold))
    if args.output_dir is not None and not any(isinstance(each, ReportCallback) for each in callbacks):
        built_in.append(ReportCallback())
    return [*built_in, *callbacks]
