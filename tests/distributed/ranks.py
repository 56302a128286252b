"""Trains as one of several processes: `torchrun ... -m tests.distributed.ranks PLAN.json`, or in one process by itself.

The plan is a list of runs, each a mapping: `folder`, `settings` of `TrainingArguments`, and what `run` names beside these. Each
run writes its figures and weights into its folder, so that runs of any number of processes can be compared.
"""

import json
import os
import signal
import sys
from pathlib import Path

import torch

from bert_pytorch import BERTDataset, BERTTrainer
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.errors import UserError
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.distributed import start, stop
from bert_pytorch.trainer.shard_writer import ShardWriter

from ..unit.examples import make_bert, make_vocab, story_pairs

PAIRS = [*story_pairs(), *[(second, first) for first, second in story_pairs()]][:21]
VOCAB = make_vocab(PAIRS)
BY_THE_CLOCK = ("tokens_per_second", "elapsed_seconds", "memory_bytes")


class Watch:
    """Keeps the figures, and lets a rank fail where the plan says so."""

    def __init__(self, rank, kill=None, fail=None, interrupt=None):
        self.logs, self.rank, self.kill, self.fail, self.interrupt = [], rank, kill, fail, interrupt

    def on_log(self, args, state, control, logs):
        self.logs.append({name: value for name, value in logs.items() if name not in BY_THE_CLOCK})

    def on_step_end(self, args, state, control):
        here = [self.rank, state.global_step]
        if here == self.kill and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        if here == self.interrupt:
            os.kill(os.getpid(), signal.SIGTERM)
        if here == self.fail:
            raise ValueError("no luck")


def kill_within_save(rank, number):
    """Let this process be killed while its parts of the save of that number are being written, in its first life."""
    if os.environ.get("RANK") != str(rank) or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        return
    begin, begun = ShardWriter.begin, []

    def begin_and_die(self, folder, tensors):
        begin(self, folder, tensors)
        begun.append(folder)
        if len(begun) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    ShardWriter.begin = begin_and_die


def nan_at(word):
    """A loss that is no number where a batch has a word."""

    def compute_loss(model, batch, n_targets):
        _, words = model(batch["bert_input"], batch["segment_label"], batch["bert_label"])
        targets = batch["bert_label"][batch["bert_label"] != 0]
        loss = torch.nn.functional.nll_loss(words, targets, reduction="sum") / n_targets
        is_there = ((batch["bert_input"] == VOCAB.stoi[word]) | (batch["bert_label"] == VOCAB.stoi[word])).any()
        return loss * (float("nan") if is_there else 1.0)

    return compute_loss


def run(
    corpus,
    folder,
    settings,
    batch_size=4,
    packing=False,
    objective="mlm+nsp",
    dropout=0.0,
    double=False,
    nan_word=None,
    count=False,
    deepspeed=None,
    kill_save=None,
    **events,
):
    """One run; its batch is that of all processes together."""
    world = start(False, 60)
    if kill_save is not None:
        kill_within_save(*kill_save)
    if deepspeed is not None:
        ways = {"gradient_clipping": "auto", "train_micro_batch_size_per_gpu": "auto", **deepspeed}
        settings = {**settings, "deepspeed": f"{folder}.ds-{world.rank}.json"}
        Path(settings["deepspeed"]).write_text(json.dumps({**ways, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}))
    data, held_out = (BERTDataset(corpus, VOCAB, 13, seed=seed, objective=objective) for seed in (5, 6))
    shared = {"rank": world.rank, "n_ranks": world.size, "packing": packing}
    torch.manual_seed(0)
    watch = Watch(world.rank, **events)
    args = TrainingArguments(**{"output_dir": folder, "learning_rate": 0.01, "logging_steps": 1, "ddp_timeout": 60, **settings})
    trainer = BERTTrainer(
        make_bert(len(VOCAB), n_layers=2, dropout=dropout),
        len(VOCAB),
        BatchLoader(data, batch_size, shuffle=True, **shared),
        BatchLoader(held_out, 2 * batch_size, **shared),
        with_cuda=False,
        args=args,
        callbacks=[watch],
        compute_loss=None if nan_word is None else nan_at(nan_word),
        compute_metrics=(lambda words: {"n": float(len(words.label_ids))}) if count else None,
        word_counts=data.word_counts,
    )
    if double:
        trainer.language_model.double()
    report = trainer.fit()
    moments = [value for each in trainer.optim.state.values() for value in each.values() if value.dim()]
    held = sum((each.to_local() if hasattr(each, "to_local") else each).numel() for each in moments)
    shares = world.gather(held)
    if world.is_main:
        figures = {"logs": watch.logs, "report": report, "moments": shares, "world": world.size}
        (Path(folder) / "figures.json").write_text(json.dumps(figures))


def main():
    """Run the plan; as `bert` does, an error is one line and an exit status."""
    torch.set_num_threads(1)
    plan = json.loads(Path(sys.argv[1]).read_text())
    try:
        for each in plan["runs"]:
            run(plan["corpus"], **each)
        stop()
    except UserError as error:
        print(f"rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
