"""Dropout on the CPU, beside torch's own."""

import pytest
import torch

from bert_pytorch.model.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.93, 1e-9, 1 - 1e-9])
@pytest.mark.parametrize("shape", [(), (1,), (7, 3), (200, 0), (300, 401)])
def test_so_many_are_zeroed_each_by_its_own_draw_and_the_others_scaled(p, shape):
    torch.manual_seed(3)
    x = torch.randn(shape, dtype=torch.float64)
    y = dropout(x, p)
    n_zeroed = min(max(round(p * 65536), 1), 65535)
    kept = y != 0
    assert torch.equal(y[kept], (x * (65536 / (65536 - n_zeroed)))[kept])
    if x.numel() > 10_000:
        share, spread = n_zeroed / 65536, (p * (1 - p)) ** 0.5
        assert abs((~kept).double().mean() - share) < 5 * spread / x.numel() ** 0.5 + 1e-4
        for step in range(1, 6):
            together = (kept[:, step:] & kept[:, :-step]).double().mean()
            assert abs(together - (1 - share) ** 2) < 5 * spread / x.numel() ** 0.5 + 1e-4


def test_of_none_or_all_torch_decides():
    x = torch.randn(5, 3)
    assert torch.equal(dropout(x, 0.0), x)
    assert torch.equal(dropout(x, 1.0), torch.zeros_like(x))
    with pytest.raises(ValueError, match="between 0 and 1"):
        dropout(x, 1.5)
    assert torch.equal(Dropout(0.5).eval()(x), x)


def test_the_same_state_of_the_generator_gives_the_same_and_moves_on():
    x, module = torch.ones(50, 50), Dropout(0.5)
    torch.manual_seed(1)
    first, second = module(x), module(x)
    torch.manual_seed(1)
    assert torch.equal(module(x), first)
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_gradients_pass_where_values_do(dtype):
    x = torch.randn(40, 30, dtype=dtype, requires_grad=True)
    y = dropout(x, 0.25)
    upstream = torch.randn(40, 30, dtype=dtype)
    y.backward(upstream)
    assert y.dtype == x.grad.dtype == dtype
    assert torch.equal(x.grad, torch.where(y == 0, 0.0, upstream * (4 / 3)))


def test_gradients_are_those_of_the_function():
    def fixed(x):
        torch.manual_seed(5)
        return dropout(x, 0.3)

    assert torch.autograd.gradcheck(fixed, torch.randn(6, 7, dtype=torch.float64, requires_grad=True))


@pytest.mark.parametrize("p", [0.0, 0.4])
def test_onto_a_residual_it_is_their_sum(p):
    x, residual = (torch.randn(6, 7, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def fixed(*inputs):
        torch.manual_seed(5)
        return dropout(inputs[0], p, inputs[1])

    torch.manual_seed(5)
    assert torch.allclose(dropout(x, p) + residual, fixed(x, residual), rtol=1e-15)
    assert torch.autograd.gradcheck(fixed, (x, residual))
