"""`plan_run.py`: memory and time of a run before it, and advice where it does not fit."""

import json
import os

import pytest
import torch

from .examples import load_script, start_python, write_pairs

WORDS = [f"w{i}" for i in range(499)]
SIZES = "-hs 64 -l 2 -a 4 -s 32 --device cpu".split()


@pytest.fixture(scope="module")
def script():
    return load_script("training", "plan_run")


@pytest.fixture
def here(tmp_path, monkeypatch):
    from bert_pytorch.cli import build_vocab

    monkeypatch.chdir(tmp_path)
    pairs = [(" ".join(WORDS[i % 480 : i % 480 + 9]), " ".join(WORDS[i * 7 % 480 : i * 7 % 480 + 11])) for i in range(200)]
    write_pairs("corpus.txt", pairs)
    assert build_vocab(["-c", "corpus.txt", "-o", "vocab.json"]) == 0
    return tmp_path


@pytest.fixture
def plan(script, here, capsys):
    def call(*flags):
        capsys.readouterr()
        status = script.main(["-c", "corpus.txt", "-v", "vocab.json", *SIZES, "--measure_steps", "2", *flags])
        out = capsys.readouterr().out
        return status, json.loads(out.splitlines()[-1]), out

    return call


@pytest.fixture
def known_memory(script, monkeypatch):
    """In place of a measurement in processes of their own."""
    monkeypatch.setattr(script, "peak_of", lambda args, rows: 200_000_000 + 1_000_000 * rows)


def test_a_run_that_fits(plan, here):
    status, report, out = plan("-b", "16", "-e", "3", "--token_budget", "10000")
    assert status == 0
    assert report["ok"] is True
    assert report["advice"] == []
    assert (report["planned_steps"], report["steps_per_epoch"]) == (3 * 13, 13)
    assert 100e6 < report["peak_memory_bytes"] < report["free_memory_bytes"]
    assert report["largest_batch_size"] > 16
    assert report["planned_seconds"] == pytest.approx(3 * report["seconds_per_epoch"])
    # Twenty words and three markers a pair.
    assert report["budget_steps"] == pytest.approx(10_000 / (16 * 23), abs=2)
    assert report["budget_seconds"] == pytest.approx(report["budget_steps"] * report["seconds_per_step"])
    assert f"{report['parameters']:,} parameters" in out
    assert sorted(os.listdir(here)) == ["corpus.txt", "vocab.json"]


def test_minutes_become_steps_that_leave_time_to_evaluate(plan, known_memory):
    report = plan("-b", "16", "--max_minutes", "2")[1]
    assert report["budget_steps"] == int(0.7 * 120 / report["seconds_per_step"])
    assert 0.6 * 120 < report["budget_seconds"] <= 0.7 * 120
    both = plan("-b", "16", "--max_minutes", "2", "--token_budget", "10000")[1]
    assert both["budget_steps"] == pytest.approx(10_000 / (16 * 23), abs=2)


def test_parameters_are_those_of_the_model_that_bert_trains(plan, known_memory):
    from bert_pytorch.cli import train

    report = plan("-b", "4")[1]
    assert train(["-c", "corpus.txt", "-v", "vocab.json", "-o", "out/m", *SIZES, "-b", "4", "--max_steps", "1"]) == 0
    weights = torch.load("out/m.ep0")["model"]
    assert report["parameters"] == sum(value.numel() for value in weights.values()) - weights["mask_lm.decoder.weight"].numel()


def test_the_corpus_stays_encoded_for_the_run_itself(plan, here, known_memory):
    plan("-b", "4", "-o", "run/bert.model")
    assert [path.suffix for path in (here / "run").iterdir()] == [".tokens"]


def test_a_run_that_does_not_fit_says_what_does(plan):
    fits = plan("-b", "64")[1]
    limit = fits["peak_memory_bytes"] * 1.5 / (1 << 30)
    status, report, _ = plan("-b", "512", "--memory_limit", str(limit))
    assert status == 1
    assert report["ok"] is False
    assert report["seconds_per_step"] is None
    largest = report["largest_batch_size"]
    assert 1 <= largest < 512
    assert any(line.startswith("--gradient_checkpointing") for line in report["advice"])
    parts = next(line.partition(":")[0].split() for line in report["advice"] if line.startswith("--tokens_per_part"))
    assert int(parts[1]) == 32 * max(1, largest * 7 // 8)
    assert plan("-b", "512", "--memory_limit", str(limit), *parts)[0] == 0


def test_the_largest_batch_is_the_one_that_fills_nine_tenths(plan, known_memory):
    report = plan("-b", "8", "--memory_limit", "1")[1]
    assert report["peak_memory_bytes"] == 208_000_000
    assert report["largest_batch_size"] == int((0.9 * (1 << 30) - 200e6) / 1e6)


def test_a_model_that_does_not_fit_at_all_is_not_tried(plan):
    status, report, _ = plan("-b", "8", "--memory_limit", "0.001")
    assert status == 1
    assert report["largest_batch_size"] == 0
    assert "not one row fits" in report["advice"][-1]


def test_padding_is_advised_against(plan, here, known_memory):
    pairs = [(" ".join(WORDS[: 1 + i % 20]), WORDS[i]) for i in range(200)]
    write_pairs("corpus.txt", pairs)
    report = plan("-b", "16")[1]
    assert 0.2 < report["padding_share"] < 0.8
    assert "--group_by_length" in report["advice"][0]
    assert plan("-b", "16", "--packing")[1]["advice"] == []


def test_other_ways_are_timed_when_asked_for(script, plan, monkeypatch, known_memory):
    monkeypatch.setattr(script, "WAYS", {"bf16": {"bf16": True, "fp16": False}})
    report = plan("-b", "4", "--compare")[1]
    assert report["step_time_ratios"].keys() == {"bf16"} or report["step_time_ratios"].keys() == {"bf16", "OMP_NUM_THREADS=1"}
    assert report["step_time_ratios"]["bf16"] > 0
    assert any(line.startswith("--bf16") for line in report["advice"])


@pytest.mark.parametrize("flags", [["-b", "0"], ["--memory_limit", "0"], ["--token_budget", "x"]])
def test_bad_flags_are_wrong_usage(script, here, flags):
    with pytest.raises(SystemExit) as end:
        script.main(["-c", "corpus.txt", "-v", "vocab.json", *flags])
    assert end.value.code == 2


def test_the_memory_foreseen_is_what_a_run_takes(plan, here):
    """A run on rows that are all full, in a process of its own."""
    pairs = [(" ".join(WORDS[i : i + 40]), " ".join(WORDS[i + 40 : i + 90])) for i in range(200)]
    write_pairs("corpus.txt", pairs)
    sizes = "-hs 128 -l 4 -a 4 -s 64 -b 96".split()
    report = plan(*sizes)[1]
    flags = ["-c", "corpus.txt", "-v", "vocab.json", "-o", "out/m", "--device", "cpu", "--max_steps", "4", *sizes]
    process = start_python("-m", "bert_pytorch", *flags, folder=here)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    taken = json.loads(out.splitlines()[-1])["peak_memory_bytes"]
    assert taken > 300e6
    assert report["peak_memory_bytes"] == pytest.approx(taken, rel=0.2)
