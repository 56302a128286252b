"""Pushing an export, against a small hub on this machine: what a real one would be sent."""

import json
import os
import subprocess
import sys

import pytest

from bert_pytorch.errors import InputError
from bert_pytorch.interop.huggingface import export_model
from bert_pytorch.interop.pushing import check_id, files_to_push

from .examples import ROOT, make_vocab, story_pairs
from .hub_folders import make_lm
from .hub_server import ENVIRONMENT, running
from .runs import start

pytest.importorskip("huggingface_hub")
SCRIPT = ROOT / "skills/inference-and-export/scripts/push_to_hub.py"
VOCAB = make_vocab(story_pairs())


@pytest.fixture
def folder(tmp_path):
    """An export with two checkpoints of its training beside it, a hidden file and a link."""
    start(tmp_path, max_steps=12, save_strategy="steps", save_steps=6).fit()
    export_model(make_lm(len(VOCAB)), VOCAB, tmp_path / "run")
    (tmp_path / "run" / ".secret").write_text("no")
    (tmp_path / "secret.txt").write_text("no")
    (tmp_path / "run" / "link.txt").symlink_to(tmp_path / "secret.txt")
    return tmp_path / "run"


def push(folder, *flags, hub=None, token="hf_right"):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {**ENVIRONMENT, "HF_HOME": str(folder.parent / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"HF_ENDPOINT": "http://127.0.0.1:9" if hub is None else hub.url}
    words = ["--folder", folder, "--hub_model_id", "me/tuned", *flags, *(["--hub_token", token] if token else [])]
    done = subprocess.run([sys.executable, SCRIPT, *words], env=environment, capture_output=True, text=True, timeout=120)
    return done, json.loads(done.stdout.splitlines()[-1])


def test_an_export_reaches_the_hub_whole_in_one_commit(folder):
    with running(token="hf_right", large=[".safetensors"]) as hub:
        done, report = push(folder, "--hub_private_repo", "--commit_message", "first", hub=hub)
    assert done.returncode == 0, done.stderr
    assert hub.created[0]["name"].rpartition("/")[2] == "tuned"
    assert hub.created[0].get("private") is True or hub.created[0].get("visibility") == "private"
    assert hub.messages == ["first"]
    assert hub.files.keys() == files_to_push(folder).keys()
    assert {"model.safetensors", "config.json", "tokenizer.json", "README.md", "1_Pooling/config.json"} <= hub.files.keys()
    assert all((folder / name).read_bytes() == content for name, content in hub.files.items())
    assert not any("secret" in name or "link" in name or "checkpoint" in name for name in hub.files)
    assert (report["files"], report["bytes"]) == (len(hub.files), sum(map(len, hub.files.values())))
    assert report["url"].endswith("a" * 40)
    assert "hf_right" not in done.stdout + done.stderr


def test_a_dry_run_lists_and_reaches_for_nothing(folder):
    with running() as hub:
        done, report = push(folder, "--dry_run", hub=hub, token=None)
    assert (done.returncode, report["dry_run"], report["url"], hub.calls) == (0, True, None, [])
    assert report["files"] == len(files_to_push(folder))
    assert "model.safetensors" in done.stdout


def test_a_refusal_and_a_missing_hub_are_said_in_one_line(folder):
    with running(token="hf_right") as hub:
        done, report = push(folder, hub=hub, token="hf_wrong")
    assert (done.returncode, report["code"], hub.files) == (1, "E-PUSH", {})
    assert "401" in report["error"]
    assert "hf_wrong" not in done.stdout + done.stderr
    done, report = push(folder)
    assert (done.returncode, report["code"]) == (1, "E-PUSH")
    assert len(done.stderr.splitlines()) == 1, done.stderr


def test_strategies_take_checkpoints_along(folder):
    names = {strategy: set(files_to_push(folder, strategy)) for strategy in ("end", "checkpoint", "all_checkpoints")}
    parts = {path.name for path in (folder / "checkpoint-12").iterdir()}
    assert names["checkpoint"] - names["end"] == {f"last-checkpoint/{name}" for name in parts}
    assert names["all_checkpoints"] - names["end"] == {f"checkpoint-{n}/{name}" for n in (6, 12) for name in parts}
    assert files_to_push(folder, "checkpoint")["last-checkpoint/config.json"] == folder / "checkpoint-12" / "config.json"


def test_what_is_no_export_is_refused(folder, tmp_path):
    for wrong in (tmp_path, folder / "checkpoint-12", tmp_path / "missing"):
        with pytest.raises(InputError, match="is no exported model"):
            files_to_push(wrong)
    export_model(make_lm(len(VOCAB)), VOCAB, tmp_path / "bare")
    with pytest.raises(InputError, match="has no checkpoint-STEP"):
        files_to_push(tmp_path / "bare", "checkpoint")
    for name in ("a/b/c", "", "../up", "a--b", "a b", "me/" + "x" * 97):
        with pytest.raises(InputError, match="expected NAME or USER/NAME"):
            check_id(name)
    check_id("me/My-model_1.0")
