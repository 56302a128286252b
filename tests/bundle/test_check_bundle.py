"""Each rule of `scripts/check_bundle.py` sees the fault that is planted in a copy of the bundle, where it is, and no other."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from bundle_rules import commands, versions
from bundle_rules.bundle import Bundle
from bundle_rules.rules import RULES, VERSIONS

SAID = (
    "description: Pretrain a BERT on a corpus of pairs with the bert command or BERTTrainer, on CPU or CUDA, evaluate it on"
    " held-out text, save, reload and resume it. Use for"
)
LONG = "very long words " * 20
ROOT, TRAINING, TUNING = "SKILL.md", "skills/training/SKILL.md", "skills/fine-tuning/SKILL.md"
TROUBLE, SOURCE = "references/troubleshooting.md", "src/bert_pytorch/errors.py"
TESTED = "references/tested-versions.yaml"
END = None
"""Of a file: what is planted is added there."""
RECIPE = "- [references/recipe.md](references/recipe.md): when choosing an architecture.\n"
ROUTE = (
    "| label, class, entity, question, Transformers Trainer, hyperparameter | [fine-tuning](skills/fine-tuning/SKILL.md) |\n"
)

# Rule, file, what stands there, what is put in its place, and the lines at which faults are expected, by their text or number.
PLANTS = [
    ("front-matter", ROOT, "license: Apache-2.0\n", "license: Apache-2.0\nauthor: me\n", ["author: me"]),
    ("front-matter", TRAINING, "name: training\n", "name: trainer\n", ["name: trainer"]),
    ("front-matter", TRAINING, "invocation: true", "invocation: false", ["disable-model-invocation: false"]),
    ("front-matter", TRAINING, "  disco-role: operating", "  disco-role: other", ["metadata:"]),
    ("front-matter", TRAINING, "description: Pretrain", "description: Pretrain: this", [1]),
    ("front-matter", TRAINING, "---\nname: training\n", "name: training\n", [1]),
    ("budgets", "skills/data-preparation/SKILL.md", "description: Turn", f"description: {LONG} Turn", [3, (3, ROOT)]),
    ("budgets", TRAINING, SAID, "description: Use for", [3]),
    ("budgets", ROOT, END, "x" * 3200 + "\n", ["---\n\n"]),
    ("budgets", TRAINING, END, "x" * 2000 + "\n", ["---\n\n"]),
    ("budgets", "references/provenance.md", END, "x" * 4000 + "\n", [1]),
    ("sections", TRAINING, "## Outputs\n", "## Output\n", ["## Use when"]),
    ("sections", TRAINING, ": when planning a real run", ": a real run", ["a real run."]),
    ("sections", TRAINING, RECIPE, "", ["## Read next"]),
    ("routes", ROOT, ROUTE, "", ["| noun | go to |"]),
    ("routes", ROOT, ROUTE, f"{ROUTE}| plan | [fit](skills/training/references/fit.md) |\n", ["| plan |"]),
    ("routes", ROOT, "Tie-break:", "Else:", ["| noun | go to |"]),
    ("routes", TUNING, "- All else: [../../SKILL.md](../../SKILL.md).\n", "", ["---\n\n"]),
    ("links", "README.md", "[data preparation](skills/data-preparation/", "[it](skills/data/", ["skills/data/"]),
    ("links", ROOT, "[provenance](references/provenance.md)", "[it](references/provenance.md#none)", ["#none"]),
    ("links", TROUBLE, END, "[out](../../other.md)\n", ["[out]"]),
    ("files-named", TROUBLE, "BUNDLE/scripts/check_install.py", "BUNDLE/scripts/check_installed.py", ["check_installed"]),
    ("files-named", "references/api-reference.md", "references/fit.md", "references/fits.md", ["fits.md"]),
    ("files-named", TUNING, "`assets/search.yaml`", "`assets/find.yaml`, search.yaml", ["assets/find"]),
    ("reachable", "references/new.md", END, "# New\n", [1]),
    ("reachable", "skills/training/assets/launch/new.json", END, "{}\n", [1]),
    ("reachable", "scripts/bundle_rules/unused.py", END, '"""Nothing."""\n', [1]),
    ("reachable", ROOT, "[scripts/check_bundle.py](scripts/check_bundle.py)", "[more](references/maintaining.md)", [1]),
    ("machine-paths", TROUBLE, END, "See /home/me/notes.\n", ["/home/me"]),
    ("machine-paths", TROUBLE, END, "See ~/notes.\n", ["~/notes"]),
    ("machine-paths", TROUBLE, END, "See C:\\notes.\n", ["C:\\notes"]),
    ("machine-paths", SOURCE, END, "# /tmp/x\n", ["# /tmp/x"]),
    ("machine-paths", ROOT, "python BUNDLE/scripts/check_install", "python scripts/check_install", ["python scripts/"]),
    ("flags", ROOT, "train_smoke.py --device cpu", "train_smoke.py --devise cpu", ["--devise"]),
    ("flags", "README.md", "-hs 128", "-hz 128", ["-hz"]),
    ("flags", "README.md", "bert-vocab -c train.txt -o vocab.json -m 2", "bert-vocab -c train.txt -o v --lr 2", ["--lr 2"]),
    ("flags", TRAINING, "`--objective mlm+nsp`", "`--objektive mlm+nsp`", ["--objektive"]),
    ("flags", TROUBLE, END, "```bash\nbert -c a \\\n  --corpse b\n```\n", ["bert -c a"]),
    ("codes", TROUBLE, END, "See `E-NOTHING-HERE`.\n", ["E-NOTHING"]),
    ("codes", TROUBLE, END, "See `E-CORPSE-...`.\n", ["E-CORPSE"]),
    ("codes", "skills/training/references/troubleshooting.md", END, "## E-USAGE\n", ["## E-USAGE"]),
    ("codes", SOURCE, END, "# [E-NEW-ONE]\n", ["# [E-NEW"]),
    ("never-called", SOURCE, END, 'input("which? ")\n', ["input("]),
    ("never-called", SOURCE, END, 'eval("1")\n', ["eval("]),
    ("never-called", SOURCE, END, 'exec("1")\n', ["exec("]),
    ("encodings", SOURCE, END, 'open("a")\n', ['open("a")']),
    ("encodings", SOURCE, END, 'open("a", "rb")\nopen("b", mode="w")\n', ['open("b"']),
    ("encodings", SOURCE, END, 'Path("a").open()\nPath("a").open("rb")\nos.open("c", 0)\n', ['Path("a").open()']),
    ("encodings", SOURCE, END, 'Path("a").read_text()\nPath("b").read_text("utf-8")\n', ['Path("a")']),
    ("encodings", SOURCE, END, 'Path("a").write_text("x")\n', ['Path("a")']),
    ("encodings", SOURCE, END, "subprocess.run([], text=True)\nsubprocess.run([])\n", ["subprocess.run([], text"]),
    ("encodings", SOURCE, END, 'os.fdopen(3)\nNamedTemporaryFile()\nNamedTemporaryFile("w")\n', ["os.fdopen", 'File("w")']),
    ("tested-versions", TESTED, "date: 2026-12-03}\ntorch", "day: 2026-12-03}\ntorch", ["python:"]),
    ("tested-versions", TESTED, 'torch: {lowest: "', 'torch: {lowest: "99.', ["torch:"]),
    ("tested-versions", TESTED, "# What the tests", "]: [", [1]),
]  # fmt: skip


@pytest.fixture(scope="session")
def answers(bundle):
    """How the commands of the bundle answer; where nothing is planted in a script, they need not be asked again."""
    return commands.answers(Bundle(bundle))


@pytest.fixture
def copy(bundle, tmp_path):
    return shutil.copytree(bundle, tmp_path / "bert-pytorch")


def plant(path, old, new):
    if old is END:
        path.write_text((path.read_text(encoding="utf-8") if path.exists() else "") + new, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def faults_of(folder):
    bundle = Bundle(folder)
    return [(rule.name, fault) for rule in RULES for fault in rule.faults(bundle)]


def place(folder, name, at):
    """Where a fault is expected: `file:line`."""
    if isinstance(at, tuple):
        at, name = at
    if isinstance(at, int):
        return f"{name}:{at}"
    text = (folder / name).read_text(encoding="utf-8")
    # The body of a skill begins after its front matter's second line of dashes.
    return f"{name}:{text.count(chr(10), 0, text.rindex(at)) + (2 if at == chr(45) * 3 + chr(10) * 2 else 1)}"


@pytest.mark.parametrize(("rule", "name", "old", "new", "at"), PLANTS)
def test_a_planted_fault_is_seen_where_it_is(rule, name, old, new, at, copy, answers, monkeypatch):
    monkeypatch.setattr(commands, "answers", lambda _: answers)
    plant(copy / name, old, new)
    found = faults_of(copy)
    assert [(which, fault.where) for which, fault in found] == [(rule, place(copy, name, each)) for each in at]
    assert all(fault.what and fault.cure and str(fault).isprintable() for _, fault in found)


HELPLESS = {
    "import torch\n": "No module named 'torch'",
    "print('hello')\n": "does not begin with 'usage: '",
    "sys.exit(5)\n": "ends with status 5",
    "Parser.epilog = 'x ' * 9\nParser.format_help = lambda self: 'usage: ' + 'x\\n' * 50\n": "50 lines, at most 45",
}


@pytest.mark.parametrize("line", HELPLESS)
def test_a_script_that_does_not_answer_is_seen(line, copy):
    name = "skills/training/scripts/train_smoke.py"
    plant(
        copy / name,
        "\nfrom bert_pytorch.command import",
        f"\nfrom bert_pytorch.command import Parser\n{line}from bert_pytorch.command import",
    )
    (fault,) = faults_of(copy)
    assert (fault[0], fault[1].where) == ("help", f"{name}:1")
    assert HELPLESS[line] in fault[1].what


def test_every_rule_has_a_planted_fault():
    assert {rule.name for rule in RULES} == {"help", *(plant[0] for plant in PLANTS)}


@pytest.mark.parametrize(
    ("version", "is_fault"),
    [("2.13.0", False), ("2.13.0+cpu", False), ("2.13.0.0", True), ("2.14.0rc1", True), ("2.9.1", True), (None, False)],
)
def test_a_package_outside_its_range_is_seen(version, is_fault, copy, monkeypatch):
    (copy / TESTED).write_text('torch: {lowest: "2.13.0", highest: "2.13.0", date: 2026-12-02}\n')
    monkeypatch.setattr(versions, "installed", lambda package: version)
    faults = [str(fault) for fault in VERSIONS.faults(Bundle(copy))]
    wanted = (
        f"{TESTED}:1: torch {version} is installed, tested were 2.13.0 to 2.13.0; run the tests, and if they pass widen the row"
    )
    assert [fault.partition(" and its date")[0] for fault in faults] == ([wanted] if is_fault else [])


def test_what_is_installed_is_asked_for():
    assert versions.installed("python") == ".".join(map(str, sys.version_info[:3]))
    assert versions.release(versions.installed("torch")) >= (2, 6)
    assert versions.installed("no-such-package") is None


def run(folder, *flags):
    script = folder / "scripts" / "check_bundle.py"
    return subprocess.run([sys.executable, script, *flags], cwd="/", capture_output=True, text=True, encoding="utf-8")


def test_the_script_checks_the_bundle_it_stands_in(copy):
    done = run(copy)
    assert (done.returncode, done.stderr) == (0, "")
    *table, last = done.stdout.splitlines()
    assert json.loads(last) == {"ok": True, "bundle": str(copy), "n_faults": 0, "faults": []}
    assert [line.split()[0] for line in table] == ["rule", *(rule.name for rule in RULES)]
    assert all(int(line.split()[1]) > 0 and line.split()[2] == "0" for line in table[1:])


def test_an_installed_copy_keeps_the_rules_too(bundle, tmp_path):
    script = bundle / "scripts" / "install_skill.py"
    flags = ("--client", "agents", "--scope", "project", "--project", tmp_path)
    assert subprocess.run([sys.executable, script, *flags], capture_output=True).returncode == 0
    done = run(tmp_path / ".agents" / "skills" / "bert-pytorch")
    assert (done.returncode, done.stderr) == (0, "")


def test_faults_are_1_and_stdout_stays_short(bundle, copy):
    plant(copy / TROUBLE, END, "".join(f"See `E-NOTHING-{i}` and /home/{i}/x.\n" for i in range(40)))
    done = run(bundle, "--bundle", copy)
    report = json.loads(done.stdout.splitlines()[-1])
    assert (done.returncode, report["ok"], report["n_faults"], len(report["faults"])) == (1, False, 80, 5)
    assert len(done.stdout) <= 2000
    assert len(done.stderr.splitlines()) == 80
    number = len((copy / TROUBLE).read_text(encoding="utf-8").splitlines()) - 39
    assert report["faults"][0] == {
        "rule": "machine-paths",
        "where": f"{TROUBLE}:{number}",
        "what": "an absolute or home path: /home/",
        "do": "take a relative path, BUNDLE or a flag",
    }
    done = run(bundle, "--bundle", copy, "--show", "0", "--json")
    assert len(json.loads(done.stdout)["faults"]) == 80


def test_a_folder_that_is_no_bundle_is_wrong_usage(bundle, tmp_path):
    done = run(bundle, "--bundle", tmp_path / "none")
    assert done.returncode == 2
    assert "expected a folder with a SKILL.md" in json.loads(done.stdout)["error"]
