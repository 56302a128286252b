"""The commands from corpus to checkpoint, on a corpus of eleven pairs."""

import json
import os

import pytest
import torch

from bert_pytorch import WordVocab
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.trainer import load_model

from .examples import make_vocab, same_tensors, start_python, story_pairs, write_pairs

SMALL = ["-c", "corpus.txt", "-v", "vocab.json", "-o", "out/bert.model", "--device", "cpu"]
SMALL += ["-hs", "8", "-l", "1", "-a", "2", "-s", "13", "-b", "4"]
PROMISED = {"ok", "steps", "epochs", "real_tokens", "real_tokens_per_second", "train_loss", "eval_loss", "eval_mlm_loss"}
PROMISED |= {"eval_nsp_accuracy", "peak_memory_bytes", "checkpoint"}

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with corpus, held-out corpus and vocabulary."""
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", story_pairs())
    write_pairs("held.txt", story_pairs(7)[::-1])
    make_vocab(story_pairs()).save_vocab("vocab.json")
    return tmp_path


@pytest.fixture
def call(here, capsys):
    """Runs a command in the working directory; its exit status, the closing JSON, and stderr."""

    def run(*arguments, command=train):
        status = command([*(SMALL if command is train else ()), *arguments])
        out, err = capsys.readouterr()
        lines = out.splitlines()
        assert len(lines) == 1, out
        return status, json.loads(lines[0]), err

    return run


def state_of(path):
    """What must be equal between two runs. (Python's own generator is not: nothing draws from it.)"""
    state = torch.load(path)
    parts = {name: state[name] for name in ("model", "optimizer", "schedule", "position", "settings")}
    return {**parts, "random": state["random"]["torch"]}


def test_bert_vocab_writes_what_the_library_counts(call, here):
    status, report, _ = call("-c", "corpus.txt", "-o", "new/vocab.json", command=build_vocab)
    assert status == 0
    assert WordVocab.load_vocab("new/vocab.json") == make_vocab(story_pairs())
    assert (report["ok"], report["vocab_path"], report["vocab_size"]) == (True, "new/vocab.json", 39)
    assert os.listdir(here / "new") == ["vocab.json"]


@pytest.mark.parametrize(
    ("flags", "size"), [(["-s", "3"], 8), (["-m", "2"], 17), (["-m", "11"], 9), (["--vocab_size", "2", "--min_freq", "2"], 7)]
)
def test_bert_vocab_limits(call, flags, size):
    assert call("-c", "corpus.txt", "-o", "v", *flags, command=build_vocab)[1]["vocab_size"] == size


def test_bert_vocab_reads_the_encoding_it_is_told(call, here):
    (here / "wide.txt").write_bytes("zwölf\tübel\r\n".encode("utf-16"))
    assert call("-c", "wide.txt", "-o", "v", "-e", "utf-16", command=build_vocab)[0] == 0
    assert WordVocab.load_vocab("v").itos[5:] == ["zwölf", "übel"]


def test_bert_trains_saves_each_epoch_and_reports(call, here):
    status, report, err = call("-e", "2", "-t", "held.txt")
    assert status == 0
    assert report.keys() >= PROMISED
    assert (report["ok"], report["steps"], report["epochs"]) == (True, 6, 2)
    assert report["real_tokens"] == 2 * 11 * 11
    assert report["steps_per_second"] == pytest.approx(report["real_tokens_per_second"] * 6 / report["real_tokens"])
    assert report["peak_memory_bytes"] > 10_000_000
    assert 0 < report["train_loss"] < 10
    assert 0 < report["eval_mlm_loss"] < report["eval_loss"] < 10
    assert 0 <= report["eval_nsp_accuracy"] <= 1
    assert report["checkpoint"] == "out/bert.model.ep1"
    assert sorted(path.name for path in here.glob("out/bert*")) == ["bert.model.ep0", "bert.model.ep1"]
    assert load_model(report["checkpoint"]).bert.vocab_size == 39
    assert "Traceback" not in err


def test_what_was_not_measured_is_null(call):
    report = call("-e", "1")[1]
    assert (report["eval_loss"], report["eval_mlm_loss"], report["eval_nsp_accuracy"]) == (None, None, None)


@pytest.mark.parametrize(
    ("flags", "warmup", "total"), [(["-e", "30"], 9, 90), (["--max_steps", "20"], 2, 20), (["-e", "1"], 0, 3)]
)
def test_the_default_warm_up_is_a_tenth_of_the_run(call, flags, warmup, total):
    call(*flags, "--stop_after_epochs", "1")
    schedule = torch.load("out/bert.model.ep0")["schedule"]
    assert (schedule["n_warmup_steps"], schedule["n_total_steps"]) == (warmup, total)


def test_the_learning_rate_flag_is_the_peak(call):
    call("-e", "2", "--lr", "0.5", "--warmup_steps", "3", "--stop_after_epochs", "1")
    groups = torch.load("out/bert.model.ep0")["optimizer"]["param_groups"]
    assert {group["lr"] for group in groups} == {0.5}


def test_max_steps_ends_the_run_within_an_epoch(call):
    report = call("--max_steps", "5")[1]
    assert (report["steps"], report["epochs"], report["checkpoint"]) == (5, 2, "out/bert.model.ep1")
    state = torch.load("out/bert.model.ep1")
    assert {group["lr"] for group in state["optimizer"]["param_groups"]} == {0.0}


def test_bad_lines_are_found_before_the_first_step_or_counted(call, here):
    good = (here / "corpus.txt").read_bytes()
    (here / "corpus.txt").write_bytes(b"\n" + good + b"one field\n a\tb\tc\n")
    status, report, _ = call("-e", "1")
    assert (status, report["code"]) == (1, "E-CORPUS-BLANK")
    assert report["error"].startswith("corpus.txt:1: ")
    assert "3 bad lines" in report["error"]
    assert not list(here.glob("out/bert.model*"))
    status, report, _ = call("-e", "1", "--skip_bad_lines")
    assert (status, report["skipped_lines"], report["pairs"], report["steps"]) == (0, 3, 11, 3)


def test_a_bad_line_of_the_held_out_corpus_is_found_before_the_first_step(call, here):
    (here / "held.txt").write_text("a\tb\n\\t\n")
    status, report, _ = call("-e", "1", "-t", "held.txt")
    assert (status, report["code"]) == (1, "E-CORPUS-BACKSLASH-T")
    assert report["error"].startswith("held.txt:2: ")
    assert not list(here.glob("out/bert.model*"))


def test_corpus_lines_are_the_lines_that_are_used(call):
    report = call("-e", "1", "--corpus_lines", "5")[1]
    assert (report["pairs"], report["steps"]) == (5, 2)


def test_the_same_seed_is_the_same_run_and_another_seed_another(call):
    states = []
    for seed, disturbance in (("3", 1), ("3", 2), ("4", 1)):
        torch.manual_seed(disturbance)
        call("-e", "2", "--seed", seed)
        states.append(state_of("out/bert.model.ep1"))
    assert same_tensors(states[0], states[1])
    assert not same_tensors(states[0]["model"], states[2]["model"])


def test_texts_read_from_the_file_give_the_same_run(call):
    call("-e", "2")
    expected = state_of("out/bert.model.ep1")
    call("-e", "2", "--on_memory", "no")
    assert same_tensors(state_of("out/bert.model.ep1"), expected)


def test_a_run_that_was_stopped_goes_on_from_a_file_too(call, here):
    unbroken = call("-e", "3")[1]
    expected = state_of("out/bert.model.ep2")
    (here / "out" / "bert.model.ep1").unlink()
    (here / "out" / "bert.model.ep2").unlink()
    resumed = call("-e", "3", "--resume_from_checkpoint", "out/bert.model.ep0")[1]
    assert same_tensors(state_of("out/bert.model.ep2"), expected)
    assert (resumed["steps"], resumed["epochs"]) == (unbroken["steps"], unbroken["epochs"]) == (9, 3)
    assert resumed["train_loss"] == unbroken["train_loss"]


@pytest.mark.parametrize("plan", [["-e", "2"], ["--max_steps", "6"], ["--max_steps", "5"]])
def test_a_run_that_is_done_says_so_when_it_is_resumed(call, here, plan):
    call(*plan)
    before = {name: (here / "out" / name).read_bytes() for name in os.listdir(here / "out")}
    status, report, _ = call(*plan, "--resume", "last")
    assert (status, report.get("code")) == (1, "E-RESUME-DONE"), report
    assert {name: (here / "out" / name).read_bytes() for name in os.listdir(here / "out")} == before


def test_last_is_the_last_of_this_run_and_not_of_an_older_and_longer_one(call):
    call("-e", "4", "--seed", "1")
    call("-e", "4", "--seed", "2", "--stop_after_epochs", "2")
    status, report, err = call("-e", "4", "--seed", "2", "--resume", "last")
    assert status == 0, err
    assert report["real_tokens"] == 2 * 11 * 11


def test_resuming_with_another_vocabulary_is_refused(call):
    call("-e", "2", "--stop_after_epochs", "1")
    pairs = [(first.replace("c", "z"), second) for first, second in story_pairs()]
    make_vocab(pairs).save_vocab("vocab.json")
    write_pairs("corpus.txt", pairs)
    status, report, _ = call("-e", "2", "--resume", "last")
    assert (status, report["code"]) == (1, "E-RESUME-VOCAB")


def test_resuming_with_another_model_is_refused(call):
    call("-e", "2", "--stop_after_epochs", "1")
    status, report, _ = call("-e", "2", "--resume", "last", "-hs", "10")
    assert (status, report["code"]) == (1, "E-RESUME-MODEL")


def test_resuming_with_other_settings_is_said(call):
    call("-e", "2", "--stop_after_epochs", "1")
    status, report, _ = call("-e", "3", "-b", "3", "--resume", "last")
    assert (status, report["code"]) == (1, "E-RESUME-CHANGED")
    assert "batch_size was 4, is now 3" in report["error"]
    status, _, err = call("-e", "3", "-b", "3", "--resume", "last", "--allow_change")
    assert status == 0
    assert "batch_size was 4, is now 3" in err


def test_a_model_that_diverges_ends_with_1_and_no_checkpoint_of_it(call, here):
    status, report, _ = call("-e", "1", "--lr", "1e30")
    assert (status, report["code"]) == (1, "E-LOSS-NONFINITE")
    assert not list(here.glob("out/bert.model*"))


def test_four_epochs_equal_two_and_two_in_new_processes_with_any_workers(here):
    """Parameters, moments, rates, random state and losses, to the bit."""

    def start(output, *arguments):
        output = ["-o", f"{output}/bert.model", "-e", "4", "-t", "held.txt", "--dropout", "0.3"]
        return start_python("-m", "bert_pytorch", *SMALL, *output, *arguments, folder=here)

    def finish(process):
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "unbroken" not in err
        return json.loads(out.splitlines()[-1])

    halves = ["--stop_after_epochs", "2"]
    first = [start("whole"), start("w0", *halves, "-w", "0"), start("w2", *halves, "-w", "2")]
    whole, *stopped = [finish(process) for process in first]
    assert [report["steps"] for report in (whole, *stopped)] == [12, 6, 6]
    second = [start("w0", "--resume", "last", "-w", "0"), start("w2", "--resume_from_checkpoint", "last", "-w", "2")]
    resumed = [finish(process) for process in second]
    expected = {epoch: state_of(f"whole/bert.model.ep{epoch}") for epoch in range(4)}
    for folder in ("w0", "w2"):
        assert [same_tensors(state_of(f"{folder}/bert.model.ep{epoch}"), expected[epoch]) for epoch in range(4)] == [True] * 4
    for name in ("steps", "epochs", "train_loss", "train_mlm_loss", "eval_loss", "eval_mlm_loss", "eval_nsp_accuracy"):
        assert [report[name] for report in resumed] == [whole[name]] * 2
