"""Two hosts, as network namespaces with a cable between them that is pulled out while they train. Needs root on Linux."""

import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from bert_pytorch.trainer.checkpoint import load_checkpoint

from ..unit.examples import ROOT, SOURCE, make_vocab, same_tensors, story_pairs, write_pairs

SETTINGS = """
train_dataset: corpus.txt
vocab_path: vocab.json
hidden: 8
layers: 1
attn_heads: 2
seq_len: 13
batch_size: 4
dropout: 0.2
max_steps: 400
logging_steps: 1
save_strategy: steps
save_steps: 100
device: cpu
"""
ADDRESSES = ("10.77.0.1", "10.77.0.2")


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False).returncode


def has_namespaces():
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None or ip("netns", "add", "bert-probe"):
        return False
    ip("netns", "del", "bert-probe")
    return True


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_namespaces(), reason="network namespaces need root on Linux"),
]


@pytest.fixture
def hosts():
    """Two names of namespaces, joined; each end of the cable is called as its host."""
    names = [f"bert-{os.getpid()}-{side}" for side in "ab"]
    ends = [f"bp{os.getpid()}{side}" for side in "ab"]
    for name in names:
        assert ip("netns", "add", name) == 0
    assert ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1], "netns", names[1]) == 0
    for name, end, address in zip(names, ends, ADDRESSES, strict=True):
        assert ip("-n", name, "addr", "add", f"{address}/24", "dev", end) == 0
        for each in ("lo", end):
            assert ip("-n", name, "link", "set", each, "up") == 0
    yield list(zip(names, ends, strict=True))
    for name in names:
        ip("netns", "del", name)


@pytest.fixture
def start(tmp_path, hosts):
    """Start a run on both hosts, as someone does on each of two machines."""
    pairs = story_pairs()
    write_pairs(tmp_path / "corpus.txt", pairs)
    make_vocab(pairs).save_vocab(tmp_path / "vocab.json")
    (tmp_path / "run.yaml").write_text(SETTINGS)
    started = []

    def call(folder, *settings):
        script = ROOT / "skills/training/scripts/pretrain.py"
        words = [str(script), "--config", "run.yaml", f"output_dir={folder}", *settings]
        processes = []
        for node, (name, end) in enumerate(hosts):
            launcher = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--max_restarts=0"]
            meeting = [f"--rdzv_endpoint={ADDRESSES[0]}:29400", "--rdzv_backend=c10d", f"--rdzv_conf=is_host={1 - node}"]
            command = ["ip", "netns", "exec", name, *launcher, *meeting, f"--local_addr={ADDRESSES[node]}", *words]
            environment = {**os.environ, "GLOO_SOCKET_IFNAME": end, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
            with (tmp_path / f"{folder}-{node}.err").open("w") as err:
                started.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=err))
            processes.append(started[-1])
        return processes

    yield call
    for process in started:
        process.kill()
        process.wait()


def wait_for(path, step, timeout=120):
    """Until the first host has told of a step."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if path.exists() and re.search(rf"^step {step}/", path.read_text(), re.M):
            return
        time.sleep(0.05)
    raise AssertionError(path.read_text()[-3000:])


def test_a_host_cut_off_for_half_a_minute_costs_half_a_minute(start, hosts, tmp_path):
    for process in start("whole"):
        assert process.wait(120) == 0
    processes = start("cut")
    wait_for(tmp_path / "cut-0.err", 150)
    name, end = hosts[1]
    assert ip("-n", name, "link", "set", end, "down") == 0
    began = time.monotonic()
    time.sleep(30)
    said = (tmp_path / "cut-0.err").read_text()
    time.sleep(1)
    assert said == (tmp_path / "cut-0.err").read_text()
    assert all(process.poll() is None for process in processes)
    assert ip("-n", name, "link", "set", end, "up") == 0
    for process in processes:
        assert process.wait(180) == 0
    assert time.monotonic() - began > 30
    states = [load_checkpoint(tmp_path / folder / "checkpoint-400") for folder in ("whole", "cut")]
    assert same_tensors(states[0]["model"], states[1]["model"])
    assert same_tensors(states[0]["optimizer"], states[1]["optimizer"])


def test_a_host_that_stays_away_ends_the_run_with_a_line_and_it_goes_on_later(start, hosts, tmp_path):
    for process in start("whole"):
        assert process.wait(120) == 0
    processes = start("cut", "ddp_timeout=15")
    wait_for(tmp_path / "cut-0.err", 250)
    name, end = hosts[1]
    assert ip("-n", name, "link", "set", end, "down") == 0
    assert processes[0].wait(60) != 0
    for node in (0, 1):
        assert "[E-RANK-LOST]" in (tmp_path / f"cut-{node}.err").read_text()
    assert ip("-n", name, "link", "set", end, "up") == 0
    # torchrun itself looks for the host that keeps its store until it can be reached.
    assert processes[1].wait(120) != 0
    for process in start("cut", "resume_from_checkpoint=last"):
        assert process.wait(180) == 0
    states = [load_checkpoint(tmp_path / folder / "checkpoint-400") for folder in ("whole", "cut")]
    assert same_tensors(states[0]["model"], states[1]["model"])
