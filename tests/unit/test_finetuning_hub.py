"""`push_to_hub`, against a small hub of our own on this machine: what a real one would be sent."""

import json
import os
import subprocess
import sys

import pytest

from .examples import ROOT
from .finetuning_runs import write_bert, write_task
from .hub_server import ENVIRONMENT, running

pytest.importorskip("transformers")
pytest.importorskip("accelerate")


@pytest.fixture
def hub():
    with running() as server:
        yield server


def test_the_model_its_tokenizer_and_its_card_reach_the_hub(hub, tmp_path):
    model = write_bert(tmp_path / "bert")
    words = ["task=sequence-classification", f"model={model}", f"train_file={write_task(tmp_path, 'sequence-classification')}"]
    words += [
        "output_dir=tuned",
        "max_length=24",
        "max_steps=2",
        "push_to_hub=true",
        "hub_model_id=me/tuned",
        "save_strategy=no",
    ]
    words += ["hub_private_repo=true", "hub_strategy=end", "hub_token=hf_x"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {**ENVIRONMENT, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
    script = ROOT / "skills/fine-tuning/scripts/finetune.py"
    done = subprocess.run(
        [sys.executable, script, *words, "--json"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["ok"] is True
    assert hub.created[0]["name"].rpartition("/")[2] == "tuned"
    assert hub.created[0].get("private") is True or hub.created[0].get("visibility") == "private"
    assert hub.files.keys() >= {"model.safetensors", "config.json", "tokenizer.json", "README.md"}
    assert hub.files["config.json"] == (tmp_path / "tuned" / "config.json").read_bytes()
    assert hub.files["model.safetensors"] == (tmp_path / "tuned" / "model.safetensors").read_bytes()
    assert b"hf_x" not in (tmp_path / "tuned" / "finetune.json").read_bytes()
