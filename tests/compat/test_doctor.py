"""Logs of the real bert-pytorch 0.0.1a4, as the doctor reads them."""

import os
import subprocess
import sys

import pytest

from bert_pytorch.diagnosis.handbook import Handbook
from bert_pytorch.diagnosis.texts import diagnose_text

from .conftest import ROOT

BOOK = Handbook(ROOT)
PROGRAM = """
import sys, torch
from torch.utils.data import DataLoader
from bert_pytorch.dataset import BERTDataset, WordVocab
from bert_pytorch.model import BERT
from bert_pytorch.trainer import BERTTrainer
with open("corpus.txt") as lines:
    vocab = WordVocab(lines)
torch.manual_seed(0)
data = BERTDataset("corpus.txt", vocab, seq_len=20, on_memory=sys.argv[1] != "from_file")
bert = BERT(len(vocab), hidden=8, n_layers=1, attn_heads=2)
trainer = BERTTrainer(bert, len(vocab), DataLoader(data, batch_size=8), with_cuda=False)
for epoch in range(2):
    trainer.train(epoch)
"""


def output_of(ancestor, folder, corpus, how="in_memory"):
    (folder / "corpus.txt").write_text(corpus)
    (folder / "train.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONPATH": str(ancestor), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "train.py", how], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
    return done.stdout + done.stderr


def first_rule(text):
    findings = diagnose_text(text, BOOK)
    assert findings, text[-2000:]
    return findings[0].rule


PAIRS = "".join(f"a{i} b c d e f\tg h i{i} j k\n" for i in range(400))


def test_its_accuracy_at_chance_is_recognised(ancestor, tmp_path):
    text = output_of(ancestor, tmp_path, PAIRS)
    assert "total_acc=" in text, text[-2000:]
    assert first_rule(text) == "ancestor-chance"


def test_a_line_without_a_tab_is_recognised(ancestor, tmp_path):
    assert first_rule(output_of(ancestor, tmp_path, "no tab here\n" + PAIRS)) == "ancestor-lines"


def test_its_file_mode_is_recognised(ancestor, tmp_path):
    assert first_rule(output_of(ancestor, tmp_path, PAIRS, "from_file")) == "ancestor-file-mode"


@pytest.mark.parametrize("rule", ["ancestor-chance", "ancestor-lines", "ancestor-file-mode"])
def test_each_rule_leads_to_this_library(rule):
    from bert_pytorch.diagnosis.texts import RULES

    (found,) = [each for each in RULES if each.name == rule]
    assert "python -m pip install --no-deps {BUNDLE}" in found.next
