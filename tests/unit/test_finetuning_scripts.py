"""The scripts of fine-tuning, as a user calls them; a search that is killed and gone on with."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml

from .examples import ROOT, load_script
from .finetuning_runs import write_checkpoint, write_task

SCRIPTS = ROOT / "skills" / "fine-tuning" / "scripts"
NAMES = ("finetune", "predict", "evaluate", "search", "prove_gain")


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("models"))


@pytest.fixture
def here(tmp_path, monkeypatch, pretrained):
    """A folder with data and a YAML."""
    monkeypatch.chdir(tmp_path)
    checkpoint, vocab = pretrained
    values = {"task": "sequence-classification", "engine": "native", "model": checkpoint, "vocab": vocab, "max_length": 24}
    values |= {"train_file": write_task(tmp_path, "sequence-classification"), "num_train_epochs": 2, "learning_rate": 0.003}
    values |= {"per_device_train_batch_size": 8}
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(values))
    return tmp_path


@pytest.fixture
def call(here, capsys):
    def run(name, *words):
        capsys.readouterr()
        status = load_script("fine-tuning", name).main(list(words))
        out, err = capsys.readouterr()
        return status, json.loads(out.splitlines()[-1]), out, err

    return run


def test_from_a_yaml_to_predictions_and_a_report(call, here):
    status, report, out, _ = call("finetune", "--config", "task.yaml", "output_dir=tuned", "num_train_epochs=16")
    assert (status, report["ok"], report["engine"]) == (0, True, "native")
    assert out.startswith(f"sequence-classification by native: accuracy {report['score']}")
    assert len(out) < 2000
    status, report, out, _ = call("predict", "--model", "tuned", "--input", "train.tsv", "--output", "out/p.jsonl")
    assert (status, report["rows"], report["skipped_rows"]) == (0, 64, 0)
    status, refused, _, _ = call("predict", "--model", "tuned", "--input", "train.tsv", "--output", "out/p.conll")
    assert (status, refused["code"], (here / "out/p.conll").exists()) == (2, "E-FINETUNE-TASK", False)
    lines = [json.loads(line) for line in (here / "out/p.jsonl").read_text().splitlines()]
    assert [line["row"] for line in lines] == [str(n) for n in range(2, 66)]
    assert {line["label"] for line in lines} == {"0", "1"}
    status, report, out, _ = call("evaluate", "--model", "tuned", "--data", "train.tsv", "--output", "report")
    right = sum(line["label"] == str(i % 2) for i, line in enumerate(lines))
    assert (status, report["accuracy"]) == (0, right / 64)
    document = json.loads((here / "report/evaluation.json").read_text())
    assert sum(map(sum, document["confusion"])) == 64
    assert document["labels"]["1"]["support"] == 32
    errors = [json.loads(line) for line in (here / "report/errors.jsonl").read_text().splitlines()]
    assert len(errors) == 64 - right
    assert all(error["label"] != error["right"] for error in errors)
    assert [e["loss"] for e in errors] == sorted((e["loss"] for e in errors), reverse=True)
    page = (here / "report/evaluation.html").read_text()
    for words in ("Confusion matrix", "Calibration", "Expected calibration error"):
        assert words in page
    assert "<script" not in page


def test_two_models_are_compared_on_the_same_rows(call, here):
    for name, rate in (("weak", "1e-9"), ("strong", "0.005")):
        assert (
            call("finetune", "--config", "task.yaml", f"output_dir={name}", "num_train_epochs=16", f"learning_rate={rate}")[0]
            == 0
        )
    _, report, out, _ = call("evaluate", "--model", "weak", "--other", "strong", "--data", "train.tsv")
    assert report["difference"] == pytest.approx(report["other_accuracy"] - report["accuracy"])
    assert report["low"] <= report["difference"] <= report["high"]
    assert report["low"] > 0
    assert out.startswith("the models differ: +")
    _, same, out, _ = call("evaluate", "--model", "weak", "--other", "weak", "--data", "train.tsv")
    assert (same["difference"], same["low"], same["high"]) == (0.0, 0.0, 0.0)
    assert out.startswith("the models cannot be told apart")


@pytest.mark.parametrize("task", ["token-classification", "question-answering", "regression", "multi-label"])
def test_other_tasks_are_evaluated_too(task, call, here):
    path = write_task(here, task)
    words = ("--config", "task.yaml", f"task={task}", f"train_file={path}", "output_dir=tuned", "max_length=40")
    assert call("finetune", *words)[0] == 0
    status, report, _, _ = call("evaluate", "--model", "tuned", "--other", "tuned", "--data", path, "--output", "report")
    assert (status, report["difference"]) == (0, 0.0)
    assert (here / "report/evaluation.html").stat().st_size > 1000


def test_models_of_other_labels_are_not_compared(call, here):
    path = write_task(here, "regression")
    call("finetune", "--config", "task.yaml", "output_dir=a", "num_train_epochs=1")
    call("finetune", "--config", "task.yaml", "task=regression", f"train_file={path}", "output_dir=b", "num_train_epochs=1")
    (here / "both.tsv").write_text("text\tsentence\tlabel\tscore\na\tfilm\t1\t2\nb\tplot\t0\t2\n")
    status, report, _, _ = call("evaluate", "--model", "a", "--other", "b", "--data", "both.tsv")
    assert (status, report["code"]) == (1, "E-FINETUNE-COMPARE")


SEARCH = {
    "n_trials": 8,
    "n_startup_trials": 3,
    "hp_space": {
        "learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True},
        "per_device_train_batch_size": {"type": "categorical", "choices": [8, 16]},
        "freeze_layers": {"type": "int", "low": 0, "high": 1},
    },
}


def with_search(here, **changed):
    values = {**yaml.safe_load((here / "task.yaml").read_text()), "search": {**SEARCH, **changed}}
    (here / "search.yaml").write_text(yaml.safe_dump(values))


def trials_of(folder):
    optuna = pytest.importorskip("optuna")
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{folder}/study.db")
    return study.trials


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore:.*ExperimentalWarning", "ignore:.*is experimental")
def test_a_search_that_is_killed_goes_on_to_the_trials_of_an_unbroken_one(call, here):
    pytest.importorskip("optuna")
    with_search(here)
    status, whole, _, _ = call("search", "--config", "search.yaml", "output_dir=whole")
    assert (status, whole["trials"]) == (0, 8)
    command = [sys.executable, SCRIPTS / "search.py", "--config", "search.yaml", "output_dir=killed"]
    process = subprocess.Popen(command, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while time.monotonic() < until and not (here / "killed" / "trial-3").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    cut_off = [trial.number for trial in trials_of("killed") if trial.state.name == "RUNNING"]
    assert 3 <= len(trials_of("killed")) < 8
    status, report, _, _ = call("search", "--config", "search.yaml", "output_dir=killed")
    assert (status, report["trials"], report["resumed_trials"]) == (0, 8, cut_off)
    one, other = trials_of("whole"), trials_of("killed")
    assert [trial.number for trial in other] == list(range(8))
    assert {trial.state.name for trial in other} <= {"COMPLETE", "PRUNED"}
    assert [trial.params for trial in one] == [trial.params for trial in other]
    assert [trial.value for trial in one if trial.state.name == "COMPLETE"] == [
        trial.value for trial in other if trial.state.name == "COMPLETE"
    ]
    assert report["best_retrained_score"] == report["best_score"] == whole["best_score"]
    page = (here / "killed/search.html").read_text()
    assert "Importance" in page
    assert (here / "killed/best/model.safetensors").is_file()
    assert list((here / "killed").glob("trial-*")) == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_trials_run_beside_one_another(call, here):
    pytest.importorskip("optuna")
    with_search(here, n_trials=4, n_jobs=2)
    status, report, _, _ = call("search", "--config", "search.yaml", "output_dir=found", "num_train_epochs=1")
    assert (status, report["trials"], report["complete"] + report["pruned"]) == (0, 4, 4)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"hp_space": {}}, "search has no hp_space"),
        ({"hp_space": {"a": {"type": "real"}}}, "expected one of: float, int, categorical"),
        ({"hp_space": {"a": {"type": "float", "low": 2, "high": 1}}}, "expected low below high"),
        ({"hp_space": {"a": {"type": "float", "low": 0, "high": 1, "log": True}}}, "above 0 for log"),
        ({"hp_space": {"a": {"type": "categorical"}}}, "has no choices"),
        ({"hp_space": {"a": {"type": "int", "low": 0, "high": 1, "choices": [1]}}}, "has choices"),
        ({"n_trial": 3}, "unknown setting n_trial"),
        ({"n_trials": 0}, "expected a whole number"),
        ({"pruner": "brave"}, "expected one of: none, median"),
    ],
)
def test_a_space_that_cannot_be_searched_is_said(changed, words, call, here):
    with_search(here, **changed)
    status, report, _, err = call("search", "--config", "search.yaml", "output_dir=found")
    assert status in (1, 2)
    assert report["code"] == "E-SEARCH-SPACE"
    assert words in report["error"]
    assert len(err.splitlines()) == 1


def test_a_gain_is_told_in_one_line_with_its_interval(call, here):
    words = ("--config", "task.yaml", "output_dir=gain", "--seeds", "3", "num_train_epochs=1")
    status, report, out, _ = call("prove_gain", *words)
    assert status == 0
    gains = [p - s for p, s in zip(report["from_checkpoint"], report["from_scratch"], strict=True)]
    assert report["gain"] == pytest.approx(sum(gains) / 3)
    assert report["low"] <= report["gain"] <= report["high"]
    assert report["answer"] in out
    assert report["helps"] == (report["low"] > 0)


def test_two_processes_train_one_model_and_the_first_reports(here):
    pytest.importorskip("accelerate")
    words = ["--config", "task.yaml", "--engine", "transformers", "output_dir=tuned", "num_train_epochs=1"]
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_port", "29611"]
    done = subprocess.run(
        [*command, SCRIPTS / "finetune.py", *words, "use_cpu=true", "ddp_backend=gloo", "--json"],
        cwd=here,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    # Two processes share the rows: half the steps of one.
    assert report["steps"] == -(-report["train_rows"] // 16)
    assert (here / "tuned" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("name", "words", "status", "code"),
    [
        ("finetune", ("task",), 2, "E-USAGE"),
        ("finetune", ("task=x", "model=m", "output_dir=o"), 2, "E-FINETUNE-TASK"),
        ("finetune", ("task=regression", "model=missing", "output_dir=o", "train_file=train.tsv"), 1, "E-FINETUNE-MODEL"),
        ("finetune", ("--config", "missing.yaml"), 1, "E-CONFIG-READ"),
        ("predict", ("--model", "missing", "--input", "train.tsv", "--output", "p.jsonl"), 1, "E-FINETUNE-RESULT"),
        ("evaluate", ("--model", "missing", "--data", "train.tsv"), 1, "E-FINETUNE-RESULT"),
    ],
)
def test_wrong_calls_end_in_one_line(name, words, status, code, call):
    if code == "E-FINETUNE-MODEL":
        words = (*words, "engine=native")
    ended, report, _, err = call(name, *words)
    assert (ended, report["code"]) == (status, code)
    assert len(err.splitlines()) == 1


def test_settings_may_stand_between_flags(here):
    from bert_pytorch.finetuning.front import settings_from

    parser = load_script("fine-tuning", "finetune").build_parser()
    words = [
        "task=regression",
        "--config",
        "task.yaml",
        "output_dir=o",
        "--engine=native",
        "--allow-network",
        "seed=7",
        "--json",
    ]
    args = parser.parse(words)
    settings = settings_from(args)
    assert (settings.task, settings.seed, settings.engine, settings.allow_network) == ("regression", 7, "native", True)
    assert args.settings == ["task=regression", "output_dir=o", "seed=7"]
    (here / "a=b.yaml").write_text((here / "task.yaml").read_text())
    assert settings_from(parser.parse(["--config", "a=b.yaml", "output_dir=o"])).engine == "native"


@pytest.mark.parametrize("name", NAMES)
def test_the_command_reference_has_the_flags_of_the_parser(name):
    text = (ROOT / "skills/fine-tuning/references/cli-reference.md").read_text(encoding="utf-8")
    section = text.split(f"## {name}.py\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    parser = load_script("fine-tuning", name).build_parser()
    from tests.bundle.tables import rows as expected

    assert rows == [row for row in expected(parser) if not row.startswith("| ``")]


def test_the_command_reference_has_every_setting():
    from dataclasses import fields

    from bert_pytorch.finetuning.settings import Settings

    text = (ROOT / "skills/fine-tuning/references/cli-reference.md").read_text(encoding="utf-8").split("## Settings\n")[1]
    rows = dict(line.strip("| ").split("` | ", 1) for line in text.splitlines() if line.startswith("| `"))
    wanted = {f"`{each.name}": each.metadata["help"] for each in fields(Settings) if each.name != "training"}
    assert rows.keys() == wanted.keys()
    assert [name for name in wanted if not rows[name].startswith(wanted[name])] == []
