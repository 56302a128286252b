"""The commands unchanged under the launchers people have: one process speaks, and the same YAML gives the same figures."""

import json
import math
import os
import subprocess
import sys

import pytest

from bert_pytorch.trainer.distributed import start

from ..unit.examples import ROOT, SOURCE, make_vocab, story_pairs, write_pairs

SETTINGS = """
train_dataset: corpus.txt
test_dataset: corpus.txt
vocab_path: vocab.json
hidden: 8
layers: 1
attn_heads: 2
seq_len: 13
dropout: 0
max_steps: 6
logging_steps: 1
learning_rate: 0.01
device: cpu
"""
SCRIPT = str(ROOT / "skills/training/scripts/pretrain.py")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
# On CPUs accelerate starts several processes by this way only.
ACCELERATE = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes=2", "--num_machines=1"]
ACCELERATE += ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]


@pytest.fixture
def launch(tmp_path):
    pairs = story_pairs()
    write_pairs(tmp_path / "corpus.txt", pairs)
    make_vocab(pairs).save_vocab(tmp_path / "vocab.json")
    (tmp_path / "run.yaml").write_text(SETTINGS)

    def call(launcher, *words, **variables):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE), **variables}
        command = [sys.executable, *launcher, *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False)

    return call


def closing(done):
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def test_one_script_and_yaml_by_itself_under_torchrun_and_under_accelerate(launch, tmp_path):
    command = [SCRIPT, "--config", "run.yaml"]
    alone = closing(launch([], *command, "batch_size=8", "output_dir=alone"))
    assert alone["processes"] == 1
    ways = {"torchrun": (TORCHRUN, {})}
    if subprocess.run([sys.executable, "-c", "import accelerate"], capture_output=True, check=False).returncode == 0:
        ways["accelerate"] = (ACCELERATE, {"ACCELERATE_USE_CPU": "true"})
    for name, (launcher, variables) in ways.items():
        report = closing(launch(launcher, *command, "batch_size=4", f"output_dir={name}", **variables))
        assert report["processes"] == 2
        for figure in ("steps", "real_tokens", "train_loss", "eval_loss", "eval_mlm_accuracy"):
            assert math.isclose(report[figure], alone[figure], rel_tol=1e-5), (name, figure)
        told = (tmp_path / name / "log.jsonl").read_text().splitlines()
        assert len(told) == len((tmp_path / "alone" / "log.jsonl").read_text().splitlines())


def test_the_command_bert_goes_on_with_another_number_of_processes(launch, tmp_path):
    whole = closing(launch([], SCRIPT, "--config", "run.yaml", "batch_size=8", "output_dir=whole"))
    words = ["-m", "bert_pytorch", "--config", "run.yaml", "--output_dir", "run"]
    closing(
        launch([], *words, "--batch_size", "8", "--save_strategy", "steps", "--save_steps", "3", "--stop_after_epochs", "2")
    )
    torchrun = [*TORCHRUN, "-m", "bert_pytorch", *words[2:]]
    report = closing(launch(torchrun, "--batch_size", "4", "--resume_from_checkpoint", "last", "--allow_change"))
    assert math.isclose(report["eval_loss"], whole["eval_loss"], rel_tol=1e-5)


@pytest.mark.parametrize("sharding", [None, "full", "grad"])
def test_the_command_bert_on_two_reports_what_it_fills_in(launch, tmp_path, sharding):
    """Of one held-out pair, of which the second process has nothing."""
    (tmp_path / "one.txt").write_text((tmp_path / "corpus.txt").read_text().splitlines(keepends=True)[0])
    words = ["-m", "bert_pytorch", "--config", "run.yaml", "--test_dataset", "one.txt", "--output_dir"]
    how = [] if sharding is None else ["--sharding", sharding]
    whole = closing(launch([], *words, "whole", "--batch_size", "8"))
    parts = closing(launch([*TORCHRUN, *words, "parts", "--batch_size", "4", *how]))
    for figure in ("steps", "real_tokens", "train_loss", "eval_loss"):
        assert math.isclose(parts[figure], whole[figure], rel_tol=1e-5), figure
    samples = [json.loads((tmp_path / name / "report.json").read_text())["samples"] for name in ("whole", "parts")]
    assert len(samples[0]) == 1
    for one, other in zip(*samples, strict=True):
        assert one["text"] == other["text"]
        for when in ("before", "after"):
            assert [word for word, _ in one[when]] == [word for word, _ in other[when]]
            assert [share for _, share in one[when]] == pytest.approx([share for _, share in other[when]], rel=1e-3)


def test_a_process_that_ended_well_has_left_the_others(launch, tmp_path):
    """Threads of the group that outlive it may abort a process that is ending, whose run was done."""
    code = """
import os, sys
from bert_pytorch.cli import train
status = train(sys.argv[1:])
tasks = "/proc/self/task"
print("threads", [open(f"{tasks}/{each}/comm").read().strip() for each in os.listdir(tasks)], file=sys.stderr)
sys.exit(status)
"""
    (tmp_path / "main.py").write_text(code)
    done = launch(TORCHRUN, "main.py", "--config", "run.yaml", "--batch_size", "4", "--output_dir", "o")
    assert closing(done)["ok"]
    told = [line for line in done.stderr.splitlines() if line.startswith("threads ")]
    assert len(told) == 2
    assert not any("gloo" in line for line in told)


def test_what_is_wrong_in_all_is_said_once_on_stdout(launch):
    done = launch(TORCHRUN, SCRIPT, "--config", "run.yaml", "train_dataset=missing.txt", "output_dir=o")
    assert done.returncode != 0
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["code"] == "E-FILE-READ"
    assert "missing.txt" in done.stderr


def test_accelerate_that_starts_one_process_on_cpus_is_told_of(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    with pytest.warns(UserWarning, match="one process, whatever --num_processes says; for several: torchrun"):
        assert start(False).size == 1
