"""Every command and every Python example in README, SKILL.md and references is run, on a copy of the bundle."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import NamedTuple

import pytest
import yaml

from .conftest import ROOT
from .test_documents import BUNDLE

LEFT_TO_CI = re.compile(r"python3? -m (pip|venv|pytest)\b|\. \.venv/bin/activate")
"""Steps that need a network or a new environment, and this very test run; `.ci/run` takes them."""
ALREADY_RUN: set[str] = set()
BLOCK = re.compile(r"^(?:<!-- expect: (.+) -->\n)?```(\w*)\n(.*?)^```$", re.M | re.S)
MOST_STDOUT = 2000
SHOWN = {"text", "yaml", "json"}
"""Languages of blocks that are read, not run."""
RUN_BY = {
    "torchrun --nnodes 2": "bundle/test_launch.py",
    "accelerate launch --multi_gpu": "distributed/test_launches.py",
}
"""Command lines for several machines, indented, by the test that starts the like on this one."""


class Block(NamedTuple):
    """A fenced block; its last step ends with `status`, and the JSON at the end of its stdout has these `fields`."""

    language: str
    text: str
    status: int
    fields: dict[str, object]


def expectation(mark):
    """Status and fields of a mark such as `exit 1 ok=false code=E-USAGE`; without one, success."""
    words = mark.split() if mark else []
    status = int(words.pop(1)) if words[:1] == ["exit"] else 0
    fields = dict(word.split("=", 1) for word in words if word != "exit")
    return status, {name: yaml.safe_load(value) for name, value in fields.items()}


def fenced(path):
    """Every fenced block of a document in order."""
    found = BLOCK.findall((ROOT / path).read_text(encoding="utf-8"))
    return [Block(language, text, *expectation(mark)) for mark, language, text in found]


def blocks(path):
    """The blocks that are run."""
    return [block for block in fenced(path) if block.language in ("bash", "python")]


def commands_of(language, block):
    """The steps of a block that are run here, one by one; a loop or a Python example is one step."""
    if language == "python":
        return [f"python - <<'END'\n{block}END"]
    is_loop = "; do" in block
    lines = [block] if is_loop else block.replace("\\\n", " ").splitlines()
    steps = [step.strip() for line in lines for step in ([line] if is_loop else re.split(r" && (?=python|\.)", line))]
    return [step for step in steps if step and not LEFT_TO_CI.match(step)]


def complaints(step, done, status, fields):
    """What a finished step did not do as its document says."""
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    report = json.loads(last) if last.startswith('{"ok"') else {}
    wanted = {"ok": status == 0, **fields} if report or fields else {}
    if done.returncode != status:
        yield f"ended with {done.returncode}, expected {status}"
    for name, value in wanted.items():
        if report.get(name) != value:
            yield f"{name} is {report.get(name)!r}, expected {value!r}"
    if re.match(r"python BUNDLE/\S+\.py ", step) and len(done.stdout) > MOST_STDOUT:
        yield f"wrote {len(done.stdout)} characters on stdout, at most {MOST_STDOUT}"


@pytest.fixture
def workspace(bundle, tmp_path, shell):
    """A folder with the files that the documents name, in the user's place."""
    maker = bundle / "scripts" / "make_tiny_corpus.py"
    assert shell(f"python {maker} --pairs 300 --output train.txt", tmp_path).returncode == 0
    assert shell(f"python {maker} --pairs 40 --seed 1 --output held_out.txt", tmp_path).returncode == 0
    assert shell("bert-vocab -c train.txt -o vocab.json", tmp_path).returncode == 0
    sentences = (tmp_path / "train.txt").read_text().replace("\t", "\n").splitlines()
    rows = [f"{text}\t{int('mia' in text)}" for text in dict.fromkeys(sentences)]
    (tmp_path / "labelled.tsv").write_text("\n".join(["text\tlabel", *rows[:80]]) + "\n")
    (tmp_path / "labelled_valid.tsv").write_text("\n".join(["text\tlabel", *rows[80:120]]) + "\n")
    documents = "\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, 500, 5))
    for name in ("documents.txt", "prose.txt"):
        (tmp_path / name).write_text(documents + "\n")
    verbs = ("Deleting", "Receiving", "Receiving")
    log = [
        f"081109 2036{i % 60:02} 148 INFO dfs.DataNode: {verbs[i % 3]} block blk_{i % 50 * 37} /10.250.1.{i}:5{i}"
        for i in range(500)
    ]
    (tmp_path / "server.log").write_text("\n".join(log) + "\n")
    (tmp_path / "sequences.txt").write_text("\n".join("MKVLAAGIVGLCAKWTREQD" * 7 for _ in range(40)) + "\n")
    (tmp_path / "genome.fa").write_text("".join(f">r{i}\n{'ACGTTGCAAC' * 90}\n" for i in range(30)))
    (tmp_path / "zh.txt").write_text("\u4eca\u5929\u5f88\u597d\u3002\u6211\u4eec\u8d70\u5427\uff01\n\n" * 40, encoding="utf-8")
    (tmp_path / "listing.asm").write_text("push rbp\nsub rsp, 0x40\ncall 0x3ef\nret\n\n" * 40)
    if not (tmp_path / "run").exists():
        command = "bert -c train.txt -v vocab.json -o run/bert.model -hs 16 -l 1 -a 2 -s 32 -e 2"
        assert shell(command, tmp_path).returncode == 0
    return tmp_path


@pytest.mark.parametrize("path", [path for path in BUNDLE.documents if blocks(path)], ids=str)
def test_the_commands_of_a_document_run(path, bundle, workspace, shell):
    # The READMEs alone say that their commands are given in the bundle's folder; evaluations are no part of an installed one.
    if path.name == "README.md":
        for name, place in (("scripts", bundle), ("skills", bundle), ("evals", ROOT)):
            (workspace / name).symlink_to(place / name)
    n_steps = 0
    for block in blocks(path):
        steps = commands_of(block.language, block.text)
        for i, step in enumerate(steps):
            n_steps += 1
            # Several documents begin with the same proof, which takes half a minute: each command is run once a session.
            key = step.replace("BUNDLE/", "")
            if key in ALREADY_RUN:
                continue
            done = shell(step.replace("BUNDLE", str(bundle)), workspace)
            expected = (block.status, block.fields) if i == len(steps) - 1 else (0, {})
            assert list(complaints(step, done, *expected)) == [], f"{step}\n{done.stdout}\n{done.stderr}"
            ALREADY_RUN.add(key)
    assert n_steps > 0


def test_a_step_that_does_not_do_what_is_said_is_seen(shell, tmp_path):
    """The test of the documents can fail."""
    report = 'echo \'{"ok": false, "code": "E-USAGE"}\''
    for command, mark, n_complaints in (
        (f"{report}; exit 2", "exit 2 ok=false code=E-USAGE", 0),
        (f"{report}; exit 2", "exit 2 code=E-SAVE", 1),
        (f"{report}; exit 1", "exit 2 ok=true", 2),
        (f"{report}; exit 0", "", 1),
        ("echo done", "", 0),
        ("echo done", "ok=true", 1),
        ("exit 1", "", 1),
    ):
        done = shell(command, tmp_path)
        assert len(list(complaints(command, done, *expectation(mark)))) == n_complaints, (command, mark)
    done = shell("seq 1000", tmp_path)
    assert len(list(complaints("python BUNDLE/scripts/x.py --a", done, 0, {}))) == 1


@pytest.mark.parametrize("path", BUNDLE.documents, ids=str)
def test_every_block_is_run_or_only_read(path):
    text = (ROOT / path).read_text(encoding="utf-8")
    assert text.count("\n```") == 2 * len(fenced(path))
    assert text.count("<!-- expect") == sum(block.status != 0 or block.fields != {} for block in blocks(path))
    for block in fenced(path):
        assert block.language in ("bash", "python", *SHOWN)
        if block.language in ("yaml", "json"):
            assert yaml.safe_load(block.text)
        if block.language == "text":
            assert re.findall(r"^(?:\$ |python3? |bert |bert-vocab |from \w+ import|import )", block.text, re.M) == []
    # A command is fenced, so that it is run; but for those of several machines.
    indented = [
        line[4:] for _, kind, line in BUNDLE.steps(path) if kind == "text" and re.match(r" {4}[a-z][\w.-]* -{0,2}\w", line)
    ]
    shown = [line for line in indented if "->" not in line]
    assert [line for line in shown if not line.startswith(tuple(RUN_BY))] == []


def test_command_lines_for_several_machines_have_tests_of_their_own():
    for command, name in RUN_BY.items():
        assert command.split()[0] in (ROOT / "tests" / name).read_text(encoding="utf-8")


def test_the_ci_runs_the_readmes_test_command():
    tests = [block.text for block in blocks("README.md") if "pytest" in block.text]
    assert len(tests) == 1
    steps = tests[0].strip().split(" && ", 2)
    assert steps[:2] == ["python3 -m venv .venv", ". .venv/bin/activate"]
    assert steps[2] in (ROOT / ".ci" / "run").read_text().splitlines()


def recipe_of(word):
    """The commands of a block of the workflow that has this word."""
    found = [block.text for block in blocks("skills/data-preparation/references/workflow.md") if word in block.text]
    assert len(found) == 1
    return found[0]


def test_prose_recipe_gives_pairs_within_documents(bundle, workspace, shell):
    documents = [f"Text{i} one.\nText{i} Two\ttwo!\n  Text{i} three" for i in range(40)]
    (workspace / "prose.txt").write_text("\n\n".join(documents) + "\n")
    assert shell(recipe_of("--lowercase --split_punctuation").replace("BUNDLE", str(bundle)), workspace).returncode == 0
    lines = [line for part in ("train", "valid") for line in (workspace / f"prose.{part}.txt").read_text().splitlines()]
    expected = [pair for i in range(40) for pair in (f"text{i} one .\ttext{i} two two !", f"text{i} two two !\ttext{i} three")]
    assert sorted(lines) == sorted(expected)


def test_log_recipes_mask_what_varies_and_stay_within_sessions(bundle, workspace, shell):
    assert shell(recipe_of("server.log").replace("BUNDLE", str(bundle)), workspace).returncode == 0
    kinds = [f"<TIME> <NUM> INFO dfs.DataNode: {verb} block blk_<NUM> /<ADDRESS>" for verb in ("Receiving", "Deleting")]
    texts = {text for line in (workspace / "session.train.txt").read_text().splitlines() for text in line.split("\t")}
    assert texts == set(kinds)
    n_pairs = sum(len((workspace / f"session.{part}.txt").read_text().splitlines()) for part in ("train", "valid"))
    assert n_pairs == 50 * 9


def test_closing_line_of_the_quick_start_is_ok(bundle, tmp_path, environment):
    script = bundle / "scripts" / "check_install.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1])["ok"] is True
