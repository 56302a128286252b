"""The contract of every script: help, exit codes, the closing JSON line, and running from anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from random import Random

import pytest

from .conftest import ROOT

SCRIPTS = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("scripts/*.py"), *ROOT.glob("skills/*/scripts/*.py")))
PREAMBLE = (
    'sys.path.insert(0, str(next(p / "src" for p in Path(__file__).resolve().parents'
    ' if (p / "src" / "bert_pytorch").is_dir())))'
)
BARE = [sys.executable, "-I", "-S"]
"""This interpreter without any installed package: neither torch nor tqdm."""
REQUIRED = {
    "install_skill.py": ("--client", "agents", "--scope", "project", "--dry_run"),
    "make_pairs.py": ("--input", "bert-smoke/corpus.txt", "--output", "bert-smoke/pairs"),
    "compare_runs.py": ("bert-smoke/a", "bert-smoke/b"),
    "consolidate.py": ("bert-smoke/a", "--output_path", "bert-smoke/one"),
    "pretrain.py": ("train_dataset=bert-smoke/corpus.txt", "vocab_path=bert-smoke/vocab.json", "output_path=bert-smoke/m"),
    "finetune.py": ("task=regression", "model=m", "output_dir=bert-smoke/o"),
    "prove_gain.py": ("task=regression", "model=m", "output_dir=bert-smoke/o"),
    "search.py": ("task=regression", "model=m", "output_dir=bert-smoke/o"),
    "predict.py": ("--model", "bert-smoke", "--input", "bert-smoke/corpus.txt", "--output", "bert-smoke/p"),
    "evaluate.py": ("--model", "bert-smoke", "--data", "bert-smoke/corpus.txt"),
    "evaluate_checkpoint.py": ("--model", "m", "--vocab_path", "v", "--corpus", "bert-smoke/corpus.txt"),
    "plan_run.py": ("-c", "bert-smoke/corpus.txt", "-v", "bert-smoke/vocab.json"),
    "embed.py": ("--model", "m", "--input", "bert-smoke/corpus.txt", "--output", "bert-smoke/v.npy"),
    "fill_mask.py": ("--model", "m", "--text", "<mask>"),
    "score.py": ("--model", "m", "--input", "bert-smoke/corpus.txt", "--output", "bert-smoke/s.jsonl"),
    "similar.py": ("--model", "m", "--input", "bert-smoke/corpus.txt", "--query", "a"),
    "inspect_checkpoint.py": ("bert-smoke/corpus.txt",),
    "export.py": ("--model", "m", "--to", "onnx", "--output", "bert-smoke/m.onnx"),
    "push_to_hub.py": ("--folder", "bert-smoke", "--hub_model_id", "me/m"),
    "import_model.py": ("--model", "m", "--output", "bert-smoke/c", "--output_vocab", "bert-smoke/v"),
    "convert_legacy.py": ("--model", "m", "--output", "bert-smoke/c"),
}
"""Flags that a script does not go without."""
NEED_NOTHING = ("install_skill.py", "make_tiny_corpus.py", "doctor.py")
"""Scripts that work without any package."""


def run(script, *arguments, folder, interpreter=(sys.executable,)):
    return subprocess.run([*interpreter, script, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)


def write_noise(path):
    """150 pairs of letters drawn blindly."""
    random = Random(0)
    lines = [
        " ".join(random.choices("abcdefghijklm", k=5)) + "\t" + " ".join(random.choices("nopqrstuvwxyz", k=5))
        for _ in range(150)
    ]
    path.write_text("\n".join(lines))


def closing(done):
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_preamble_is_the_same_everywhere(script):
    assert (ROOT / script).read_text().count(PREAMBLE) == 1


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_help_needs_no_package_and_no_second(script, bundle):
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        done = run(bundle / script, "--help", folder="/", interpreter=BARE)
        seconds.append(time.perf_counter() - began)
        assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("usage: ")
    assert len(lines) <= 45
    assert min(seconds) < 1.0


@pytest.mark.parametrize("script", SCRIPTS, ids=str)
def test_wrong_usage_is_2_with_json(script, bundle, tmp_path):
    done = run(bundle / script, *REQUIRED.get(script.name, ()), "--jsom", folder=tmp_path, interpreter=BARE)
    assert done.returncode == 2
    assert closing(done) == {"ok": False, "error": "unknown argument --jsom; did you mean --json?", "code": "E-USAGE"}
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", [s for s in SCRIPTS if s.name not in NEED_NOTHING], ids=str)
def test_missing_packages_are_3_with_the_install_line(script, bundle, tmp_path):
    (tmp_path / "bert-smoke").mkdir()
    (tmp_path / "bert-smoke" / "corpus.txt").write_text("a b\tc d\n")
    done = run(bundle / script, *REQUIRED.get(script.name, ()), folder=tmp_path, interpreter=BARE)
    assert done.returncode == 3
    assert closing(done)["code"] == "E-DEPENDENCY"
    assert "python -m pip install torch tqdm pyyaml" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_leaves_early_stops_no_work(bundle, tmp_path, shell):
    (tmp_path / "documents.txt").write_text("a b\nc d\n\n" * 40)
    script = bundle / "skills/data-preparation/scripts/make_pairs.py"
    done = shell(f"set -o pipefail; python {script} --input documents.txt --output pairs | true", tmp_path)
    assert (done.returncode, "Traceback" in done.stderr, "BrokenPipe" in done.stderr) == (0, False, False)
    assert len((tmp_path / "pairs.train.txt").read_text().splitlines()) == 38


def test_tiny_corpus_is_deterministic_and_learnable(bundle, tmp_path):
    script = bundle / "scripts" / "make_tiny_corpus.py"
    texts = []
    for name, seed in (("a.txt", "3"), ("b.txt", "3"), ("c.txt", "4")):
        done = run(script, "--output", name, "--pairs", "97", "--seed", seed, "--json", folder=tmp_path, interpreter=BARE)
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) == 1
        assert closing(done)["pairs"] == 97
        texts.append((tmp_path / name).read_text())
    assert texts[0] == texts[1] != texts[2]
    pairs = [line.split("\t") for line in texts[0].splitlines()]
    assert len(pairs) == 97
    assert all(len(pair) == 2 for pair in pairs)
    assert pairs[0][1] == pairs[1][0]


def test_smoke_proves_training_through_a_symlink_from_the_root_folder(bundle, tmp_path):
    link = tmp_path / "linked"
    link.symlink_to(bundle / "skills" / "training")
    corpus = tmp_path / "corpus.txt"
    done = run(bundle / "scripts" / "make_tiny_corpus.py", "--output", corpus, folder="/")
    assert done.returncode == 0
    done = run(
        link / "scripts/train_smoke.py", "--device", "cpu", "--corpus", corpus, "--workdir", tmp_path / "run", folder="/"
    )
    assert done.returncode == 0, done.stderr
    report = closing(done)
    assert report["ok"] is True
    for proof in (
        "loss_fell",
        "masked_words_beat_commonest",
        "next_sentence_beats_chance",
        "reload_is_identical",
        "resume_is_identical",
    ):
        assert report[proof] is True
    assert report["loss_after"] < 0.9 * report["loss_before"]
    assert (tmp_path / "run" / "bert.model.ep25").is_file()


def test_smoke_does_not_claim_what_it_has_not_seen(bundle, tmp_path):
    """Texts without any regularity: nothing can be learned of them, and the proof says so."""
    write_noise(tmp_path / "corpus.txt")
    script = bundle / "skills" / "training" / "scripts" / "train_smoke.py"
    done = run(script, "--corpus", "corpus.txt", "--epochs", "2", "--lr", "1e-6", folder=tmp_path)
    report = closing(done)
    assert done.returncode == 1
    assert report["ok"] is False
    assert report["loss_fell"] is False
    assert report["reload_is_identical"] is True
    assert report["resume_is_identical"] is True


def test_smoke_without_a_gpu_is_3_in_one_line(bundle, tmp_path):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    done = run(bundle / "skills/training/scripts/train_smoke.py", "--device", "cuda", folder=tmp_path)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert "pass --device cpu" in done.stderr
    assert closing(done)["code"] == "E-DEVICE-CUDA"


def test_smoke_without_a_corpus_names_the_command_that_makes_one(bundle, tmp_path):
    done = run(bundle / "skills/training/scripts/train_smoke.py", folder=tmp_path)
    assert done.returncode == 1
    assert f"python {bundle / 'scripts' / 'make_tiny_corpus.py'}" in closing(done)["error"]


def test_vocabulary_smoke_names_a_bad_line(bundle, tmp_path):
    (tmp_path / "pairs.txt").write_text("a b\tc d\nno tab here\na b\te f\n")
    script = bundle / "skills/data-preparation/scripts/build_vocab_smoke.py"
    done = run(script, "--corpus", "pairs.txt", "--output", "v.json", folder=tmp_path)
    assert done.returncode == 1
    assert closing(done)["code"] == "E-CORPUS-TAB"
    assert closing(done)["error"].startswith("pairs.txt:2: expected two texts separated by one tab, got 1 field")
    done = run(script, "--corpus", "pairs.txt", "--output", "v.json", "--skip_bad_lines", "--json", folder=tmp_path)
    assert done.returncode == 0
    assert (closing(done)["skipped_lines"], closing(done)["words"], closing(done)["vocab_size"]) == (1, 8, 11)


def test_smoke_refuses_a_vocabulary_of_another_corpus(bundle, tmp_path):
    write_noise(tmp_path / "corpus.txt")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "vocab.json").write_text("a\nb\nc\n")
    script = bundle / "skills" / "training" / "scripts" / "train_smoke.py"
    done = run(script, "--corpus", "corpus.txt", "--workdir", "run", folder=tmp_path)
    assert done.returncode == 1
    assert closing(done)["code"] == "E-SMOKE-VOCAB"
    assert (tmp_path / "run" / "vocab.json").read_text() == "a\nb\nc\n"


@pytest.mark.gpu
def test_smoke_proves_training_on_a_gpu(bundle, tmp_path):
    assert run(bundle / "scripts" / "make_tiny_corpus.py", folder=tmp_path).returncode == 0
    done = run(bundle / "skills" / "training" / "scripts" / "train_smoke.py", "--device", "cuda", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert closing(done)["ok"] is True
    assert closing(done)["device"] == "cuda:0"
