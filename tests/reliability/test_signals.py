"""Signals at awkward moments: within an evaluation, within a save, twice, to a whole group; the run goes on to the bit."""

import hashlib
import json
import os
import shutil
import signal
import time

import pytest

from bert_pytorch.dataset.loader import BatchLoader
from bert_pytorch.trainer.signals import InterruptedRunError

from ..unit.examples import make_vocab, same_tensors, start_python, story_pairs, whole_state, write_pairs
from ..unit.runs import checkpoints, history, start

PLAN = {"num_train_epochs": 2, "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 2}
SMALL = "-c corpus.txt -t corpus.txt -v vocab.json -hs 8 -l 1 -a 2 -s 13 -b 2 --device cpu --log_freq 1 --dropout 0.3".split()


def unbroken(folder):
    folder.mkdir()
    trainer = start(folder, **PLAN)
    trainer.fit()
    return whole_state(trainer), history(folder)


def go_on(folder):
    trainer = start(folder, resume_from_checkpoint="last", **PLAN)
    trainer.fit()
    return whole_state(trainer), history(folder)


class Interrupting(BatchLoader):
    """A loader that sends this process a signal before its second batch, once."""

    is_armed = True

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if self.is_armed and number == 1:
                type(self).is_armed = False
                os.kill(os.getpid(), signal.SIGTERM)
            yield batch


def test_an_evaluation_is_left_at_once_and_made_up_for(tmp_path):
    expected, logs = unbroken(tmp_path / "a")
    (tmp_path / "b").mkdir()
    broken = start(tmp_path / "b", **PLAN)
    Interrupting.is_armed = True
    broken.test_data = Interrupting(broken.test_data.dataset, 3)
    with pytest.raises(InterruptedRunError, match=r"after step 3: saved as .*checkpoint-3;"):
        broken.fit()
    assert [entry for entry in history(tmp_path / "b") if "eval_loss" in entry] == []
    state, history_b = go_on(tmp_path / "b")
    assert same_tensors(state, expected)
    assert history_b == logs


def test_a_save_is_finished_first(tmp_path, monkeypatch):
    expected, logs = unbroken(tmp_path / "a")
    (tmp_path / "b").mkdir()
    sent = []

    def fsync(descriptor, real=os.fsync):
        # The first one may be that of the log.
        if (tmp_path / "b" / "run").exists() and list((tmp_path / "b" / "run").glob(".tmp-checkpoint-2-*")) and not sent:
            sent.append(descriptor)
            os.kill(os.getpid(), signal.SIGTERM)
        return real(descriptor)

    broken = start(tmp_path / "b", **PLAN)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(InterruptedRunError, match=r"after step 2: saved as .*checkpoint-2;"):
            broken.fit()
    assert checkpoints(tmp_path / "b") == [2]
    assert sent
    state, history_b = go_on(tmp_path / "b")
    assert same_tensors(state, expected)
    assert history_b == logs


def test_a_run_in_float16_goes_on_to_the_bit_over_steps_left_out(tmp_path):
    plan = {**PLAN, "fp16": True, "save_steps": 1}
    (tmp_path / "a").mkdir()
    whole = start(tmp_path / "a", **plan)
    # Of 2^24 the gradients of the first steps overflow.
    whole.update.scaler._init_scale = 2.0**24
    whole.fit()
    assert whole.optim_schedule.n_skipped_steps > 0
    assert whole.optim_schedule.n_current_steps == 8
    (tmp_path / "b").mkdir()
    shutil.copytree(tmp_path / "a" / "run" / "checkpoint-4", tmp_path / "b" / "run" / "checkpoint-4")
    resumed = start(tmp_path / "b", resume_from_checkpoint="last", **plan)
    resumed.fit()
    assert same_tensors(whole_state(resumed), whole_state(whole))


def weights_of(folder):
    steps = {int(path.name.split("-")[1]): path for path in folder.glob("checkpoint-*")}
    return hashlib.sha256((steps[max(steps)] / "model.safetensors").read_bytes()).hexdigest()


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, "2"), (signal.SIGINT, "0"), (signal.SIGINT, "2")])
def test_a_command_ends_with_the_signals_status_and_goes_on(tmp_path, number, workers):
    """The signal goes to the whole group, as that of a terminal does, the data's processes too."""
    write_pairs(tmp_path / "corpus.txt", story_pairs(40))
    make_vocab(story_pairs(40)).save_vocab(tmp_path / "vocab.json")
    words = ["-m", "bert_pytorch", *SMALL, "-e", "8", "--save_strategy", "steps", "--save_steps", "7", "-w", workers]
    whole = start_python(*words, "--output_dir", "whole", folder=tmp_path)
    broken = start_python(*words, "--output_dir", "broken", folder=tmp_path, start_new_session=True)
    log = tmp_path / "broken" / "log.jsonl"
    until = time.perf_counter() + 60
    while time.perf_counter() < until and not (log.exists() and len(log.read_text().splitlines()) > 30):
        time.sleep(0.01)
    os.killpg(broken.pid, number)
    out, err = broken.communicate(timeout=60)
    assert broken.returncode == 128 + number, err[-2000:]
    report = json.loads(out.splitlines()[-1])
    assert (report["ok"], report["code"]) == (False, "E-INTERRUPTED")
    assert "Traceback" not in err
    resumed = start_python(*words, "--output_dir", "broken", "--resume", "last", folder=tmp_path)
    out, err = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, err[-2000:]
    out, err = whole.communicate(timeout=120)
    assert whole.returncode == 0, err[-2000:]
    assert weights_of(tmp_path / "broken") == weights_of(tmp_path / "whole")
