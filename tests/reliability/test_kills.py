"""Training killed without warning at random moments: it goes on, and ends with the weights of the unbroken run."""

import json
import os
import tempfile
from pathlib import Path

import pytest

from ..unit.examples import start_python

SERVER = Path(__file__).with_name("kill_server.py")
MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the harness forks")
def test_three_hundred_kills_cost_nothing():
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        process = start_python(SERVER, folder, 300, 7, folder=folder)
        out, err = process.communicate(timeout=900)
        errors = Path(folder, "errors")
        assert process.returncode == 0, err[-3000:] + (errors.read_text()[-3000:] if errors.exists() else "")
    found = json.loads(out.splitlines()[-1])
    assert found["wrong"] == 0
    assert found["kills"] >= 300
    assert found["inside"] >= 60
    assert found["runs"] >= 10
