"""Small runs of `fit`, as several test files start them."""

import json

import torch

from bert_pytorch import BERTDataset
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.trainer import BERTTrainer
from bert_pytorch.trainer.arguments import TrainingArguments

from .examples import make_bert, make_vocab, story_pairs, write_pairs

BY_THE_CLOCK = ("tokens_per_second", "elapsed_seconds", "memory_bytes")
VOCAB = make_vocab(story_pairs())


def loaders(folder, batch_size=3, n_workers=0, **options):
    path = write_pairs(folder / "corpus.txt", story_pairs())
    data, held_out = (BERTDataset(path, VOCAB, 13, seed=seed) for seed in (5, 6))
    return BatchLoader(data, batch_size, n_workers, shuffle=True, **options), BatchLoader(held_out, batch_size)


def start(
    folder,
    callbacks=(),
    batch_size=3,
    n_workers=0,
    compute_loss=None,
    compute_metrics=None,
    held_out=True,
    dropout=0.3,
    **settings,
):
    """A new trainer as a new process would build it."""
    train, test = loaders(folder, batch_size, n_workers)
    bert = make_bert(len(VOCAB), n_layers=1, dropout=dropout)
    args = TrainingArguments(**{"output_dir": str(folder / "run"), "learning_rate": 0.01, "logging_steps": 2, **settings})
    trainer = BERTTrainer(
        bert,
        len(VOCAB),
        train,
        test if held_out else None,
        with_cuda=False,
        args=args,
        callbacks=callbacks,
        compute_loss=compute_loss,
        compute_metrics=compute_metrics,
    )
    torch.manual_seed(1)
    return trainer


def history(folder):
    lines = (folder / "run" / "log.jsonl").read_text().splitlines()
    return [{name: value for name, value in json.loads(line).items() if name not in BY_THE_CLOCK} for line in lines]


def checkpoints(folder):
    return sorted(int(path.name.split("-")[1]) for path in (folder / "run").glob("checkpoint-*") if path.suffix == "")


class Stop:
    """Ends a run after a step, as a signal, an error or a flag does."""

    def __init__(self, step, how):
        self.step, self.how = step, how

    def on_step_end(self, args, state, control):
        if state.global_step == self.step:
            self.how(control)
