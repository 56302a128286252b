"""Models and vocabularies that the real 0.0.1a4 wrote, converted: the same ids, the same outputs."""

import json
import os
import subprocess
import sys

import pytest
import torch

from bert_pytorch.dataset.vocab import Vocab
from bert_pytorch.trainer import load_model

from .conftest import CLIENTS, ROOT

SCRIPT = ROOT / "skills/inference-and-export/scripts/convert_legacy.py"


@pytest.fixture(scope="module")
def old(ancestor, tmp_path_factory):
    """The folder with the files, and what the client said."""
    folder = tmp_path_factory.mktemp("old")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ancestor, CLIENTS))), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(CLIENTS / "old_models.py")]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def convert(folder, *flags):
    done = subprocess.run([sys.executable, SCRIPT, *flags, "--json"], cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", ["bert.model.ep0", "early.model", "lm.model"])
def test_an_old_model_gives_its_old_outputs(name, old):
    folder, said = old
    report = convert(folder, "--model", name, "--vocab", "vocab.pkl", "--output", "new", "--output_vocab", "vocab.json")
    assert Vocab.load_vocab(folder / "vocab.json").itos == said["itos"]
    assert report["begins_anew"] == ([] if name == "lm.model" else ["mask_lm", "next_sentence"])
    values = torch.load(folder / "outputs.pt", weights_only=True)
    real = values["x"] != 0
    model = load_model(folder / "new")
    with torch.no_grad():
        hidden = model.bert(values["x"], values["segments"])
        next_sentence, words = model(values["x"], values["segments"])
    assert (hidden - values["hidden"])[real].abs().max() < 1e-5
    if name == "lm.model":
        assert (next_sentence - values["next_sentence"]).abs().max() < 1e-5
        assert (words - values["words"])[real].abs().max() < 1e-5


def test_an_old_vocabulary_keeps_its_ids_and_counts(old):
    folder, said = old
    convert(folder, "--vocab", "vocab.pkl", "--output_vocab", "alone.json")
    vocab = Vocab.load_vocab(folder / "alone.json")
    assert (vocab.itos, dict(vocab.freqs)) == (said["itos"], said["freqs"])
