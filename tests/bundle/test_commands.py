"""Every command and every Python example in README, SKILL.md and references is run, on a copy of the bundle."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest

from .conftest import ROOT
from .test_documents import DOCUMENTS

LEFT_TO_CI = re.compile(r"python3? -m (pip|venv|pytest)\b|\. \.venv/bin/activate")
"""Steps that need a network or a new environment, and this very test run; `.ci/run` takes them."""
ALREADY_RUN: set[str] = set()


def blocks(path):
    """The fenced blocks of a document in order, as (language, text)."""
    return re.findall(r"^```(bash|python)\n(.*?)^```$", (ROOT / path).read_text(encoding="utf-8"), re.M | re.S)


def commands_of(language, block):
    """The steps of a block that are run here, one by one; a loop or a Python example is one step."""
    if language == "python":
        return [f"python - <<'END'\n{block}END"]
    is_loop = "; do" in block
    lines = [block] if is_loop else block.replace("\\\n", " ").splitlines()
    steps = [step.strip() for line in lines for step in ([line] if is_loop else re.split(r" && (?=python|\.)", line))]
    return [step for step in steps if step and not LEFT_TO_CI.match(step)]


@pytest.fixture
def workspace(bundle, tmp_path, shell):
    """A folder with the files that the documents name, in the user's place."""
    maker = bundle / "scripts" / "make_tiny_corpus.py"
    assert shell(f"python {maker} --pairs 300 --output train.txt", tmp_path).returncode == 0
    assert shell(f"python {maker} --pairs 40 --seed 1 --output held_out.txt", tmp_path).returncode == 0
    assert shell("bert-vocab -c train.txt -o vocab.json", tmp_path).returncode == 0
    sentences = (tmp_path / "train.txt").read_text().replace("\t", "\n").splitlines()
    documents = "\n\n".join("\n".join(sentences[i : i + 5]) for i in range(0, 500, 5))
    for name in ("documents.txt", "prose.txt"):
        (tmp_path / name).write_text(documents + "\n")
    log = [
        f"081109 2036{i % 60:02} 148 INFO dfs.DataNode: Receiving block blk_{i * 37} src: /10.250.1.{i}:5{i}"
        for i in range(500)
    ]
    (tmp_path / "server.log").write_text("\n".join(log) + "\n")
    (tmp_path / "sequences.txt").write_text("\n".join("MKVLAAGIVGLCAKWTREQD" * 7 for _ in range(40)) + "\n")
    if not (tmp_path / "run").exists():
        command = "bert -c train.txt -v vocab.json -o run/bert.model -hs 16 -l 1 -a 2 -s 32 -e 2"
        assert shell(command, tmp_path).returncode == 0
    return tmp_path


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path)], ids=str)
def test_the_commands_of_a_document_run(path, bundle, workspace, shell):
    (workspace / "scripts").symlink_to(bundle / "scripts")
    (workspace / "skills").symlink_to(bundle / "skills")
    n_steps = 0
    for language, block in blocks(path):
        for step in commands_of(language, block):
            n_steps += 1
            # Several documents begin with the same proof, which takes half a minute: each command is run once a session.
            key = step.replace("BUNDLE/", "")
            if key in ALREADY_RUN:
                continue
            done = shell(step.replace("BUNDLE", str(bundle)), workspace)
            assert done.returncode == 0, f"{step}\n{done.stdout}\n{done.stderr}"
            ALREADY_RUN.add(key)
    assert n_steps > 0


def test_the_ci_runs_the_readmes_test_command():
    tests = [block for language, block in blocks("README.md") if "pytest" in block]
    assert len(tests) == 1
    steps = tests[0].strip().split(" && ", 2)
    assert steps[:2] == ["python3 -m venv .venv", ". .venv/bin/activate"]
    assert steps[2] in (ROOT / ".ci" / "run").read_text().splitlines()


def test_recipes_give_pairs_within_documents(bundle, workspace, shell):
    recipe = [block for language, block in blocks("skills/data-preparation/references/workflow.md") if "part in" in block]
    assert len(recipe) == 1
    (workspace / "train_documents.txt").write_text("a 1\na 2\na\t3\n\nb 1\n\n\nc 1\nc 2\n")
    (workspace / "held_out_documents.txt").write_text("d 1\nd 2\n")
    assert shell(recipe[0], workspace).returncode == 0
    assert (workspace / "train.txt").read_text() == "a 1\ta 2\na 2\ta 3\nc 1\tc 2\n"
    assert (workspace / "held_out.txt").read_text() == "d 1\td 2\n"


def test_log_recipe_masks_what_varies(workspace, shell):
    recipe = next(block for _, block in blocks("skills/data-preparation/references/workflow.md") if "server.log" in block)
    assert shell(recipe, workspace).returncode == 0
    lines = (workspace / "documents.txt").read_text().splitlines()
    events = [line for line in lines if line]
    assert len(events) == 500
    assert len(lines) == 524
    assert {event.strip() for event in events} == {"INFO dfs . DataNode : Receiving block BLOCK src : / ADDRESS"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_documents_name_no_machine():
    for path in DOCUMENTS:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not re.search(r"(?<![\w.])/(home|root|work|tmp|Users)/", text), path


def test_closing_line_of_the_quick_start_is_ok(bundle, tmp_path, environment):
    script = bundle / "scripts" / "check_install.py"
    done = subprocess.run([sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert json.loads(done.stdout.splitlines()[-1])["ok"] is True
