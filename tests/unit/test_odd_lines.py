"""Odd lines planted in a real log stand first, as `benchmarks/odd_lines.py` prepares, trains and scores."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from .examples import ROOT, SHARED

LOG = SHARED / "hdfs_2k.log"
SCRIPT = ROOT / "benchmarks" / "odd_lines.py"


@pytest.fixture
def planting():
    spec = importlib.util.spec_from_file_location("odd_lines", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_planting_keeps_the_log_and_repeats_with_the_seed(planting):
    lines = [f"081109 203615 {i} INFO dfs.Node: block blk_{i} of size {i * 7} from /10.0.0.{i % 9} done" for i in range(97)]
    whole, planted = planting.plant(lines, 5)
    assert [line for i, line in enumerate(whole, start=1) if i not in planted] == lines
    assert sorted(planted.values()) == ["another log"] * 6 + ["foreign"] * 7 + ["shuffled"] * 7
    assert {whole[i - 1] for i in planted} & set(lines) == set()
    assert planting.plant(lines, 5) == (whole, planted)
    assert planting.plant(lines, 6) != (whole, planted)


@pytest.mark.slow
@pytest.mark.skipif(not LOG.is_file(), reason="needs hdfs_2k.log")
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_planted_lines_are_among_the_first_forty(seed, tmp_path):
    pytest.importorskip("drain3")
    words = [sys.executable, SCRIPT, "--log", LOG, "--seeds", seed, "--output", tmp_path / "odd"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=1800)
    report = json.loads(done.stdout.splitlines()[-1])
    assert {name: run["worst"] for name, run in report["runs"].items() if run["worst"] > 40} == {}
    assert all(run["training_cpu_minutes"] < 10 for run in report["runs"].values())
    assert all(sum(map(len, run["ranks"].values())) == 20 for run in report["runs"].values())
    assert done.returncode == 0
    assert f"| {seed} | without them |" in Path(tmp_path / "odd.md").read_text()
