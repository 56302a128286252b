"""Held-out masked-word loss after equal minutes: each side trains by its own trainer, and all predict the same hidden words.

Imported by `compare.py`. The clock stands while a model is evaluated. Sides:

- `ours-recipe`: what `bert --config RECIPE` does;
- `bert-pytorch`: its own trainer, with its warm-up cut from 10,000 to 100 steps, else it learns nothing in minutes;
- `trainer`: the Transformers Trainer, masked words alone, on the true pairs;
- `trainer-best`: grouped by length, sdpa, fused AdamW, and a peak rate of 5e-4.

All but bert-pytorch warm up over a tenth of the time; then the rate falls to 0 at its end, in a line.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compare import SOURCE, Size, rows_of, transformers_collator, transformers_config, vocabulary

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from torch.utils.data import DataLoader
    from transformers import TrainerControl

    from bert_pytorch.dataset.loader import BatchLoader

WARM_UP = 0.1
LEAST_SHARE = 1e-3
MANY = 1_000_000
N_POINTS = 4
Predict = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
"""From ids, segments and the places of targets to scores of all words at these."""


class Clock:
    """Seconds of training, the rate at each, and the held-out loss at some of them.

    The rate rises over the first tenth of the time and falls to 0 at its end, so that every side uses all of its time, whatever
    number of steps it makes of it.
    """

    def __init__(self, seconds: float, evaluate: Callable[[], float], set_share: Callable[[float], None] | None = None) -> None:
        """Begin now; `set_share` sets the rate to a share of its peak, without it the rate is left to its owner."""
        self.seconds, self.evaluate, self.set_share = seconds, evaluate, set_share
        self.curve: list[tuple[float, float]] = []
        self.steps = 0
        self.began = time.perf_counter()
        self._move_rate(0)

    def step_done(self) -> bool:
        """Count a step; whether the time is over."""
        self.steps += 1
        elapsed = time.perf_counter() - self.began
        self._move_rate(elapsed / self.seconds)
        if elapsed >= (len(self.curve) + 1) / N_POINTS * self.seconds:
            self.curve.append((elapsed, self.evaluate()))
            self.began = time.perf_counter() - elapsed
        return elapsed >= self.seconds

    def _move_rate(self, part: float) -> None:
        if self.set_share is not None:
            self.set_share(max(LEAST_SHARE, min(part / WARM_UP, (1 - part) / (1 - WARM_UP))))

    def watch(self, batches: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """The same batches, until the time is over; a batch counts as trained when the next one is asked for."""
        for batch in batches:
            yield batch
            if self.step_done():
                return


class Watched:
    """A loader on a clock."""

    def __init__(self, batches: BatchLoader | DataLoader, clock: Clock) -> None:
        """Watch these."""
        self.batches, self.clock = batches, clock

    def __len__(self) -> int:
        """As many as there are."""
        return len(self.batches)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Go through them on the clock."""
        return self.clock.watch(self.batches)

    def set_epoch(self, epoch: int) -> None:
        """Choose the pass, where the loader wants to know."""
        if hasattr(self.batches, "set_epoch"):
            self.batches.set_epoch(epoch)


def held_out_batches(folder: Path, size: Size) -> list[dict[str, Tensor]]:
    """The held-out pairs, 15 % of their words hidden, the same for every side; made by this library in a process of its own."""
    import torch

    return torch.load(folder / f"held_out.{size.seq_len}.pt")


def write_held_out(folder: Path, size: Size) -> None:
    """Make what `held_out_batches` reads."""
    import torch

    sys.path.insert(0, str(SOURCE))
    from bert_pytorch import BERTDataset, WordVocab
    from bert_pytorch.dataset.loader import BatchLoader

    vocab = WordVocab.load_vocab(folder / "vocab.txt")
    data = BERTDataset(folder / "valid.txt", vocab, size.seq_len, objective="mlm", seed=0)
    torch.save([dict(batch) for batch in BatchLoader(data, 32, group_by_length=True)], folder / f"held_out.{size.seq_len}.pt")


def loss_of(predict: Predict, batches: list[dict[str, Tensor]]) -> float:
    """Nats a hidden word."""
    import torch
    import torch.nn.functional as F

    total, n_targets = 0.0, 0
    with torch.no_grad():
        for batch in batches:
            is_target = batch["bert_label"] != 0
            targets = batch["bert_label"][is_target]
            scores = predict(batch["bert_input"], batch["segment_label"], is_target)
            total += float(F.cross_entropy(scores.float(), targets.to(scores.device), reduction="sum"))
            n_targets += len(targets)
    return total / n_targets


def learn_ours(folder: Path, size: Size, seconds: float, seed: int, recipe: str) -> Clock:
    """By the recipe."""
    import torch

    sys.path.insert(0, str(SOURCE))
    from bert_pytorch.assembly import make_loaders, make_trainer
    from bert_pytorch.cli import bert_parser
    from bert_pytorch.dataset.vocab import Vocab
    from bert_pytorch.inputs import open_datasets

    words = f"--config {recipe} -c {folder}/corpus.txt -v {folder}/vocab.txt -o {folder}/ours.model --seed {seed}"
    sizes = f"-hs {size.hidden} -l {size.layers} -a {size.heads} -s {size.seq_len} --log_freq 1000000"
    sizes += " --lr_scheduler_type constant --warmup_steps 0"
    args = bert_parser().parse(f"{words} {sizes}".split())
    vocab = Vocab.load_vocab(args.vocab_path)
    dataset, _ = open_datasets(args, vocab)
    loader, _ = make_loaders(args, dataset, None, False)

    torch.manual_seed(seed)
    trainer, held_out = make_trainer(args, vocab, loader, None, False, MANY, dataset), held_out_batches(folder, size)

    def predict(ids: Tensor, segments: Tensor, is_target: Tensor) -> Tensor:
        trainer.model.eval()
        scores = trainer.language_model(ids, segments, is_target.long())[1]
        trainer.model.train()
        return scores

    schedule, peak = trainer.optim_schedule, trainer.optim_schedule.init_lr

    def set_share(share: float) -> None:
        schedule.init_lr = peak * share

    clock = Clock(seconds, lambda: loss_of(predict, held_out), set_share)
    trainer.train_data = Watched(loader, clock)
    epoch = 0
    while time.perf_counter() - clock.began < seconds:
        trainer.train(epoch)
        epoch += 1
    clock.curve.append((time.perf_counter() - clock.began, clock.evaluate()))
    return clock


def learn_ancestor(folder: Path, size: Size, seconds: float, seed: int) -> Clock:
    """By bert-pytorch's trainer."""
    import torch
    from torch.utils.data import DataLoader

    from bert_pytorch.dataset import BERTDataset, WordVocab
    from bert_pytorch.model import BERT
    from bert_pytorch.trainer import BERTTrainer

    torch.manual_seed(seed)
    random.seed(seed)
    vocab = WordVocab([])
    vocab.itos = vocabulary(folder)
    vocab.stoi = {word: index for index, word in enumerate(vocab.itos)}
    loader = DataLoader(BERTDataset(folder / "corpus.txt", vocab, size.seq_len), size.batch_size, shuffle=True)
    bert = BERT(size.words, size.hidden, size.layers, size.heads)
    held_out = held_out_batches(folder, size)

    def predict(ids: Tensor, segments: Tensor, is_target: Tensor) -> Tensor:
        trainer.model.eval()
        scores = trainer.model(ids, segments)[1][is_target]
        trainer.model.train()
        return scores

    clock = Clock(seconds, lambda: loss_of(predict, held_out))
    trainer = BERTTrainer(bert, size.words, Watched(loader, clock), warmup_steps=100, with_cuda=False, log_freq=1_000_000)
    epoch = 0
    while time.perf_counter() - clock.began < seconds:
        trainer.train(epoch)
        epoch += 1
    clock.curve.append((time.perf_counter() - clock.began, clock.evaluate()))
    return clock


def learn_transformers(folder: Path, size: Size, seconds: float, seed: int, best: bool) -> Clock:
    """By the Transformers Trainer with `BertForMaskedLM`."""
    import torch
    from transformers import BertForMaskedLM, Trainer, TrainerCallback, TrainingArguments

    held_out, rows = held_out_batches(folder, size), rows_of(folder, size.seq_len, all_are_next=True)
    collator = transformers_collator(folder)

    best_settings = {"train_sampling_strategy": "group_by_length", "learning_rate": 5e-4}
    arguments = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=size.batch_size,
        max_steps=MANY,
        seed=seed,
        lr_scheduler_type="constant",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_strategy="no",
        **(best_settings if best else {}),
    )
    torch.manual_seed(seed)
    attention = {"attn_implementation": "sdpa"} if best else {}
    model = BertForMaskedLM._from_config(transformers_config(size), **attention)

    def predict(ids: Tensor, segments: Tensor, is_target: Tensor) -> Tensor:
        model.eval()
        types = (segments - 1).clamp(min=0)
        scores = model(input_ids=ids, token_type_ids=types, attention_mask=(ids != 0).long()).logits[is_target]
        model.train()
        return scores

    clocks: list[Clock] = []

    class Tick(TrainerCallback):
        """Tells a clock of each step."""

        def on_train_begin(self, args: object, state: object, control: object, optimizer: Optimizer, **_: object) -> None:
            def set_share(share: float) -> None:
                for group in optimizer.param_groups:
                    group["lr"] = arguments.learning_rate * share

            clocks.append(Clock(seconds, lambda: loss_of(predict, held_out), set_share))

        def on_step_end(self, args: object, state: object, control: TrainerControl, **_: object) -> None:
            control.should_training_stop = clocks[0].step_done() or control.should_training_stop

    Trainer(model, arguments, collator, rows, callbacks=[Tick()]).train()
    clock = clocks[0]
    clock.curve.append((time.perf_counter() - clock.began, clock.evaluate()))
    return clock


def learn(side: str, folder: Path, size: Size, seconds: float, seed: int, recipe: str) -> dict[str, object]:
    """One side in this process."""
    if side == "ours-recipe":
        clock = learn_ours(folder, size, seconds, seed, recipe)
    elif side == "bert-pytorch":
        clock = learn_ancestor(folder, size, seconds, seed)
    else:
        clock = learn_transformers(folder, size, seconds, seed, best=side == "trainer-best")
    return {"loss": clock.curve[-1][1], "steps": clock.steps, "curve": clock.curve}
