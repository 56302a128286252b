"""Attention by heads, in the operations of this library and in torch's own."""

import pytest
import torch
import torch.nn.functional as F

from bert_pytorch.model import attention
from bert_pytorch.model.attention import attend
from bert_pytorch.model.rotation import rotate, rotation_of

B, L, N, H = 3, 9, 2, 4


def values(dtype=torch.float64, n_tokens=L):
    draws = torch.Generator().manual_seed(n_tokens)
    return torch.randn(B, n_tokens, 3, N, H, dtype=dtype, generator=draws).requires_grad_()


def mask_of(kind):
    draws = torch.Generator().manual_seed(3)
    keys = torch.ones(B, 1, 1, L, dtype=torch.bool)
    keys[1, ..., 5:] = False
    pairs = (torch.rand(B, 1, L, L, generator=draws) < 0.6) | torch.eye(L, dtype=torch.bool)
    return {"none": None, "keys": keys, "pairs": pairs, "near": pairs[0, 0]}[kind]


def rotation_like(kind):
    positions = {"row": torch.arange(L), "packed": torch.arange(L).expand(B, L) % torch.tensor([[9], [4], [5]])}
    return None if kind == "none" else rotation_of(positions[kind], H, 10.0, torch.float64)


def by_torch(qkv, mask, rotation, kept=1.0, scale=1.0):
    q, k, v = qkv.transpose(1, 3).unbind(2)
    if rotation is not None:
        q, k = (turned(each, rotation) for each in (q, k))
    scores = q @ k.transpose(-1, -2) / H**0.5
    weights = (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)
    return (weights * kept * scale @ v).transpose(1, 2).flatten(2)


def turned(x, rotation):
    """`[B, N, L, H]`, by matrices of two rows."""
    cos, sin = rotation.unsqueeze(-4).unbind(-1)
    matrix = torch.stack((torch.stack((cos, -sin), -1), torch.stack((sin, cos), -1)), -2)
    return (matrix @ x.unflatten(-1, (-1, 2))[..., None])[..., 0].flatten(-2)


@pytest.mark.parametrize("long", [1, 1000])
@pytest.mark.parametrize("mask", ["none", "keys", "pairs", "near"])
@pytest.mark.parametrize("rotation", ["none", "row", "packed"])
def test_values_and_gradients_are_those_of_the_formula(monkeypatch, long, mask, rotation):
    monkeypatch.setattr(attention, "_LONG", long)
    mine, plain = values(), values()
    given = mask_of(mask), rotation_like(rotation)
    mixed, expected = attend(mine, *given, 0.0), by_torch(plain, *given)
    torch.testing.assert_close(mixed, expected, rtol=1e-12, atol=1e-12)
    upstream = torch.randn(B, L, N * H, dtype=torch.float64)
    mixed.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(mine.grad, plain.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("mask", ["none", "pairs"])
def test_dropout_takes_weights_and_scales_the_others(monkeypatch, mask):
    kept = (torch.rand(B, N, L, L) < 0.8).short()
    monkeypatch.setattr(attention, "draw_kept", lambda x, p: (kept.flatten(0, 1), 1 / (1 - p)))
    mine, plain = values(), values()
    mixed, expected = attend(mine, mask_of(mask), None, 0.2), by_torch(plain, mask_of(mask), None, kept, 1.25)
    torch.testing.assert_close(mixed, expected, rtol=1e-12, atol=1e-12)
    mixed.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(mine.grad, plain.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rotation", ["none", "row"])
def test_sixteen_bits_are_within_their_rounding(dtype, rotation):
    rounded = values(dtype)
    exact = rounded.detach().double().requires_grad_()
    given = mask_of("keys"), rotation_like(rotation)
    rounding = torch.finfo(dtype).eps
    for mixed in (attend(exact, *given, 0.0), attend(rounded, given[0], None if given[1] is None else given[1].float(), 0.0)):
        mixed.double().square().sum().backward()
    assert rounded.grad.dtype == dtype
    assert (rounded.grad.double() - exact.grad).norm() < 4 * rounding * exact.grad.norm()


@pytest.mark.parametrize("p", [0.0, 0.1])
def test_a_query_without_a_key_spoils_nothing(p):
    qkv = torch.randn(1, 3, 3, 1, 4, requires_grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]])
    mixed = attend(qkv, mask, None, p)
    mixed.sum().backward()
    assert mixed.isfinite().all()
    assert qkv.grad.isfinite().all()


def test_medium_precision_and_long_rows_choose_the_operations(monkeypatch):
    called = []
    own = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: called.append(1) or own(*a, **k))
    attend(values(n_tokens=255), None, None, 0.0)
    assert not called
    attend(values(n_tokens=256), None, None, 0.0)
    assert called
    torch.set_float32_matmul_precision("medium")
    try:
        attend(values(n_tokens=256), None, None, 0.0)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert len(called) == 1


def test_rotation_is_the_same_for_a_compiler(monkeypatch):
    x = torch.randn(B, L, 2, N, H, dtype=torch.float64)
    rotation = rotation_like("packed")[..., None, None, :, :]
    turned_here = rotate(x, rotation)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(rotate(x, rotation), turned_here, rtol=1e-13, atol=1e-13)
