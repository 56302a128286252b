"""The rows of the troubleshooting tables that bear a message: provoked and cured where that can be done here."""

import os
import re
import shutil
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import nn

from bert_pytorch.diagnosis.handbook import Handbook

from . import messages
from .examples import ROOT, SOURCE
from .messages import PROVOKED, config, said, shell, tokenizer
from .test_errors import locked_folder

BOOK = Handbook(ROOT)


def classified(labels, **options):
    from transformers import BertForSequenceClassification

    model = BertForSequenceClassification(config(**options))
    model(torch.ones(2, 5, dtype=torch.int64), labels=labels).loss.backward()


def trained_head():
    from transformers import BertForSequenceClassification

    BertForSequenceClassification(config()).save_pretrained("trained")
    BertForSequenceClassification.from_pretrained("trained")


def with_a_processor():
    from transformers import BertForSequenceClassification, Trainer

    Trainer(BertForSequenceClassification(config()), messages.arguments(), processing_class=tokenizer())


def local_folder():
    from transformers import AutoTokenizer

    tokenizer().save_pretrained("local")
    AutoTokenizer.from_pretrained("local", local_files_only=True)


def listen(port):
    return torch.distributed.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=5))


def taken_port():
    with socket.socket() as first:
        first.bind(("", 0))
        first.listen()
        listen(first.getsockname()[1])


def met_store():
    server = listen(0)
    torch.distributed.TCPStore("127.0.0.1", server.port, is_master=False, timeout=timedelta(seconds=5)).set("a", "b")


def ran(line, program=""):
    """The output of a command that ends well."""
    text = shell(f"{{ {line} ; }} && echo ENDED-WELL", program)
    assert "ENDED-WELL" in text, text
    return text.replace("ENDED-WELL", "")


def half_a_bundle():
    shutil.copytree(ROOT / "skills" / "training", "training")
    return shell("PYTHON training/scripts/plan_run.py --help")


def rank_out_of_order(flags):
    return shell(f"PYTHON -m torch.distributed.run --nproc_per_node 1 {flags}", PYTHONPATH=str(SOURCE))


NO_PEER = """
from datetime import timedelta
from torch.distributed import TCPStore
TCPStore("127.0.0.1", 1, is_master=False, timeout=timedelta(seconds=1))
"""
INDEX = "IndexError: index out of range in self"
CURED = {
    "TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'": (
        PROVOKED["hf-argument-renamed"],
        lambda: messages.arguments(eval_strategy="no"),
    ),
    "newly initialized because missing from the checkpoint": (PROVOKED["hf-new-head"], trained_head),
    "Token indices sequence length is longer than the specified maximum": (
        PROVOKED["hf-too-long"],
        lambda: tokenizer(model_max_length=2)("a b a b", truncation=True) and None,
    ),
    INDEX: (PROVOKED["torch-index-range"], lambda: nn.Embedding(6, 2)(torch.tensor([5]))),
    "Target 2 is out of bounds": (
        lambda: classified(torch.tensor([0, 2]), num_labels=2, problem_type="single_label_classification"),
        lambda: classified(torch.tensor([0, 2]), num_labels=3, problem_type="single_label_classification"),
    ),
    "expected target dtype to be Long": (
        lambda: classified(torch.tensor([0.5, 1.5]), num_labels=2, problem_type="single_label_classification"),
        lambda: classified(torch.tensor([0.5, 1.5]), num_labels=1, problem_type="regression"),
    ),
    "Using the Trainer with PyTorch requires accelerate": (
        PROVOKED["hf-accelerate"],
        lambda: messages.arguments().device,
    ),
    "Trainer.__init__() got an unexpected keyword argument 'tokenizer'": (PROVOKED["hf-trainer-tokenizer"], with_a_processor),
    "OSError: We couldn't connect to 'https://huggingface.co'": (PROVOKED["hf-offline"], local_folder),
    "ModuleNotFoundError: No module named 'bert_pytorch'": (
        PROVOKED["module-bert-pytorch"],
        lambda: ran(f"PYTHONPATH={SOURCE} PYTHON program.py", "import bert_pytorch"),
    ),
    "bert: command not found": (
        PROVOKED["command-missing"],
        lambda: ran(f"PYTHONPATH={SOURCE} PYTHON -m bert_pytorch --help"),
    ),
    "can't open file '": (
        PROVOKED["script-path"],
        lambda: ran(f"PYTHON {ROOT}/skills/training/scripts/train_smoke.py --help"),
    ),
    "server socket has failed to listen on any local network address": (taken_port, lambda: listen(0)),
    "client socket has": (PROVOKED["peer-connection"], met_store),
    "failed to connect": (lambda: shell("PYTHON program.py", NO_PEER), met_store),
    "another run is writing here": (locked_folder, lambda: None),
    "unrecognized arguments": (
        lambda: rank_out_of_order("--seq_len 8 -m bert_pytorch --help"),
        lambda: rank_out_of_order("-m bert_pytorch --help"),
    ),
    "ChildFailedError": (PROVOKED["torchrun-child"], lambda: None),
}
"""A row's message: what provokes it, and its cure."""

TWO_HOSTS, GPUS, OLDER = "needs several hosts", "needs GPUs", "older versions say it so; the words of today have a row too"
NOT_HERE = {
    "expected scalar type Long but found Float": OLDER,
    "were not initialized": OLDER,
    "Unable to resolve hostname to a (local) address": TWO_HOSTS,
    "RendezvousConnectionError": TWO_HOSTS,
    "RendezvousTimeoutError": TWO_HOSTS,
    "Connection closed by peer": "tests/distributed kills processes",
    "connectFullMesh failed": TWO_HOSTS,
    "Application timeout caused pair closure": "tests/distributed/test_two_hosts.py cuts a host off",
    "Watchdog caught collective operation timeout": GPUS,
    "no socket interface found": GPUS,
    "unhandled system error": GPUS,
    "Duplicate GPU detected": GPUS,
    "CUDA out of memory": GPUS,
    "RuntimeError: CUDA out of memory": GPUS,
    "unable to allocate shared memory": "needs a container with a small /dev/shm",
    "Failed to initialize NumPy": "needs an environment without numpy; harmless",
    "ValueError: not enough values to unpack": "of bert-pytorch 0.0.1a4: tests/compat/test_doctor.py",
    "IndexError: list index out of range": "of bert-pytorch 0.0.1a4: tests/compat/test_doctor.py",
}


def test_every_row_with_a_message_is_cured_or_has_a_reason():
    assert {row.literal for row in BOOK.rows} == set(CURED) | set(NOT_HERE)
    assert set(CURED) & set(NOT_HERE) == set()
    assert len(NOT_HERE) == 18


@pytest.mark.parametrize("literal", CURED)
def test_a_row_is_provoked_and_its_remedy_cures_it(literal, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    provoke, cure = CURED[literal]
    # Backquotes stand around names in what Transformers says.
    plain = re.sub(r"[`]", "", said(provoke))
    assert literal in plain, plain[-2000:]
    after = said(cure)
    assert literal not in after.replace("`", "")
    assert "Traceback" not in after, after


def test_a_skill_folder_alone_ends_in_stop_iteration_and_the_whole_bundle_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "StopIteration" in half_a_bundle()
    done = subprocess.run(
        [sys.executable, ROOT / "skills/training/scripts/plan_run.py", "--help"], capture_output=True, env=os.environ
    )
    assert done.returncode == 0
    assert Path("training").is_dir()
