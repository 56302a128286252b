"""`pretrain.py`: settings from a YAML file and as NAME=VALUE, the command line over the file."""

import json
from pathlib import Path

import pytest

from .examples import load_script, make_vocab, story_pairs, write_pairs

FILE = """
train_dataset: corpus.txt
vocab_path: vocab.json
output_path: run/model
hidden: 8
layers: 1
attn_heads: 2
seq_len: 13
device: cpu
max_steps: 3
learning_rate: 0.5
"""


@pytest.fixture
def pretrain(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pairs = story_pairs()
    write_pairs(tmp_path / "corpus.txt", pairs)
    make_vocab(pairs).save_vocab("vocab.json")
    (tmp_path / "run.yaml").write_text(FILE)
    main = load_script("training", "pretrain").main

    def call(*words):
        try:
            status = main(words)
        except SystemExit as error:
            status = error.code
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]), err

    return call


def test_a_file_of_settings_trains_and_the_command_line_wins(pretrain):
    status, report, _ = pretrain("--config", "run.yaml", "max_steps=2", "lr=0.001", "output_dir=run")
    assert (status, report["ok"], report["steps"]) == (0, True, 2)
    used = json.loads(Path("run/report.json").read_text(encoding="utf-8"))["settings"]
    assert (used["learning_rate"], used["model"]["hidden"]) == (0.001, 8)


def test_all_settings_on_the_command_line(pretrain):
    words = [line.replace(": ", "=") for line in FILE.split("\n") if line]
    status, report, _ = pretrain(*words, "packing=true")
    assert (status, report["steps"]) == (0, 3)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--config", "run.yaml", "hiden=9"], "hidden"),
        (["--config", "run.yaml", "hidden"], "expected NAME=VALUE"),
        (["--config", "run.yaml", "packing=perhaps"], "packing"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", "odd.yaml"], "hidden"),
    ],
)
def test_wrong_settings_are_one_line_of_usage(pretrain, tmp_path, words, said):
    (tmp_path / "odd.yaml").write_text(FILE.replace("hidden", "hiden"))
    status, report, err = pretrain(*words)
    assert (status, report["ok"]) == (2, False)
    assert said in report["error"]
    assert "Traceback" not in err
