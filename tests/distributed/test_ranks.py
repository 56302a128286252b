"""Several processes under torchrun are one process with the same batch."""

import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from bert_pytorch.trainer.checkpoint import load_checkpoint

from ..unit.examples import SOURCE, load_script, same_tensors, write_pairs
from .ranks import PAIRS

ROOT = Path(__file__).resolve().parents[2]
PLAN = {"max_steps": 20, "eval_strategy": "steps", "eval_steps": 5, "save_strategy": "steps", "save_steps": 10}
KINDS = {
    "plain": {},
    "accumulated": {"settings": {**PLAN, "gradient_accumulation_steps": 2}},
    "packed": {"packing": True},
    "masked words alone": {"objective": "mlm", "count": True},
    "a loss of one's own": {"nan_word": "<unk>"},
    "in parts": {"batch_size": 8, "settings": {**PLAN, "tokens_per_part": 26}},
    "full": {"settings": {**PLAN, "sharding": "full", "tokens_per_part": 26}, "batch_size": 8, "count": True},
    "full, blocks computed again": {"settings": {**PLAN, "sharding": "full", "gradient_checkpointing": True}},
    "grad": {"settings": {**PLAN, "sharding": "grad", "ddp_timeout": 60}},
    **{f"zero {stage}": {"deepspeed": {"zero_optimization": {"stage": stage}}} for stage in (1, 2, 3)},
}
if find_spec("deepspeed") is None:
    KINDS = {name: kind for name, kind in KINDS.items() if "deepspeed" not in kind}


def launch(n, runs, folder, *, options=(), timeout=240, meanwhile=None):
    """Run a plan with torchrun, or by one process; its exit status and stderr. `meanwhile` gets the process."""
    plan = folder / f"plan-{time.monotonic_ns()}.json"
    plan.write_text(json.dumps({"corpus": str(write_pairs(folder / "corpus.txt", PAIRS)), "runs": runs}))
    how = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={n}", *options] if n > 1 else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, *how, "-m", "tests.distributed.ranks", str(plan)]
    err = plan.with_suffix(".err")
    with err.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=file)
        try:
            if meanwhile is not None:
                meanwhile(process)
            status = process.wait(timeout)
        finally:
            process.kill()
            process.wait()
    return status, err.read_text()


def succeed(n, runs, folder, **options):
    """`launch` that must end well; its stderr."""
    status, err = launch(n, runs, folder, **options)
    assert status == 0, err[-3000:]
    return err


def runs_in(folder, names):
    (folder).mkdir(parents=True, exist_ok=True)
    return [{"settings": PLAN, **KINDS[name], "folder": str(folder / name)} for name in names]


def figures(folder, name):
    return json.loads((folder / name / "figures.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def trained(folder):
    """Every kind of run, by 1, 2 and 4 processes."""
    for n in (1, 2, 4):
        succeed(n, runs_in(folder / str(n), KINDS), folder)
    return folder


def assert_same_curve(one, other):
    assert len(one) == len(other) > 20
    for left, right in zip(one, other, strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            assert math.isclose(value, right[name], rel_tol=1e-5, abs_tol=1e-5), (left, right)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", KINDS)
def test_losses_and_figures_are_those_of_one_process(trained, name, n):
    """21 pairs, so that the last batch leaves some processes without a row."""
    alone, together = figures(trained / "1", name), figures(trained / str(n), name)
    assert together["world"] == n
    assert_same_curve(alone["logs"], together["logs"])
    figures_there = {"eval_loss", "eval_n_targets", "eval_n", "eval_unigram_loss", "real_tokens"} & set(alone["report"])
    assert len(figures_there) >= 4
    for figure in figures_there:
        assert together["report"][figure] == pytest.approx(alone["report"][figure], rel=1e-5)


@pytest.mark.parametrize("n", [2, 4])
def test_sharding_leaves_each_process_its_part_of_the_moments(trained, n):
    whole = figures(trained / "1", "plain")["moments"]
    assert figures(trained / str(n), "plain")["moments"] == whole * n
    for name in ("full", "grad"):
        parts = figures(trained / str(n), name)["moments"]
        # Rows that cannot be parted evenly make some parts larger.
        assert sum(parts) == whole[0]
        assert max(parts) < 1.25 * whole[0] / n


def test_one_process_writes_and_what_it_writes_is_whole(trained):
    assert sorted(path.name for path in (trained / "2" / "plain").iterdir() if path.is_dir()) == [
        "checkpoint-10",
        "checkpoint-20",
    ]
    one, two, full = (
        load_checkpoint(trained / n / name / "checkpoint-20") for n, name in (("1", "plain"), ("2", "plain"), ("2", "grad"))
    )
    for other in (two, full):
        assert other["model"].keys() == one["model"].keys()
        for name, value in one["model"].items():
            assert other["model"][name].shape == value.shape
            assert float((other["model"][name] - value).abs().max()) < 1e-4


@pytest.mark.parametrize("name", ["plain", "full"])
@pytest.mark.parametrize("n", [1, 3, 4])
def test_a_checkpoint_of_two_goes_on_with_any_number(trained, tmp_path, name, n):
    run = runs_in(tmp_path, [name])[0]
    run["settings"] = {**run["settings"], "resume_from_checkpoint": str(trained / "2" / name / "checkpoint-10")}
    if n == 1:
        run["settings"].pop("sharding", None)
    succeed(n, [run], tmp_path)
    after = [entry for entry in figures(trained / "2", name)["logs"] if entry["step"] > 10]
    assert_same_curve_after(after, figures(tmp_path, name)["logs"])


def test_parts_become_one_file_by_a_command(trained, tmp_path, capsys):
    def consolidate(*arguments):
        status = load_script("training", "consolidate").main([*map(str, arguments), "--json"])
        return status, json.loads(capsys.readouterr().out)

    folder, file = trained / "4" / "full" / "checkpoint-10", tmp_path / "one"
    status, report = consolidate(folder, "-o", file)
    assert (status, report["parts"], report["step"]) == (0, 4, 10)
    assert same_tensors(load_checkpoint(file)["optimizer"], load_checkpoint(folder)["optimizer"])
    run = runs_in(tmp_path, ["full"])[0]
    run["settings"] = {**run["settings"], "resume_from_checkpoint": str(file)}
    succeed(1, [run], tmp_path)
    after = [entry for entry in figures(trained / "4", "full")["logs"] if entry["step"] > 10]
    assert_same_curve_after(after, figures(tmp_path, "full")["logs"])
    status, report = consolidate(folder, "-o", file)
    assert (status, report["error"].endswith("[E-USAGE]")) == (2, True)
    status, report = consolidate(folder.parent, "-o", tmp_path / "other")
    assert (status, "checkpoint-10, checkpoint-20" in report["error"]) == (1, True)


def assert_same_curve_after(one, other):
    assert [entry["step"] for entry in one] == [entry["step"] for entry in other]
    for left, right in zip(one, other, strict=True):
        for name, value in left.items():
            assert math.isclose(value, right[name], rel_tol=1e-5, abs_tol=1e-5), (left, right)


def test_a_killed_process_is_begun_anew_and_nothing_changes(trained, tmp_path):
    """Dropout too: each process goes on with its own draws."""
    plan = {**PLAN, "save_steps": 3}
    whole, killed = ({"settings": plan, "dropout": 0.3, "folder": str(tmp_path / name)} for name in ("whole", "killed"))
    succeed(2, [whole], tmp_path)
    succeed(2, [{**killed, "kill": [1, 8]}], tmp_path, options=["--max_restarts=3"])
    states = [load_checkpoint(tmp_path / name / "checkpoint-20") for name in ("whole", "killed")]
    assert same_tensors(states[0]["model"], states[1]["model"])
    assert same_tensors(states[0]["optimizer"], states[1]["optimizer"])


def test_a_process_killed_while_its_parts_are_written_leaves_no_half_checkpoint(tmp_path):
    plan = {**PLAN, "save_steps": 4, "sharding": "full"}
    whole, killed = ({"settings": plan, "dropout": 0.3, "folder": str(tmp_path / name)} for name in ("whole", "killed"))
    succeed(2, [whole], tmp_path)
    err = succeed(2, [{**killed, "kill_save": [1, 3]}], tmp_path, options=["--max_restarts=3"])
    # The third save was that of step 12, which was lost, so that steps 9 to 12 were done twice.
    assert [len(re.findall(rf"^step {step}/", err, re.M)) for step in (8, 9, 12, 20)] == [1, 2, 2, 1]
    states = [load_checkpoint(tmp_path / name / "checkpoint-20") for name in ("whole", "killed")]
    assert same_tensors(states[0]["model"], states[1]["model"])
    assert same_tensors(states[0]["optimizer"], states[1]["optimizer"])


def workers(launcher):
    """Numbers of the processes that a launcher has started and that are training."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            is_worker = b"tests.distributed.ranks" in (path / "cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if parent == launcher and is_worker:
            found.append(int(path.name))
    return sorted(found)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found in /proc")
@pytest.mark.parametrize("sharding", [None, "full"])
@pytest.mark.parametrize("seed", range(4))
def test_kills_at_random_moments_change_nothing(tmp_path, seed, sharding):
    draw = random.Random(f"{seed} {sharding}")
    plan = {**PLAN, "max_steps": 300, "eval_steps": 100, "save_steps": 3, "save_total_limit": 2, "sharding": sharding}
    whole, killed = ({"settings": plan, "dropout": 0.3, "folder": str(tmp_path / name)} for name in ("whole", "killed"))
    succeed(2, [whole], tmp_path)
    n_killed = 0

    def kill_some(process):
        nonlocal n_killed
        while process.poll() is None and n_killed < 3:
            log = tmp_path / "killed" / "log.jsonl"
            n_before = len(log.read_text().splitlines()) if log.exists() else 0
            time.sleep(draw.uniform(0.0, 1.0))
            if log.exists() and len(log.read_text().splitlines()) > n_before + 3 and (found := workers(process.pid)):
                os.kill(draw.choice(found), signal.SIGKILL)
                n_killed += 1

    succeed(2, [killed], tmp_path, options=["--max_restarts=3"], meanwhile=kill_some)
    assert n_killed >= 1
    states = [load_checkpoint(tmp_path / name / "checkpoint-300") for name in ("whole", "killed")]
    assert same_tensors(states[0]["model"], states[1]["model"])
    assert same_tensors(states[0]["optimizer"], states[1]["optimizer"])


def test_one_process_that_fails_stops_all_and_says_why(tmp_path):
    began = time.monotonic()
    status, err = launch(2, [{"settings": PLAN, "folder": str(tmp_path / "run"), "fail": [1, 4]}], tmp_path)
    assert status == 1
    assert "rank 1: callback Watch.on_step_end: ValueError: no luck" in err
    assert time.monotonic() - began < 60


def test_a_signal_to_one_process_stops_all_of_them_saved(tmp_path):
    run = {"settings": PLAN, "folder": str(tmp_path / "run"), "dropout": 0.3}
    status, err = launch(2, [{**run, "interrupt": [1, 7]}], tmp_path)
    assert status == 1
    # torchrun ends the other as soon as one has ended.
    assert re.search(rf"rank [01]: stopped by signal {int(signal.SIGTERM)} after step 7: saved as", err)
    run["settings"] = {**PLAN, "resume_from_checkpoint": "last"}
    succeed(2, [run, {"settings": PLAN, "folder": str(tmp_path / "whole"), "dropout": 0.3}], tmp_path)
    states = [load_checkpoint(tmp_path / name / "checkpoint-20")["model"] for name in ("whole", "run")]
    assert same_tensors(*states)


def test_bad_lines_are_named_whichever_process_had_them(tmp_path):
    named = []
    for n in (1, 2):
        settings = {**PLAN, "max_steps": 6}
        launch(n, [{"settings": settings, "folder": str(tmp_path / str(n)), "nan_word": "a7"}], tmp_path)
        said = json.loads((tmp_path / str(n) / "report.json").read_text())["warnings"]
        named.append(
            [re.findall(r"^step (\d+): .* skipped: pass 0, (batch \d+), \S+ (lines? [\d, ]+);", each) for each in said]
        )
    assert named[0] == named[1]
    assert sum(map(len, named[0])) >= 1
