"""What all unit tests share: one thread, so that sums have one order; and the examples as fixtures."""

import pytest
import torch

from .examples import make_batches, make_trainer


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
