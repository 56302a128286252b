"""The templates for clusters: what they start, under commands that stand in for the cluster's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from bert_pytorch.trainer.arguments import TrainingArguments
from bert_pytorch.trainer.deepspeed_engine import read_config

from .conftest import ROOT

LAUNCH = ROOT / "skills" / "training" / "assets" / "launch"
SLURM = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": "41", "SLURM_CPUS_PER_TASK": "64"}
SCONTROL = '[[ "$*" == "show hostnames node[1-2]" ]] && printf "%s\\n%s\\n"'
TOLD = 'printf "%s\\n" "$OMP_NUM_THREADS" "$@"'


@pytest.fixture
def commands(tmp_path):
    """Commands of a cluster, as scripts in a folder; the environment in which they are found first."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def write(**texts):
        for name, text in texts.items():
            (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
            (folder / name).chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMP_"))}
        return {**kept, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    return write


def start(environment, *arguments, folder, timeout=120):
    command = ["bash", LAUNCH / "slurm.sbatch", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False)


def options(words):
    """Flags and values up to the module, and what follows it."""
    at = words.index("-m")
    return dict(zip(words[:at:2], words[1:at:2], strict=True)), words[at + 1 :]


def test_templates_are_bash():
    assert subprocess.run(["bash", "-n", LAUNCH / "slurm.sbatch"], check=False).returncode == 0


def test_slurm_starts_torchrun_once_a_node(commands, tmp_path):
    environment = commands(scontrol=f"{SCONTROL} node1 node2", srun='shift; exec "$@"', torchrun=TOLD)
    done = start({**environment, **SLURM, "SLURM_GPUS_ON_NODE": "8"}, "--config", "a b.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    threads, *words = done.stdout.splitlines()
    flags, rest = options(words)
    assert threads == "8"
    assert flags == {
        "--nnodes": "2",
        "--nproc_per_node": "8",
        "--max_restarts": "3",
        "--rdzv_backend": "c10d",
        "--rdzv_id": "41",
        "--rdzv_endpoint": "node1:20041",
    }
    assert rest == ["bert_pytorch", "--config", "a b.yaml"]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_slurm_goes_on_where_there_is_a_checkpoint(commands, tmp_path, has_checkpoint):
    (tmp_path / "run").mkdir()
    if has_checkpoint:
        (tmp_path / "run" / "checkpoint-10").mkdir()
    environment = commands(scontrol=f"{SCONTROL} node1 node2", srun='shift; exec "$@"', torchrun=TOLD)
    done = start({**environment, **SLURM, "PROCESSES_PER_NODE": "4"}, "--output_dir", "run", "-e", "3", folder=tmp_path)
    flags, rest = options(done.stdout.splitlines()[1:])
    assert flags["--nproc_per_node"] == "4"
    resume = ["--resume_from_checkpoint", "last"] if has_checkpoint else []
    assert rest == ["bert_pytorch", "--output_dir", "run", "-e", "3", *resume]


def test_slurm_without_gpus_says_so(commands, tmp_path):
    done = start({**commands(scontrol=f"{SCONTROL} node1 node2"), **SLURM}, "-e", "3", folder=tmp_path)
    assert done.returncode != 0
    assert "set PROCESSES_PER_NODE" in done.stderr


def test_slurm_fails_as_its_step_does(commands, tmp_path):
    environment = commands(scontrol=f"{SCONTROL} node1 node2", srun="exit 7")
    assert start({**environment, **SLURM, "SLURM_GPUS_ON_NODE": "1"}, "-e", "3", folder=tmp_path).returncode == 7


def test_slurm_asks_for_what_the_script_relies_on():
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", (LAUNCH / "slurm.sbatch").read_text(), re.M))
    assert asked["ntasks-per-node"] == "1"
    assert asked["signal"].startswith("TERM@")
    assert "requeue" in asked


def test_two_nodes_of_slurm_train_as_one_run(commands, tmp_path):
    """Each task of the step is a torchrun of its own, here both on this machine."""
    words = [f"w{i}" for i in range(23)]
    pairs = [f"{words[i % 23]} {words[i * 5 % 23]}\t{words[i * 3 % 23]} {words[i * 7 % 23]}" for i in range(40)]
    (tmp_path / "train.txt").write_text("\n".join(pairs) + "\n")
    python = f'exec "{sys.executable}"'
    environment = commands(
        scontrol=f"{SCONTROL} localhost localhost",
        srun='shift; "$@" & first=$!; "$@" & second=$!; wait $first && wait $second',
        torchrun=f'{python} -m torch.distributed.run "$@"',
    )
    environment |= {**SLURM, "PROCESSES_PER_NODE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    environment["SLURM_JOB_ID"] = str(os.getpid())
    vocab = subprocess.run(
        [
            sys.executable,
            "-c",
            "from bert_pytorch.cli import build_vocab; build_vocab()",
            "-c",
            "train.txt",
            "-o",
            "vocab.json",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert vocab.returncode == 0
    flags = "-c train.txt -v vocab.json --output_dir run -hs 16 -l 1 -a 2 -s 16 -b 4 --max_steps 3 --device cpu".split()
    done = start(environment, *flags, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(report["ok"], report["processes"], report["steps"]) for report in reports] == [(True, 2, 3)]
    assert (tmp_path / "run" / "checkpoint-3" / "manifest.json").is_file()


@pytest.fixture(scope="module")
def kubernetes():
    documents = yaml.safe_load_all((LAUNCH / "kubernetes.yaml").read_text(encoding="utf-8"))
    return {each["kind"]: each for each in documents}


def test_kubernetes_names_agree(kubernetes):
    service, job = kubernetes["Service"], kubernetes["Job"]
    assert (service["apiVersion"], job["apiVersion"]) == ("v1", "batch/v1")
    name, spec = job["metadata"]["name"], job["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    values = {each["name"]: each["value"] for each in container["env"]}
    # Pods find each other by the headless service, before they are ready.
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"] == int(values["NODES"])
    assert container["resources"]["limits"]["nvidia.com/gpu"] == int(values["GPUS"])
    assert pod["restartPolicy"] == "Never"
    assert f"{name}-0.{pod['subdomain']}:{container['ports'][0]['containerPort']}" in container["args"][0]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert {each["name"] for each in pod["volumes"]} == set(mounts)
    assert mounts["shm"] == "/dev/shm"
    assert values["OUTPUT_DIR"].startswith(mounts["data"])


@pytest.mark.parametrize("index", ["0", "1"])
def test_kubernetes_starts_torchrun_in_each_pod(kubernetes, commands, tmp_path, index):
    container = kubernetes["Job"]["spec"]["template"]["spec"]["containers"][0]
    values = {each["name"]: each["value"] for each in container["env"]}
    (tmp_path / "run" / "checkpoint-5").mkdir(parents=True)
    environment = {**commands(torchrun=TOLD), **values, "OUTPUT_DIR": str(tmp_path / "run"), "JOB_COMPLETION_INDEX": index}
    done = subprocess.run(
        [*container["command"], *container["args"]], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    flags, rest = options(done.stdout.splitlines()[1:])
    assert flags == {
        "--nnodes": "2",
        "--nproc_per_node": "8",
        "--max_restarts": "3",
        "--rdzv_backend": "c10d",
        "--rdzv_id": "bert",
        "--rdzv_endpoint": "bert-0.bert:29400",
        "--rdzv_conf": f"is_host={'true' if index == '0' else 'false'}",
    }
    assert rest[-2:] == ["--resume_from_checkpoint", "last"]
    assert rest[:3] == ["bert_pytorch", "--config", "/data/run.yaml"]


def test_deepspeeds_template_is_filled_from_the_settings():
    args = TrainingArguments(
        deepspeed=str(LAUNCH / "zero2.json"), bf16=True, learning_rate=0.002, gradient_accumulation_steps=3, max_grad_norm=0.7
    )
    config = read_config(args, 16, 4)
    assert config["zero_optimization"]["stage"] == 2
    assert config["train_batch_size"] == 16 * 3 * 4
    assert (config["bf16"]["enabled"], config["gradient_clipping"]) == (True, 0.7)


QUOTED = re.compile(r"^\| `([^`]+)` \| torch", re.M)


def test_messages_of_torch_are_those_of_this_torch():
    """Messages that the page quotes stand in torch's library or its sources."""
    import torch

    page = ROOT / "skills/training/references/troubleshooting-distributed.md"
    quoted = QUOTED.findall(page.read_text(encoding="utf-8"))
    assert len(quoted) >= 7
    folder = Path(torch.__file__).parent
    content = (folder / "lib" / "libtorch_cpu.so").read_bytes() if (folder / "lib" / "libtorch_cpu.so").is_file() else None
    if content is None:
        pytest.skip("torch's library has another name here")
    sources = b"".join(path.read_bytes() for path in (folder / "distributed" / "elastic").rglob("*.py"))
    assert [message for message in quoted if message.encode() not in content and message.encode() not in sources] == []
