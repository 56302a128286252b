"""Twenty losses of a small run, written down once: data, draws, weights, step and schedule are what they were."""

import pytest

from ..unit.runs import history, start

LOSSES = [
    4.37032,
    4.37067,
    4.12083,
    4.23388,
    4.03797,
    4.18770,
    3.75128,
    3.84254,
    4.15728,
    4.19448,
    3.58159,
    4.74004,
    3.53773,
    3.44765,
    3.28677,
    3.17803,
    4.07656,
    3.38155,
    4.28970,
    3.57152,
]


def test_losses_are_those_that_were_written_down(tmp_path):
    """Products of other machines and releases of torch differ in the last bit; a change of what is computed shows at once."""
    start(tmp_path, dropout=0.0, max_steps=20, logging_steps=1, save_strategy="no", eval_strategy="no").fit()
    assert [entry["loss"] for entry in history(tmp_path)] == pytest.approx(LOSSES, rel=1e-4)
