"""The doctor on runs, files and programs: what it finds, that its commands work, and that it runs nothing it reads."""

import json
import os
import pickle
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from bert_pytorch import BERTLM, WordVocab
from bert_pytorch.diagnosis.handbook import Handbook
from bert_pytorch.diagnosis.paths import diagnose_path
from bert_pytorch.diagnosis.programs import diagnose_program
from bert_pytorch.diagnosis.runs import diagnose_run
from bert_pytorch.errors import UnreadableError
from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.huggingface import export_model

from .examples import ROOT, SOURCE, V, make_bert, make_vocab, story_pairs, write_pairs
from .finetuning_runs import run as finetune
from .finetuning_runs import write_checkpoint
from .lookalikes import write_files
from .test_errors import write, write_corpus

BOOK = Handbook(ROOT)
DOCTOR = ROOT / "scripts" / "doctor.py"
BERT = "--hidden 8 --layers 1 --attn_heads 2 --seq_len 13 --batch_size 4 --device cpu --save_strategy steps --save_steps 2"


def shell(line):
    """Run a command line as it is printed, with `bert` and `python` those of the tests."""
    head = (
        f'bert() {{ {shlex.quote(sys.executable)} -m bert_pytorch "$@"; }}; python() {{ {shlex.quote(sys.executable)} "$@"; }}'
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    return subprocess.run(["/bin/bash", "-c", f"{head}\n{line}"], capture_output=True, text=True, env=environment, timeout=200)


def doctor(*words, text=None, bare=False):
    """The script; its report and its output."""
    interpreter = [sys.executable, *(["-I", "-S"] if bare else [])]
    done = subprocess.run([*interpreter, DOCTOR, *words], input=text, capture_output=True, text=True, timeout=100)
    return done.returncode, json.loads(done.stdout.splitlines()[-1]), done


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that ended as planned."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_corpus()
        write_pairs("held_out.txt", [(f"a{i} c", f"e h d{i}") for i in range(7)])
        done = shell(f"bert -c corpus.txt -t held_out.txt -v vocab.json --output_dir run {BERT} -e 4 --log_freq 1")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def place(finished, tmp_path, monkeypatch):
    """A copy of it in the working directory, with its corpora where they were."""
    shutil.copytree(finished / "run", tmp_path / "run")
    for name in ("corpus.txt", "held_out.txt", "vocab.json"):
        shutil.copy2(finished / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(path, **changed):
    values = json.loads(Path(path).read_text())
    values.update(changed)
    Path(path).write_text(json.dumps(values))


def found(folder="run"):
    return {finding.rule: finding for finding in diagnose_run(Path(folder), BOOK)}


def log(*entries):
    Path("run/log.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def summary(**figures):
    edit("run/report.json", summary={"steps": 12, **figures}, data={"pairs": 100}, stopped_by="plan", warnings=[])
    log(*({"step": i, "loss": 4 - i / 10} for i in range(9)))


def test_a_killed_run_goes_on_by_the_line_that_is_printed(place):
    shutil.rmtree("run/checkpoint-12")
    for name in ("report.json", "report.html"):
        os.unlink(f"run/{name}")
    finding = diagnose_run(Path("run"), BOOK)[0]
    assert finding.rule == "run-unfinished"
    assert finding.next.startswith(f"OMP_NUM_THREADS={torch.get_num_threads()} bert -c ")
    assert "CORPUS" not in finding.next
    assert "VOCAB" not in finding.next
    done = shell(finding.next)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert (report["steps"], report["stopped_by"]) == (12, "plan")
    assert "run-unfinished" not in found()


def test_a_run_without_a_checkpoint_begins_again(place):
    for path in Path("run").glob("checkpoint-*"):
        shutil.rmtree(path)
    os.unlink("run/report.json")
    assert "--save_strategy steps" in found()["run-unfinished"].next


def test_an_error_that_ended_a_run_is_told_with_its_code(place):
    message = "step 4: the loss is nan; 5 in a row: lower the learning rate [E-LOSS-NONFINITE]"
    edit("run/report.json", ok=False, stopped_by="error", message=message, summary={"steps": 4})
    finding = diagnose_run(Path("run"), BOOK)[0]
    assert finding.rule == "E-LOSS-NONFINITE"
    assert "--resume_from_checkpoint last" in finding.next


def test_a_run_under_way_is_left_alone(place):
    from bert_pytorch.trainer.run_folder import RunFolder

    program = (
        "import sys; from bert_pytorch.trainer.run_folder import RunFolder; f = RunFolder('run'); print(1, flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    process.stdout.readline()
    assert diagnose_run(Path("run"), BOOK)[0].rule == "run-under-way"
    process.communicate(b"\n", timeout=60)
    assert "run-under-way" not in found()
    RunFolder("run").close()


def test_a_damaged_checkpoint_is_named_and_the_line_takes_the_one_before(place):
    os.truncate("run/checkpoint-12/model.safetensors", 50)
    finding = found()["run-checkpoint-damaged"]
    assert "model.safetensors" in finding.where
    line = finding.next.partition(": it takes")[0]
    assert shell(line).returncode == 0
    assert "run-checkpoint-aside" in found()
    assert "run-checkpoint-damaged" not in found()


def test_a_changed_corpus_is_told(place, finished):
    with open(finished / "corpus.txt", "a", encoding="utf-8") as file:
        file.write("new\tline\n")
    try:
        assert "corpus.txt" in found()["run-corpus-changed"].where
    finally:
        write_pairs(finished / "corpus.txt", story_pairs())


@pytest.mark.parametrize(
    ("rule", "change", "word"),
    [
        ("run-unknown-words", {"unk_share": 0.2}, "bert-vocab -c"),
        ("run-trimmed", {"trimmed_pairs": 40}, "--seq_len 26"),
        ("run-skipped", {"skipped_lines": 3}, "--fix"),
        ("run-seen", {"eval_seen_share": 0.9}, "make_pairs.py"),
    ],
)
def test_facts_of_the_data_are_judged(place, rule, change, word):
    summary()
    assert rule not in found()
    edit("run/report.json", data={"pairs": 100, **change})
    assert word in found()[rule].next


def test_figures_are_judged(place):
    summary(eval_mlm_loss=3.0, eval_unigram_loss=4.0, eval_nsp_accuracy=0.9, eval_n_items=400)
    assert {"run-unigram", "run-next-sentence", "run-flat", "run-overfit", "run-nan"} & set(found()) == set()
    summary(eval_mlm_loss=3.99, eval_unigram_loss=4.0, eval_nsp_accuracy=0.51, eval_n_items=400)
    assert {"run-unigram", "run-next-sentence"} <= set(found())
    assert "--objective mlm" in found()["run-next-sentence"].next
    log(*({"step": i, "loss": 4.0} for i in range(9)))
    assert "run-flat" in found()
    log(*({"step": i, "eval_loss": loss} for i, loss in enumerate([4.0, 3.0, 3.2, 3.4])))
    assert "step 1" in found()["run-overfit"].where
    log({"step": 1, "loss": 3.0}, {"step": 2, "loss": None})
    assert "--nan_policy raise" in found()["run-nan"].next


def test_bad_steps_and_spikes_are_told(place):
    summary()
    spike = "step 7: the loss is 9.0000, that of the last 10 logs 4.0000: a spike; if it does not come down, go on"
    skipped = "step 3: the loss is nan, the update is skipped: pass 0, batch 3, lines 5"
    edit("run/report.json", warnings=[spike, skipped, "something else was odd"])
    findings = found()
    assert "lines 5" in findings["run-bad-steps"].where
    assert "--lr 0.00033" in findings["run-bad-steps"].next
    assert {"run-spike", "run-warning"} <= set(findings)


def test_a_disk_without_room_is_told(place, monkeypatch):
    summary()
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    assert "--save_total_limit 2" in found()["run-disk"].next


def test_a_good_run_is_called_good(place):
    summary(eval_mlm_loss=3.0, eval_unigram_loss=4.0, eval_nsp_accuracy=0.9, eval_n_items=400)
    finding = found()["run-done"]
    assert "inspect_checkpoint.py" in finding.next


def test_a_fine_tuned_folder_is_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, vocab = write_checkpoint(tmp_path)
    finetune(tmp_path, "sequence-classification", model, vocab=vocab, engine="native")
    findings = diagnose_path(Path("tuned"), BOOK)[0]
    assert findings
    os.unlink("tuned/finetune.json")
    Path("tuned/checkpoint-9").mkdir()
    history = [{"step": i, "loss": 1.0 if i < 5 else 0.5, "eval_loss": loss} for i, loss in enumerate([1.0, 0.5, 0.9, 1.1])]
    Path("tuned/checkpoint-9/trainer_state.json").write_text(json.dumps({"log_history": history, "max_steps": 20}))
    overfit = {finding.rule: finding for finding in diagnose_path(Path("tuned"), BOOK)[0]}["run-overfit"]
    assert "finetune.py" in overfit.next


def test_strange_folders_are_no_crash(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    for name in ("report.json", "log.jsonl", "finetune.json", "x.tokens"):
        Path("run", name).write_bytes(b"\xff[{" * 9)
    Path("run/checkpoint-3").mkdir()
    Path("run/checkpoint-3/trainer_state.json").write_text(
        '{"arguments": 3, "schedule": [], "settings": null, "log_history": 7}'
    )
    assert diagnose_path(Path("run"), BOOK)[0]
    Path("empty").mkdir()
    assert diagnose_path(Path("empty"), BOOK)[0]
    with pytest.raises(UnreadableError):
        diagnose_path(Path("gone"), BOOK)


def test_files_of_models_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vocab = make_vocab(story_pairs())
    model = BERTLM(make_bert(len(vocab), n_layers=1), len(vocab))
    write_as_checkpoint("new.ep0", model, vocab)
    export_model(model, vocab, "hub")
    write_files(tmp_path)
    WordVocab(["a b"]).save_vocab("vocab.json")
    torch.save({"a": print}, "objects.bin")
    write("cut.ep0", Path("new.ep0").read_bytes()[:500])
    bad = BERTLM(make_bert(V, n_layers=1), V)
    torch.nn.init.constant_(bad.bert.embedding.norm.weight, float("nan"))
    write_as_checkpoint("nan.ep0", bad)
    expected = {"new.ep0": "model-whole", "hub": "model-whole", "bert.model.ep0": "model-old", "objects.bin": "file-objects"}
    expected |= {"cut.ep0": "E-INSPECT-FILE", "nan.ep0": "model-not-finite"}
    rules = {name: diagnose_path(Path(name), BOOK)[0][0].rule for name in expected}
    assert rules == expected
    (old,) = diagnose_path(Path("bert.model.ep0"), BOOK)[0]
    assert shell(old.next).returncode == 0
    assert Path("new.ep0").is_file()


def test_an_old_vocabulary_is_converted_by_the_line_that_is_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    path = next(path for path in tmp_path.iterdir() if path.suffix == ".pkl")
    (finding,) = diagnose_path(path, BOOK)[0]
    assert finding.rule == "vocabulary-old"
    assert shell(finding.next).returncode == 0
    assert len(WordVocab.load_vocab("vocab.json")) > 5


class Hostile:
    def __reduce__(self):
        return os.mkdir, ("executed",)


def test_nothing_in_a_file_is_executed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("hostile.pkl", pickle.dumps(Hostile()))
    torch.save(Hostile(), "hostile.ep0")
    write("hostile.py", b"import os\nos.mkdir('executed')\nfrom bert_pytorch import BERTTrainer\n")
    write("hostile.txt", b"$(mkdir executed)`mkdir executed`;mkdir executed: 1: wrong; do that [E-CORPUS-TAB]")
    for name in ("hostile.pkl", "hostile.ep0", "hostile.py", "hostile.txt"):
        before = sorted(os.listdir())
        diagnose_path(Path(name), BOOK)
        doctor(name)
        assert sorted(os.listdir()) == before
    names = "$(touch x).txt"
    (finding,) = diagnose_path(Path(write("log.txt", f"{names}:7: blank; remove it [E-CORPUS-BLANK]".encode())), BOOK)[0]
    assert shlex.quote(names) in finding.next


OLD = """
import pickle
import torch
from torch.utils.data import DataLoader
from bert_pytorch.dataset import BERTDataset, WordVocab
from bert_pytorch.model import BERT
from bert_pytorch.trainer import BERTTrainer
from transformers import TrainingArguments, Trainer
"""


@pytest.mark.parametrize(
    ("line", "rule", "step"),
    [
        ("vocab = pickle.load(open('vocab.pkl', 'rb'))", "program-pickle", "WordVocab.load_vocab"),
        ("bert = torch.load('bert.model.ep0')", "program-torch-load", "load_model"),
        ("bert = torch.load('x', weights_only=False)", "program-torch-load", "convert_legacy.py"),
        ("torch.save(bert, 'x')", "program-torch-save", "trainer.save"),
        ("bert = BERT(99, hidden=250, attn_heads=8)", "E-MODEL-HEADS", "hidden=248"),
        ("bert = BERT(99, 100, 2)", "E-MODEL-HEADS", "attn_heads=12"),
        ("data = BERTDataset('c.txt', vocab, 4)", "E-DATA-LENGTH", "seq_len=64"),
        ("vocab = WordVocab('train.txt')", "E-VOCAB-TEXTS", "open("),
        ("t = BERTTrainer(bert, 9, loader, with_cuda='false')", "program-switch", "with_cuda=False"),
        ("t = BERTTrainer(bert, 9, loader, learning_rate=1)", "program-argument", "leave learning_rate="),
        ("t = BERTTrainer(bert, 9, loader, log_frequency=1)", "program-argument", "log_freq="),
        ("t = BERTTrainer(bert, 9, loader)\nt.test(0)", "E-TRAINER-NO-TEST", "test_dataloader="),
        ("t = BERTTrainer(bert, 9, DataLoader(data))", "program-order", "shuffle=True"),
        ("t = BERTTrainer(bert, 9, loader)", "program-old-library", "PYTHONPATH="),
        ("from bert_pytorch.model.embedding import PositionalEmbedding", "program-import", "convert_legacy.py"),
        ("from bert_pytorch.model.utils import GELU", "program-import", "BERTTrainer"),
        ("TrainingArguments('o', evaluation_strategy='no')", "hf-argument-renamed", "eval_strategy"),
        ("TrainingArguments('o', overwrite_output_dir=True)", "hf-argument-gone", "name a new one"),
        ("Trainer(model, tokenizer=t)", "hf-trainer-tokenizer", "processing_class"),
        ("def broken(:", "program-syntax", "sed -n"),
    ],
)
def test_a_fault_of_a_program_is_read_out_of_it(line, rule, step):
    findings = {finding.rule: finding for finding in diagnose_program(OLD + line + "\n", Path("train.py"), BOOK)}
    assert rule in findings
    assert step in findings[rule].next
    assert findings[rule].where.startswith("train.py")


def test_a_good_program_is_not_blamed():
    text = "from bert_pytorch import BERT, BERTDataset, WordVocab\nfrom bert_pytorch.trainer import load_model\n"
    text += "vocab = WordVocab.load_vocab('v.json')\nbert = BERT(len(vocab), hidden=96, attn_heads=12)\n"
    text += "data = BERTDataset('c.txt', vocab, seq_len=64, seed=3)\nlines = WordVocab(open('t.txt'), max_size=9)\n"
    assert diagnose_program(text, Path("train.py"), BOOK) == []


@pytest.mark.parametrize("path", sorted((ROOT / "tests" / "compat" / "clients").glob("*.py")), ids=lambda path: path.name)
def test_real_programs_for_the_ancestor_are_read(path):
    findings = diagnose_program(path.read_text(encoding="utf-8"), path, BOOK)
    assert [each for each in findings if each.rule == "program-syntax"] == []


def test_the_script_needs_no_package_for_texts_and_programs(tmp_path):
    status, report, done = doctor("--text", "corpus.txt:3: no tab; fix the line [E-CORPUS-TAB]", bare=True)
    assert (status, report["findings"][0]["rule"], done.stderr) == (0, "E-CORPUS-TAB", "")
    status, report, _ = doctor("-", text="x\nRuntimeError: CUDA out of memory. Tried\n", bare=True)
    assert (status, report["findings"][0]["rule"]) == (0, "cuda-memory")
    (tmp_path / "old.py").write_text(OLD + "t = BERTTrainer(bert, 9, loader)\n")
    status, report, _ = doctor(tmp_path / "old.py", bare=True)
    assert (status, report["findings"][0]["rule"]) == (0, "program-old-library")


def test_the_script_says_so_where_it_knows_nothing_and_what_is_wrong_usage(tmp_path):
    status, report, done = doctor("--text", "all is well")
    assert (status, report["ok"], report["findings"], report["code"]) == (1, False, [], "E-DOCTOR-UNKNOWN")
    assert len(done.stderr.splitlines()) == 1
    assert "whole output" in report["error"]
    assert doctor("--text", "a", "b")[0] == 2
    assert doctor()[0] == 2
    status, report, _ = doctor(tmp_path / "gone.txt")
    assert (status, report["code"]) == (1, "E-FILE-READ")


def test_the_script_is_brief_and_its_json_is_whole(tmp_path):
    log = "\n".join(f"line {i} E-CORPUS-TAB" for i in range(9999))
    log += "\n".join(["", "E-CORPUS-BLANK", "E-RANK-LOST", "Connection closed by peer", "nan", "loss: nan", "Killed"] * 3)
    _, report, done = doctor("-", text=log)
    assert 1 <= len(report["findings"]) <= 3
    assert len(done.stdout) <= 2000
    _, full, done = doctor("-", "--json", text=log)
    assert len(done.stdout.splitlines()) == 1
    assert full["n_findings"] == len(full["findings"]) == report["n_findings"] > 4
    assert all(each.keys() == {"rule", "where", "cause", "next"} for each in full["findings"])


def test_logs_in_other_encodings_and_with_colours_are_read(tmp_path):
    for encoding in ("utf-8-sig", "utf-16", "latin-1"):
        (tmp_path / "log.txt").write_bytes("\x1b[31mcaf\xe9\r\nRuntimeError: CUDA out of memory\x1b[0m\r\n".encode(encoding))
        status, report, _ = doctor(tmp_path / "log.txt")
        assert (status, report["findings"][0]["rule"]) == (0, "cuda-memory"), encoding


def test_placeholders_of_commands_are_filled_in(place):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for finding in found().values():
            assert not re.search(r"\{\w+\}|\bNone\b", finding.next), finding
