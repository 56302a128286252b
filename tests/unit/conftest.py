"""What all unit tests share: one thread, so that sums have one order; and the examples as fixtures."""

import json

import hypothesis
import pytest
import torch

from .examples import load_script, make_batches, make_trainer, read_part

# The same inputs at each run; and a machine that others use too is no fault of a test.
CALM = [hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture]
hypothesis.settings.register_profile("calm", deadline=None, derandomize=True, suppress_health_check=CALM)
hypothesis.settings.load_profile("calm")


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def fixed_global_seed():
    torch.manual_seed(1234)


@pytest.fixture
def trained():
    trainer = make_trainer(make_batches(3))
    trainer.train(0)
    return trainer


@pytest.fixture
def saved(trained, tmp_path):
    return trained.save(0, str(tmp_path / "model"))


@pytest.fixture
def make_pairs(tmp_path, capsys):
    """Runs the script in this process on a file of these bytes; gives the closing JSON, and its pairs when it ended well."""
    script = load_script("data-preparation", "make_pairs")

    def run(content, *flags, name="input.txt"):
        paths = [str(tmp_path / name)]
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        for old in tmp_path.glob("out*"):
            old.unlink()
        capsys.readouterr()
        try:
            status = script.main(["--input", *paths, "--output", str(tmp_path / "out"), *flags])
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        report = json.loads(out.splitlines()[-1])
        assert (status == 0) is report["ok"]
        assert len(out) <= 2000 + len(out.splitlines()[-1])
        assert out.isascii()
        assert "Traceback" not in err
        report["status"], report["warnings"] = status, err
        if report["ok"]:
            report["by_part"] = {name: read_part(path, "--single" in flags) for name, path in report["outputs"].items()}
            report["lines_made"] = [line for lines in report["by_part"].values() for line in lines]
            assert report["pairs"] == len(report["lines_made"])
        else:
            assert not list(tmp_path.glob("out*"))
            assert not list(tmp_path.glob(".*"))
        return report

    return run
