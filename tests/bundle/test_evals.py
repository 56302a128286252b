"""The evaluations: their form, that no folder holds an answer, and that checks pass right work and nothing else."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVALS = ROOT / "evals"
TASKS = json.loads((EVALS / "evals.json").read_text(encoding="utf-8"))["evals"]
IDS = [task["name"] for task in TASKS]
SCRIPTS = {
    name: str(ROOT / "skills" / skill / "scripts")
    for name, skill in (
        ("DATA", "data-preparation"),
        ("TRAIN", "training"),
        ("TUNE", "fine-tuning"),
        ("USE", "inference-and-export"),
    )
}
QUICK = ("faulty-corpus", "old-files")

# What a reference solution does in a task's folder. `DATA` and so on are the folders of scripts; `answer` writes answer.json.
SOLUTIONS = {
    "log-pretraining": """
python $DATA/make_pairs.py --input server.log --output log --valid_share 0.1 > made
bert-vocab -c log.train.txt -o vocab.json > made
bert -c log.train.txt -t log.valid.txt -v vocab.json -o run/m -hs 64 -l 2 -a 4 -s 48 -b 32 -e 4 --lr 0.003 --device cpu > report
answer model=run/m.ep3 vocabulary=vocab.json held_out_file=log.valid.txt held_out_loss=@eval_mlm_loss
""",
    "protein-pretraining": """
grep -v '>' proteins.fasta > sequences.txt
python $DATA/make_pairs.py --input sequences.txt --output protein --kmer 1 --window 100 --single > made
bert-vocab -c protein.train.txt -o vocab.json > made
bert -c protein.train.txt -t protein.valid.txt -v vocab.json -o run/m --objective mlm -hs 64 -l 2 -a 4 -s 104 -b 16 -e 40 \
 --lr 0.003 --device cpu > report
answer model=run/m.ep39 vocabulary=vocab.json held_out_file=protein.valid.txt held_out_loss=@eval_mlm_loss
""",
    "faulty-corpus": """
python - <<'END'
import json


def is_good(line):
    try:
        sides = line.decode().split("\\t")
    except UnicodeDecodeError:
        return False
    return len(sides) == 2 and all(map(str.strip, sides))


lines = open("pairs.txt", "rb").read().splitlines()
kept = [line for line in lines if is_good(line)]
open("clean.txt", "wb").write(b"".join(line + b"\\n" for line in kept))
json.dump({"bad_lines": len(lines) - len(kept)}, open("answer.json", "w"))
END
""",
    "interrupted-run": """
eval "$(cat command.txt) --resume_from_checkpoint last" > report
answer steps=@steps held_out_loss=@eval_mlm_loss
""",
    "planning": """
bert-vocab -c train.txt -o vocab.json > made
python $TRAIN/plan_run.py -c train.txt -v vocab.json -hs 128 -l 3 -a 4 -s 32 -b 16 -e 10 --device cpu > report
answer parameters=@parameters memory_bytes=@peak_memory_bytes seconds=@planned_seconds
""",
    "classification": """
bert-vocab -c archive.txt -o vocab.json --min_freq 2 > made
bert -c archive.txt -v vocab.json -o run/m --objective mlm -hs 64 -l 2 -a 4 -s 32 -b 32 -e 6 --lr 0.003 --device cpu > made
python $TUNE/finetune.py --engine native task=sequence-classification \
 model=run/m.ep5 vocab=vocab.json train_file=labelled.tsv max_length=32 num_train_epochs=10 learning_rate=1e-3 \
 output_dir=tuned > report
(echo text; cat unlabelled.txt) > rows.tsv
python $TUNE/predict.py --model tuned --input rows.tsv --output rows.jsonl > made
python -c "import json; print(*(json.loads(line)['label'] for line in open('rows.jsonl')), sep='\\n')" > predictions.txt
answer model=tuned accuracy=@score
""",
    "tagging": """
bert-vocab -c untagged.txt -o vocab.json > made
cut -d' ' -f1 train.conll | tr '\\n' ' ' | sed 's/  /\\n/g' > text.txt
bert-vocab -c text.txt -o vocab.json > made
bert -c text.txt -v vocab.json -o run/m --objective mlm -hs 64 -l 2 -a 4 -s 32 -b 16 -e 5 --lr 0.003 --device cpu > made
python $TUNE/finetune.py --engine native task=token-classification \
 model=run/m.ep4 vocab=vocab.json train_file=train.conll max_length=32 num_train_epochs=8 learning_rate=1e-3 \
 output_dir=tuned > report
python $TUNE/predict.py --model tuned --input untagged.txt --output tagged.conll > made
""",
    "odd-lines": """
python $DATA/make_pairs.py --input normal.log --output log --valid_share 0.05 > made
bert-vocab -c log.train.txt -o vocab.json > made
bert -c log.train.txt -t log.valid.txt -v vocab.json -o run/m -hs 64 -l 2 -a 4 -s 48 -b 32 -e 4 --lr 0.003 --device cpu > made
python $USE/score.py --model run/m.ep3 --vocab_path vocab.json --log --input today.log \
 --output ranked.jsonl > made
python - <<'END'
import json
rows = [json.loads(line) for line in open("ranked.jsonl")][:24]
open("suspicious.txt", "w").write("".join(f"{row['line']}\\n" for row in rows))
END
""",
    "export": """
python $USE/export.py --model bert.ckpt --vocab_path vocab.json --to huggingface --output hub > made
""",
    "vectors": """
python $USE/embed.py --model bert.ckpt --vocab_path vocab.json --input texts.txt --output vectors.npy > made
python $USE/embed.py --model bert.ckpt --vocab_path vocab.json --input queries.txt --output q.npy > made
python - <<'END'
import json
import numpy as np
rows, queries = (np.load(name) for name in ("vectors.npy", "q.npy"))
rows, queries = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (rows, queries))
json.dump([int(i) + 1 for i in (queries @ rows.T).argmax(1)], open("nearest.json", "w"))
END
""",
    "old-files": """
python $USE/convert_legacy.py --model bert.model.ep0 --vocab vocab.pkl --output new.ckpt \
 --output_vocab new_vocab.json > made
answer words=23 word_7='"w2"' layers=2 hidden=15
""",
    "old-script": """
bert-vocab -c corpus.train.txt -o vocab.json > made
bert -c corpus.train.txt -t corpus.valid.txt -v vocab.json -o run/m -hs 64 -l 2 -a 4 -s 32 -b 16 -e 8 --lr 0.003 \
 --device cpu > report
answer model=run/m.ep7 vocabulary=vocab.json next_sentence_accuracy=@eval_nsp_accuracy \
 cause='"next-sentence labels and false partners were drawn apart, so they told nothing"'
""",
}
ANSWER = """
import json, sys
try:
    report = json.loads(open("report").read().splitlines()[-1])
except FileNotFoundError:
    report = {}
made = {}
for word in sys.argv[1:]:
    name, _, value = word.partition("=")
    try:
        made[name] = report[value[1:]] if value.startswith("@") else json.loads(value)
    except ValueError:
        made[name] = value
json.dump(made, open("answer.json", "w"))
"""


def call(*words):
    done = subprocess.run([sys.executable, EVALS / "run.py", *words], capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def prepared(task, folder, *words):
    status, report = call("prepare", "--task", task, "--folder", folder, *words)
    assert status == 0, report
    return report


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_tasks_have_the_form_of_the_specification():
    assert len(TASKS) == 12 and len(set(IDS)) == 12
    assert set(SOLUTIONS) == set(IDS)
    for task in TASKS:
        assert task.keys() == {"id", "name", "prompt", "expected_output", "files", "assertions"}
        assert "BUNDLE" not in task["prompt"] and "scripts/" not in task["prompt"], "a user does not name our scripts"


def test_triggers_are_half_near_misses_and_routes_name_sub_skills():
    triggers = json.loads((EVALS / "triggers.json").read_text(encoding="utf-8"))
    assert Counter(each["should_trigger"] for each in triggers) == {True: 10, False: 10}
    assert len({each["query"] for each in triggers}) == 20
    routes = json.loads((EVALS / "routing.json").read_text(encoding="utf-8"))
    assert Counter(each["skill"] for each in routes) == {path.name: 4 for path in (ROOT / "skills").iterdir()}


@pytest.mark.parametrize("task", ["log-pretraining", "classification", "tagging", "odd-lines", "faulty-corpus", "old-script"])
def test_folders_are_the_same_each_time_and_hold_no_answer(task, tmp_path):
    sys.path.insert(0, str(EVALS))
    try:
        import fixtures
    finally:
        sys.path.remove(str(EVALS))
    report = prepared(task, tmp_path / "a")
    prepared(task, tmp_path / "b")
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    expected = next(each for each in TASKS if each["name"] == task)
    assert report["prompt"] == expected["prompt"]
    assert {path.name for path in (tmp_path / "a").iterdir()} == {name.rstrip("/") for name in expected["files"]}
    held = b"".join(path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file())
    if task == "classification":
        rows = fixtures.tickets()[1]
        assert not any(f"{text}\t{kind}".encode() in held for text, kind in rows)
    if task == "tagging":
        sentences = ["".join(f"{word} {tag}\n" for word, tag in s) for s in fixtures.sentences_to_tag()]
        fresh = [s for s in sentences if s.encode() not in held]
        assert len(fresh) > 50, "most of the sentences to tag stand in no tagged file"
    if task == "odd-lines":
        assert json.dumps(fixtures.log_to_search()[1]).encode() not in held


@pytest.mark.parametrize("task", IDS)
def test_an_empty_folder_passes_nothing(task, tmp_path):
    status, report = call("grade", "--task", task, "--folder", tmp_path)
    assert status == 1 and report["passed"] == 0 and report["of"] == len(report["assertions"])


def test_a_folder_that_is_there_is_not_written_into(tmp_path):
    status, report = call("prepare", "--task", "planning", "--folder", tmp_path)
    assert status == 2 and "already" in report["error"]


def test_with_the_skill_the_bundle_is_there_and_the_evaluations_are_not(tmp_path):
    prepared("faulty-corpus", tmp_path / "f", "--with_skill")
    bundle = tmp_path / "f" / ".agents" / "skills" / "bert-pytorch"
    assert (bundle / "SKILL.md").is_file() and (bundle / "skills" / "training" / "GUIDE.md").is_file()
    assert not (bundle / "evals").exists() and not (bundle / "tests").exists()
    assert sorted(path.name for path in (tmp_path / "f").iterdir()) == [".agents", "pairs.txt"]


@pytest.mark.parametrize("task", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in IDS])
def test_a_right_solution_passes_and_a_wrong_answer_does_not(task, tmp_path, environment):
    folder = tmp_path / "f"
    prepared(task, folder)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "answer.py").write_text(ANSWER)
    (tools / "answer").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tools}/answer.py" "$@"\n')
    (tools / "answer").chmod(0o755)
    path = f"{tools}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", SOLUTIONS[task]],
        cwd=folder,
        env={**environment, "PATH": path, **SCRIPTS},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    status, report = call("grade", "--task", task, "--folder", folder)
    assert status == 0, report["assertions"]
    spoil(task, folder)
    status, report = call("grade", "--task", task, "--folder", folder)
    assert status == 1 and report["passed"] < report["of"]


def spoil(task, folder):
    """Make of right work plausible wrong work."""
    answer = folder / "answer.json"
    if answer.exists() and task != "old-script":
        wrong = {
            name: value * 3 if isinstance(value, int | float) else value
            for name, value in json.loads(answer.read_text()).items()
        }
        answer.write_text(json.dumps(wrong))
    elif task == "old-script":
        answer.write_text(json.dumps({**json.loads(answer.read_text()), "next_sentence_accuracy": 0.99, "cause": ""}))
    elif task == "tagging":
        (folder / "tagged.conll").write_text((folder / "tagged.conll").read_text().replace("B-LOC", "O"))
    elif task == "odd-lines":
        (folder / "suspicious.txt").write_text("".join(f"{i}\n" for i in range(1, 25)))
    elif task == "export":
        shutil.rmtree(folder / "hub")
    else:
        (folder / "nearest.json").write_text("[1, 1, 1, 1, 1]")
