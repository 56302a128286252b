"""Held-out figures of a checkpoint by the command for them: those of its own training, and of other text."""

import json

import pytest
from torch.utils.data import DataLoader

from bert_pytorch import BERTDataset, BERTTrainer
from bert_pytorch.cli import train
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model
from bert_pytorch.trainer import load_model

from .examples import load_script, make_bert, make_vocab, story_pairs, write_pairs
from .hub_folders import make_lm

VOCAB = make_vocab(story_pairs())
SIZES = "-hs 16 -l 1 -a 2 -s 13 -b 4 -e 2 --device cpu --objective mlm+sop --mlm_probability 0.4".split()
FIGURES = ("loss", "mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy", "unigram_loss", "unigram_accuracy")
MODEL = ["--model", "model.ep1", "--vocab_path", "vocab.json"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", story_pairs()[:12])
    others = [(second, first) for first, second in story_pairs()[:9]]
    write_pairs("other.txt", [*others, story_pairs()[0]])
    VOCAB.save_vocab("vocab.json")
    return tmp_path


@pytest.fixture
def call(here, capsys):
    def run(*words):
        capsys.readouterr()
        try:
            status = load_script("training", "evaluate_checkpoint").main([*words, "--device", "cpu"])
        except SystemExit as end:
            status = end.code
        return status, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


@pytest.fixture
def trained(here, capsys):
    assert train(["-c", "corpus.txt", "-t", "other.txt", "-v", "vocab.json", "-o", "model", *SIZES]) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_the_figures_are_those_of_the_run_itself(call, trained, here):
    before = sorted(here.iterdir())
    status, report = call(*MODEL, "--corpus", "other.txt", "--train_corpus", "corpus.txt")
    assert (status, report["ok"]) == (0, True)
    for name in FIGURES:
        assert report[f"eval_{name}"] == pytest.approx(trained[f"eval_{name}"], rel=1e-5), name
    for name in ("eval_seen_share", "eval_pairs"):
        assert report[name] == trained[name]
    assert report["eval_n_targets"] == trained["eval_targets"]
    assert 0 < report["eval_seen_share"] < 1
    assert (report["seq_len"], report["objective"], report["mlm_probability"]) == (13, "mlm+sop", 0.4)
    assert sorted(here.iterdir()) == before


def test_flags_win_over_what_training_did(call, trained):
    plain = call(*MODEL, "--corpus", "other.txt")[1]
    assert "eval_unigram_loss" not in plain
    assert plain["eval_seen_share"] is None
    words = call(*MODEL, "--corpus", "other.txt", "--objective", "mlm", "--mlm_probability", "0.15", "--seq_len", "9")[1]
    assert (words["objective"], words["mlm_probability"], words["seq_len"]) == ("mlm", 0.15, 9)
    assert words["eval_n_targets"] < plain["eval_n_targets"]
    assert words["trimmed_pairs"] > 0
    assert "eval_nsp_accuracy" not in words
    other = call(*MODEL, "--corpus", "other.txt", "--seed", "3")[1]
    assert other["eval_mlm_loss"] != plain["eval_mlm_loss"]


def test_a_folder_in_the_form_of_transformers_is_the_same_model(call, trained, here):
    export_model(load_model("model.ep1"), VOCAB, "hub")
    asked = ["--corpus", "other.txt", "--seq_len", "13", "--objective", "mlm", "--mlm_probability", "0.15"]
    ours, theirs = call(*MODEL, *asked)[1], call("--model", "hub", *asked)[1]
    assert theirs["eval_mlm_loss"] == pytest.approx(ours["eval_mlm_loss"], rel=1e-5)
    assert theirs["eval_n_targets"] == ours["eval_n_targets"]
    with_vocab = call("--model", "hub", "--vocab_path", "vocab.json", *asked)[1]
    assert with_vocab["eval_mlm_loss"] == theirs["eval_mlm_loss"]


def test_a_checkpoint_of_a_script_says_how_it_was_trained(call, here):
    data, held_out = (
        BERTDataset(name, VOCAB, 11, objective="mlm+nsp", mlm_probability=0.3) for name in ("corpus.txt", "other.txt")
    )
    trainer = BERTTrainer(make_bert(len(VOCAB)), len(VOCAB), DataLoader(data, batch_size=8), with_cuda=False)
    trainer.train(0)
    trainer.save(0, "model")
    status, report = call("--model", "model.ep0", "--vocab_path", "vocab.json", "--corpus", "other.txt")
    assert (status, report["seq_len"], report["objective"], report["mlm_probability"]) == (0, 11, "mlm+nsp", 0.3)
    assert report["eval_pairs"] == len(held_out)
    assert 0 < report["eval_nsp_accuracy"] <= 1
    make_vocab(story_pairs()[:3]).save_vocab("less.json")
    status, report = call("--model", "model.ep0", "--vocab_path", "less.json", "--corpus", "other.txt")
    assert report["code"] == "E-EXPORT-VOCAB"


@pytest.mark.filterwarnings("always")
def test_what_a_folder_does_not_say_is_said_to_be_assumed(trained, capsys):
    export_model(load_model("model.ep1"), VOCAB, "hub")
    words = ["--model", "hub", "--corpus", "other.txt", "--seq_len", "13", "--device", "cpu"]
    assert load_script("training", "evaluate_checkpoint").main(words) == 0
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["objective"] == "mlm"
    assert "hub: does not say how it was trained; --objective mlm, --mlm_probability 0.15 is taken" in err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--model", "model.ep7", "--vocab_path", "vocab.json", "--corpus", "other.txt"], "E-CHECKPOINT-READ"),
        ([*MODEL, "--corpus", "none.txt"], "E-FILE-READ"),
        (["--model", "model.ep1", "--vocab_path", "less.json", "--corpus", "other.txt"], "E-EXPORT-VOCAB"),
        ([*MODEL, "--corpus", "other.txt", "--seq_len", "1000"], "E-MODEL-LENGTH"),
        (["--model", "model.ep1", "--corpus", "other.txt"], "E-USAGE"),
        (["--model", "new.ep0", "--vocab_path", "vocab.json", "--corpus", "other.txt"], "E-INFER-HEAD"),
    ],
)
def test_what_cannot_be_evaluated_is_refused(words, code, call, trained, here):
    make_vocab(story_pairs()[:3]).save_vocab("less.json")
    new = make_lm(len(VOCAB))
    write_as_checkpoint("new.ep0", new, VOCAB, [name for name in new.state_dict() if name.startswith("mask_lm")])
    status, report = call(*words)
    assert (status, report["ok"]) == (2 if code == "E-USAGE" else 1, False)
    assert report["error"].endswith(f"[{code}]"), report["error"]
