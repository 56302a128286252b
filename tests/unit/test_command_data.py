"""The data flags of `bert`: objectives, masking, batches, and corpora that are encoded once."""

import json
import math
import os
from pathlib import Path

import pytest

from bert_pytorch import WordVocab
from bert_pytorch.cli import build_vocab, train
from bert_pytorch.dataset.cache import EncodingSettings, encode_corpus
from bert_pytorch.trainer import load_checkpoint

from .examples import make_vocab, same_tensors, write_pairs

PAIRS = [(f"id{i}" + " a" * (i * 7 % 5), "b" + f" c{i % 13}" * (i * 5 % 7)) for i in range(41)]
SMALL = "-v vocab.json -o out/model --device cpu -hs 8 -l 1 -a 2 -s 13 -b 4".split()
BATCHES = [[], ["--packing"], ["--group_by_length"], ["--tokens_per_batch", "60"], ["--packing", "--tokens_per_batch", "39"]]

pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pairs("corpus.txt", PAIRS)
    write_pairs("held.txt", PAIRS[::3])
    Path("single.txt").write_text("".join(f"{first} {second}\n" for first, second in PAIRS))
    make_vocab(PAIRS).save_vocab("vocab.json")
    return tmp_path


@pytest.fixture
def call(here, capsys):
    """Runs `bert`; its exit status, the closing JSON, and stderr."""

    def run(*arguments, corpus="corpus.txt"):
        try:
            status = train(["-c", corpus, *SMALL, *arguments])
        except SystemExit as stop:
            status = stop.code
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]), err

    return run


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "mlm+sop"])
@pytest.mark.parametrize("masking", [[], ["--span_masking"], ["--mlm_probability", "0.5"]])
def test_objectives_and_maskings_train_and_report(call, objective, masking):
    status, report, err = call("-e", "2", "-t", "held.txt", "--objective", objective, *masking)
    assert status == 0, err
    assert report["pairs"] == 41
    assert math.isfinite(report["eval_mlm_loss"])
    assert (report["eval_nsp_accuracy"] is None) == (report["train_nsp_accuracy"] is None) == (objective == "mlm")
    assert report["eval_pairs"] == 14
    share = report["eval_targets"] / sum(len(first.split()) + len(second.split()) for first, second in PAIRS[::3])
    assert (share > 0.35) == ("0.5" in masking)


def test_single_texts_train(call):
    status, report, err = call("-e", "2", "-t", "single.txt", "--objective", "mlm", corpus="single.txt")
    assert status == 0, err
    assert (report["pairs"], report["eval_pairs"], report["eval_nsp_loss"]) == (41, 41, None)
    assert "41 texts" in err
    status, report, _ = call(corpus="single.txt")
    assert (status, report["code"]) == (1, "E-CORPUS-TAB")
    assert "--objective mlm" in report["error"]


def test_sub_words_train_with_whole_words_hidden(call, here):
    assert build_vocab("-c corpus.txt -o vocab.json --model wordpiece -s 30".split()) == 0
    status, report, err = call("-e", "1", "--whole_word_masking")
    assert status == 0, err
    assert report["vocab_size"] <= 35


@pytest.mark.parametrize("flags", BATCHES, ids=" ".join)
def test_the_plan_is_the_sum_of_the_passes_and_evaluation_sees_each_pair(call, flags):
    status, report, err = call("-e", "3", "-t", "held.txt", *flags)
    assert status == 0, err
    assert report["steps"] == report["planned_steps"]
    assert (report["epochs"], report["eval_pairs"]) == (3, 14)
    status, limited, _ = call("--max_steps", str(report["steps"] - 1), *flags)
    assert (status, limited["steps"], limited["epochs"]) == (0, report["steps"] - 1, 3)


@pytest.mark.parametrize("flags", BATCHES, ids=" ".join)
def test_a_resumed_run_is_the_unbroken_one(call, flags):
    unbroken = call("-e", "3", *flags)[1]
    expected = load_checkpoint(unbroken["checkpoint"])["model"]
    assert call("-e", "3", "--stop_after_epochs", "1", *flags)[0] == 0
    status, report, err = call("-e", "3", "--resume", "last", *flags)
    assert status == 0, err
    assert same_tensors(load_checkpoint(report["checkpoint"])["model"], expected)


def test_a_second_run_finds_what_the_first_has_encoded_and_a_changed_corpus_is_encoded_again(call, here):
    first = call("-e", "1", "-t", "held.txt")[1]
    files = {path.name: path.stat().st_mtime_ns for path in here.glob("out/*.tokens")}
    assert len(files) == 2
    again, _, err = call("-e", "1", "-t", "held.txt", "-o", "out/other")
    assert again == 0
    assert err.count("encoded before") == 2
    assert {path.name: path.stat().st_mtime_ns for path in here.glob("out/*.tokens")} == files
    write_pairs("corpus.txt", PAIRS[:30])
    status, report, err = call("-e", "1", "-t", "held.txt")
    assert (status, report["pairs"], first["pairs"]) == (0, 30, 41)
    assert "corpus.txt has changed" in err
    assert len(list(here.glob("out/*.tokens"))) == 2


def test_the_cache_can_lie_elsewhere(call, here):
    assert call("-e", "1", "--cache_dir", "cache/deep")[0] == 0
    assert len(list(here.glob("cache/deep/*.tokens"))) == 1
    assert not list(here.glob("out/*.tokens"))


def test_an_encoded_corpus_trains_as_its_text_does(call, here):
    expected = load_checkpoint(call("-e", "2")[1]["checkpoint"])["model"]
    from_text = load_checkpoint(call("-e", "2", "--on_memory", "false")[1]["checkpoint"])["model"]
    encode_corpus("corpus.txt", make_vocab(PAIRS), "corpus.tokens", EncodingSettings())
    status, report, err = call("-e", "2", corpus="corpus.tokens")
    assert status == 0, err
    from_ids = load_checkpoint(report["checkpoint"])["model"]
    assert same_tensors(from_text, expected)
    assert same_tensors(from_ids, expected)
    write_pairs("corpus.txt", PAIRS[:30])
    status, report, _ = call("-e", "2", corpus="corpus.tokens")
    assert (status, report["code"]) == (1, "E-ENCODED-CHANGED")
    os.unlink("corpus.txt")
    assert call("-e", "2", corpus="corpus.tokens")[0] == 0
    WordVocab(["other words"]).save_vocab("vocab.json")
    status, report, _ = call("-e", "2", corpus="corpus.tokens")
    assert (status, report["code"]) == (1, "E-ENCODED-VOCAB")


@pytest.mark.parametrize(
    "flags",
    [
        ["--whole_word_masking"],
        ["--whole_word_masking", "--span_masking"],
        ["--packing", "--group_by_length"],
        ["--cache_dir", "x", "--on_memory", "false"],
        ["--corpus_lines", "5", "-c", "corpus.tokens"],
        ["--skip_bad_lines", "-c", "corpus.tokens"],
        ["--encoding", "latin-1", "-c", "corpus.tokens"],
        ["--on_memory", "false", "-c", "corpus.tokens"],
        ["--cache_dir", "x", "-c", "corpus.tokens"],
    ],
    ids=" ".join,
)
def test_a_flag_without_effect_is_wrong_usage(call, here, flags):
    encode_corpus("corpus.txt", make_vocab(PAIRS), "corpus.tokens", EncodingSettings())
    status, report, _ = call(*flags)
    assert (status, report["code"]) == (2, "E-SETTING-CONFLICT")
    assert flags[0].removeprefix("--") in report["error"]
    assert not list(here.glob("out/*"))


@pytest.mark.parametrize("share", ["0", "1", "-0.1", "nan", "x"])
def test_a_share_that_is_none_is_wrong_usage(call, share):
    assert call("--mlm_probability", share)[0] == 2


def test_second_texts_that_are_all_equal_are_said(call):
    write_pairs("corpus.txt", [(first, "the same") for first, _ in PAIRS])
    make_vocab([("the", "same id1 a")]).save_vocab("vocab.json")
    status, _, err = call("-e", "1")
    assert status == 0
    assert "all second texts are equal" in err
    assert "all second texts are equal" not in call("-e", "1", "--objective", "mlm")[2]


def test_a_held_out_corpus_that_training_has_too_is_said(call):
    _, report, err = call("-e", "1", "-t", "held.txt")
    assert report["eval_seen_share"] == 1
    assert "the held-out loss measures memory" in err
    write_pairs("held.txt", [(f"id{i} c1 b", "a c2 c3") for i in range(9)])
    assert call("-e", "1", "-t", "held.txt")[1]["eval_seen_share"] == 0
