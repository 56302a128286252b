"""The scripts over a trained model: what they write, and how they end."""

import io
import json
import math

import pytest
import torch

from bert_pytorch.inference.embedding import Embedder
from bert_pytorch.inference.loading import open_model
from bert_pytorch.inference.scoring import score_lines
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model
from bert_pytorch.interop.weights import read_tensors
from tests.bundle.tables import rows as expected_rows

from .examples import ROOT, load_script, make_vocab, story_pairs
from .hub_folders import make_lm, stirred

NAMES = sorted(path.stem for path in (ROOT / "skills/inference-and-export/scripts").glob("*.py"))
VOCAB = make_vocab(story_pairs())
LINES = [f"a{i} b{i % 3} c d" for i in range(11)] + ["", "zzz zzz"]
MODEL = ["--model", "model.ep0", "--vocab_path", "vocab.json", "--device", "cpu"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_as_checkpoint("model.ep0", make_lm(len(VOCAB)), VOCAB)
    VOCAB.save_vocab("vocab.json")
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    return tmp_path


@pytest.fixture
def call(here, capsys):
    """Runs a script; its status, its closing JSON and all it printed."""

    def run(name, *words):
        capsys.readouterr()
        try:
            status = load_script("inference-and-export", name).main(list(words))
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]), out, err

    return run


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_reference_has_the_flags_of_the_parser(name):
    text = (ROOT / "skills/inference-and-export/references/cli-reference.md").read_text(encoding="utf-8")
    section = text.split(f"## {name}.py\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    parser = load_script("inference-and-export", name).build_parser()
    assert rows == [row for row in expected_rows(parser) if not row.startswith("| ``")]


@pytest.mark.parametrize("at_once", ["4", "100"])
def test_embed_writes_a_vector_a_line(at_once, here, call, monkeypatch):
    loaded = open_model("model.ep0", "vocab.json")
    expected = Embedder(loaded.model.bert, loaded.vocab)(LINES)
    status, report, out, _ = call(
        "embed", *MODEL, "--input", "lines.txt", "--output", "v.safetensors", "--lines_at_once", at_once
    )
    assert (status, report["lines"], report["features"], report["cut_lines"]) == (0, 13, 20, 0)
    assert "13 vectors of 20 numbers" in out
    torch.testing.assert_close(read_tensors(here / "v.safetensors")["vectors"], expected, atol=1e-6, rtol=1e-5)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO((here / "lines.txt").read_bytes())))
    status, report, out, _ = call("embed", *MODEL, "--input", "-", "--output", "v.jsonl", "--max_tokens", "3", "--json")
    assert (status, report["cut_lines"], len(out.splitlines())) == (0, 12, 1)
    assert [row["text"] for row in rows_of(here / "v.jsonl")] == LINES


def test_embed_takes_the_recipe_of_a_folder_and_flags_win(here, call):
    export_model(make_lm(len(VOCAB)), VOCAB, "hub")
    pooling = here / "hub" / "1_Pooling" / "config.json"
    pooling.write_text(
        json.dumps({**json.loads(pooling.read_text()), "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    )
    (here / "hub" / "sentence_bert_config.json").write_text('{"max_seq_length": 4}')
    status, report, _, _ = call("embed", "--model", "hub", "--input", "lines.txt", "--output", "v.npy")
    assert (status, report["pooling"], report["max_tokens"], report["normalize"]) == (0, "cls", 4, False)
    flags = ["--pooling", "max", "--max_tokens", "9", "--normalize", "true", "--layer", "1"]
    status, report, _, _ = call("embed", "--model", "hub", "--input", "lines.txt", "--output", "v.npy", *flags)
    assert (report["pooling"], report["max_tokens"], report["normalize"], report["layer"]) == ("max", 9, True, 1)


def test_fill_mask_answers_on_the_screen_or_to_a_file(here, call):
    status, report, out, _ = call("fill_mask", *MODEL, "--text", "a1 <mask> c", "--top_k", "3")
    assert (status, report["masks"]) == (0, 1)
    choices = report["answers"][0]["masks"][0]
    assert len(choices) == 3
    assert choices[0]["probability"] >= choices[1]["probability"]
    assert out.startswith(f"mask 1: {choices[0]['token']} ")
    (here / "masks.txt").write_text("a1 <mask>\n<mask> <mask>\n")
    status, report, _, _ = call("fill_mask", *MODEL, "--input", "masks.txt", "--output", "answers.jsonl")
    assert (status, report["texts"], report["masks"]) == (0, 2, 3)
    assert [len(row["masks"]) for row in rows_of(here / "answers.jsonl")] == [1, 2]


def test_score_ranks_the_original_lines(here, call):
    lines = ["A1, b1 c d 17", "a2 b2 c d 5", "a1 , b1 c d 17", ""]
    (here / "odd.txt").write_text("\n".join(lines) + "\n")
    status, report, out, _ = call(
        "score", *MODEL, "--input", "odd.txt", "--output", "r.jsonl", "--lowercase", "--split_punctuation"
    )
    assert (status, report["lines"], report["kinds"], report["lines_without_words"]) == (0, 4, 3, 1)
    rows = rows_of(here / "r.jsonl")
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert sorted(row["text"] for row in rows) == sorted(lines)
    assert rows[3] == {
        "rank": 4,
        "line": 4,
        "perplexity": None,
        "outside_share": None,
        "next_sentence": None,
        "n_words": 0,
        "text": "",
    }
    loaded = open_model("model.ep0", "vocab.json")
    (expected,) = score_lines(loaded.model, loaded.vocab, ["a1 , b1 c d 17"])
    equal = [row for row in rows if row["line"] in (1, 3)]
    assert [row["perplexity"] for row in equal] == [pytest.approx(expected.perplexity, rel=1e-5)] * 2
    scores = [row["perplexity"] for row in rows[:3]]
    assert report["mean_log_perplexity"] == pytest.approx(sum(map(math.log, scores)) / 3)
    assert scores == sorted(scores, reverse=True)
    assert out.splitlines()[0].startswith("perplexity ")


def test_score_masks_logs_as_the_corpus_was_and_ranks_pairs(here, call):
    pytest.importorskip("drain3")
    (here / "server.log").write_text("081109 203615 148 INFO a1: b1 took 5 ms\n081110 203616 9 INFO a1: b1 took 77 ms\n")
    status, report, _, _ = call("score", *MODEL, "--input", "server.log", "--output", "r.jsonl", "--log", "--mask", "WHO=a1")
    assert (status, report["kinds"]) == (0, 1)
    (here / "pairs.txt").write_text("a1 b1 c d\te f1 g1 h\na1 b1\te\n")
    status, _, _, _ = call("score", *MODEL, "--input", "pairs.txt", "--output", "r.jsonl", "--rank_by", "next", "--passes", "1")
    values = [row["next_sentence"] for row in rows_of(here / "r.jsonl")]
    assert values == sorted(values)
    status, report, _, _ = call("score", *MODEL, "--input", "pairs.txt", "--output", "r.jsonl", "--mask", "A=b")
    assert report["code"] == "E-SETTING-CONFLICT"


def test_similar_finds_a_line_itself_first(here, call):
    status, report, out, _ = call(
        "similar", *MODEL, "--input", "lines.txt", "--query", LINES[4], "--query", "e", "--top_k", "2"
    )
    assert (status, report["queries"]) == (0, 2)
    assert report["answers"][0]["nearest"][0] == {"line": 5, "similarity": pytest.approx(1.0, abs=1e-5)}
    assert f"line 5: {LINES[4]}" in out
    status, report, _, _ = call("similar", *MODEL, "--input", "lines.txt", "--output", "near.jsonl")
    answers = rows_of(here / "near.jsonl")
    assert [answer["query"] for answer in answers] == LINES
    assert all(near["line"] != i for i, answer in enumerate(answers, start=1) for near in answer["nearest"])
    (here / "q.txt").write_text("a1\n")
    assert call("similar", *MODEL, "--input", "lines.txt", "--queries", "q.txt", "--output", "near.jsonl")[1]["queries"] == 1


def test_what_default_output_holds_stays_short(here, call):
    pieces = {"embed": ["--output", "v.npy"], "score": ["--output", "r.jsonl"], "similar": ["--query", "a1 b1"]}
    for name, words in pieces.items():
        assert len(call(name, *MODEL, "--input", "lines.txt", *words)[2]) <= 2000
    assert len(call("inspect_checkpoint", "model.ep0")[2]) <= 2000


@pytest.mark.parametrize(
    ("name", "words", "status", "code"),
    [
        ("embed", [*MODEL, "--input", "missing.txt", "--output", "v.npy"], 1, "E-FILE-READ"),
        ("embed", [*MODEL, "--input", "lines.txt", "--output", "v.txt"], 2, "E-USAGE"),
        ("embed", ["--model", "model.ep0", "--input", "lines.txt", "--output", "v.npy"], 2, "E-USAGE"),
        ("embed", [*MODEL, "--input", "lines.txt", "--output", "v.npy", "--layer", "9"], 1, "E-INFER-SETTING"),
        (
            "embed",
            ["--model", "missing", "--vocab_path", "vocab.json", "--input", "lines.txt", "--output", "v.npy"],
            1,
            "E-CHECKPOINT-READ",
        ),
        ("fill_mask", MODEL, 2, "E-USAGE"),
        ("fill_mask", [*MODEL, "--text", "a1"], 1, "E-INFER-MASK"),
        ("score", [*MODEL, "--input", "lines.txt", "--output", "r.jsonl", "--log", "--mask", "x"], 1, "E-INFER-SETTING"),
        ("similar", [*MODEL, "--input", "lines.txt"], 2, "E-USAGE"),
        ("inspect_checkpoint", ["missing"], 1, "E-FILE-READ"),
        ("export", [*MODEL[:4], "--to", "huggingface", "--output", "h", "--encoder_only"], 2, "E-SETTING-CONFLICT"),
        ("convert_legacy", ["--model", "model.ep0"], 2, "E-USAGE"),
        ("import_model", ["--model", "model.ep0", "--output", "c", "--output_vocab", "v"], 1, "E-HUB-CONFIG"),
        ("push_to_hub", ["--folder", ".", "--hub_model_id", "me/m"], 1, "E-PUSH-FOLDER"),
    ],
)
def test_wrong_calls_end_in_one_line_and_leave_nothing(name, words, status, code, here, call):
    before = sorted(path.name for path in here.iterdir())
    ended, report, _, err = call(name, *words)
    assert (ended, report["ok"], report["code"]) == (status, False, code)
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in here.iterdir()) == before


def test_a_head_that_has_learned_nothing_is_not_asked(here, call):
    transformers = pytest.importorskip("transformers")
    from .hub_folders import write_hub_folder

    config = transformers.BertConfig(vocab_size=14, hidden_size=20, num_hidden_layers=1, num_attention_heads=4)
    write_hub_folder(here / "hub", stirred(transformers.BertModel(config)))
    for name, words in {"fill_mask": ["--text", "<mask>"], "score": ["--input", "lines.txt", "--output", "r.jsonl"]}.items():
        status, report, _, _ = call(name, "--model", "hub", *words)
        assert (status, report["code"]) == (1, "E-INFER-HEAD")
    assert call("embed", "--model", "hub", "--input", "lines.txt", "--output", "v.npy")[0] == 0
