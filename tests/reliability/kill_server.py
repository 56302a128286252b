"""Kills training processes at random moments, until so many are dead; each run is then resumed until it ends.

`kill_server.py FOLDER N SEED`: forks from one process that has imported torch already, as its import would take most of the
time. Prints JSON: kills, those that fell into a save or a deletion, runs, and how many ended with other weights.
"""

import hashlib
import json
import mmap
import os
import random
import shutil
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

import torch
from tqdm import tqdm

from bert_pytorch import BERT, BERTDataset, BERTTrainer, WordVocab
from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.errors import InputError
from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.reporting import ReportCallback
from bert_pytorch.trainer.run_folder import RunFolder

LINES = [(f"a{i} b{i % 3} c d", f"e f{i % 5} g{i} h") for i in range(11)]
N_STEPS = 9
INSIDE = mmap.mmap(-1, mmap.PAGESIZE)
"""Its first byte is 1 while a child writes or deletes a checkpoint; shared with the children."""


def watched(work):
    def call(*arguments):
        INSIDE[0] = 1
        try:
            return work(*arguments)
        finally:
            INSIDE[0] = 0

    return call


def train(folder, run):
    """A whole run, or what is left of it, as a new process does it."""
    vocab = WordVocab([f"{first}\t{second}\n" for first, second in LINES])
    data, held_out = (BERTDataset(folder / "corpus.txt", vocab, 13, seed=seed) for seed in (5, 6))
    torch.manual_seed(0)
    bert = BERT(len(vocab), hidden=12, n_layers=1, attn_heads=3, dropout=0.3)
    is_there = any(entry.name.startswith("checkpoint-") for entry in run.glob("*"))
    args = TrainingArguments(
        output_dir=str(run),
        max_steps=N_STEPS,
        learning_rate=0.01,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=2,
        load_best_model_at_end=False,
        resume_from_checkpoint="last" if is_there else None,
    )
    loaders = BatchLoader(data, 3, shuffle=True), BatchLoader(held_out, 5)
    trainer = BERTTrainer(bert, len(vocab), *loaders, with_cuda=False, args=args, callbacks=[Quiet()])
    try:
        trainer.fit()
    except InputError as error:
        # Killed between its last checkpoint and its end: there is no step left to do.
        assert error.code == "E-RESUME-DONE", error
    digest = hashlib.sha256()
    for value in trainer.language_model.state_dict().values():
        digest.update(bytes(value.flatten().view(torch.uint8).tolist()))
    moments = [trainer.optim.state_dict()["state"][i]["exp_avg_sq"].sum().item() for i in range(3)]
    (folder / "ended").write_text(json.dumps([digest.hexdigest(), moments, torch.get_rng_state().sum().item()]))


class Quiet(ReportCallback):
    """No report: its pictures would take all the time."""

    on_train_begin = on_run_end = None

    def on_train_end(self, args, state, control):
        """Only so that it has an event."""


def fork(folder, run):
    INSIDE[0] = 0
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # The one there is shared by all forks, and stays locked when one of them is killed while it prints.
            tqdm.set_lock(threading.RLock())
            sys.stderr = open(folder / "errors", "w")
            train(folder, run)
            status = 0
        finally:
            if status:
                traceback.print_exc()
            sys.stderr.flush()
            os._exit(status)
    return child


def has_ended(child):
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid and status:
        raise SystemExit(f"a child failed: {os.waitstatus_to_exitcode(status)}")
    return bool(pid)


def wait_and_kill(child, draws, length):
    """Kill at a random moment, every other time within a save; whether it was alive, and within one."""
    until = time.perf_counter() + draws.random() * length
    while time.perf_counter() < until:
        if has_ended(child):
            return False, False
        time.sleep(0.0005)
    if draws.random() < 0.5:
        while not INSIDE[0]:
            if has_ended(child):
                return False, False
        until = time.perf_counter() + draws.random() * length / 50
        while time.perf_counter() < until and INSIDE[0]:
            pass
    if has_ended(child):
        return False, False
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    was_inside = bool(INSIDE[0])
    return os.WIFSIGNALED(status), was_inside


def main():
    folder, n_kills, draws = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    torch.set_num_threads(1)
    (folder / "corpus.txt").write_text("".join(f"{first}\t{second}\n" for first, second in LINES))
    RunFolder._write, RunFolder._delete = watched(RunFolder._write), watched(RunFolder._delete)
    train(folder, folder / "warm")
    began = time.perf_counter()
    child = fork(folder, folder / "whole")
    os.waitpid(child, 0)
    length, expected = time.perf_counter() - began, (folder / "ended").read_text()
    kills = inside = runs = wrong = 0
    while kills < n_kills:
        run = folder / f"run{runs}"
        (folder / "ended").unlink()
        patience = 1.0
        while not (folder / "ended").exists():
            was_killed, was_inside = wait_and_kill(fork(folder, run), draws, length * patience)
            # On a busy machine a run would else be killed for ever before its first step.
            patience += 0.1
            kills += was_killed
            inside += was_killed and was_inside
        runs += 1
        wrong += (folder / "ended").read_text() != expected
        shutil.rmtree(run)
    print(json.dumps({"kills": kills, "inside": inside, "runs": runs, "wrong": wrong}))


if __name__ == "__main__":
    main()
