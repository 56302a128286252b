"""What all unit tests share: one thread, so that sums have one order; and the examples as fixtures."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def fixed_global_seed():
    torch.manual_seed(1234)
