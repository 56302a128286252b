"""The masked-word loss in chunks: equal to torch's own, gradients too, whatever the chunk."""

import pytest
import torch
import torch.nn.functional as F

from bert_pytorch.model import cross_entropy
from bert_pytorch.model.cross_entropy import linear_cross_entropy

M, WIDTH, WORDS = 13, 5, 23


@pytest.fixture(autouse=True, params=[64, 8])
def aligned(request, monkeypatch):
    """To 64 so few words are not filled up; to 8 they are, by one."""
    monkeypatch.setattr(cross_entropy, "_ALIGNED", request.param)
    return request.param


def inputs(dtype=torch.float64, n_targets=M, seed=3):
    draws = torch.Generator().manual_seed(seed)
    x, weight, bias = (
        torch.randn(*shape, generator=draws, dtype=dtype) for shape in ((n_targets, WIDTH), (WORDS, WIDTH), (WORDS,))
    )
    targets = torch.randint(0, WORDS, (n_targets,), generator=draws)
    return [each.requires_grad_() for each in (x, weight, bias)], targets


def plain(parts, targets):
    scores = F.linear(*parts)
    return F.cross_entropy(scores, targets, reduction="sum"), (scores.argmax(-1) == targets).sum()


@pytest.mark.parametrize("scores_per_chunk", [1, WORDS, 4 * WORDS + 1, 1 << 24])
def test_loss_hits_and_gradients_are_those_of_torch(monkeypatch, scores_per_chunk):
    monkeypatch.setitem(cross_entropy._SCORES_PER_CHUNK, "cpu", scores_per_chunk)
    results = []
    for function in (lambda parts, targets: linear_cross_entropy(*parts, targets), plain):
        parts, targets = inputs()
        loss, hits = function(parts, targets)
        (loss * 0.7).backward()
        results.append((loss.detach(), hits, *(part.grad for part in parts)))
    assert results[0][1] > 0
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_gradients_are_the_slope_of_the_loss():
    parts, targets = inputs()
    linear_cross_entropy(*parts, targets)[0].backward()
    draws = torch.Generator().manual_seed(8)
    for number, part in enumerate(parts):
        step = 1e-5 * torch.randn(part.shape, generator=draws, dtype=part.dtype)
        above, below = (
            linear_cross_entropy(*parts[:number], (part + sign * step).detach(), *parts[number + 1 :], targets)[0].detach()
            for sign in (0.5, -0.5)
        )
        torch.testing.assert_close((part.grad * step).sum(), above - below, rtol=1e-6, atol=1e-12)


def test_a_second_way_back_is_refused():
    parts, targets = inputs()
    loss, _ = linear_cross_entropy(*parts, targets)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_scores_far_apart_stay_exact():
    (x, weight, bias), targets = inputs(torch.float32)
    with torch.no_grad():
        x.mul_(1000)
    loss, _ = linear_cross_entropy(x, weight, bias, targets)
    expected = plain([x.double(), weight.double(), bias.double()], targets)[0].detach()
    loss = loss.detach()
    assert float(loss) > 1e4
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)


def test_no_target_is_a_sum_of_nothing():
    parts, targets = inputs(n_targets=0)
    loss, hits = linear_cross_entropy(*parts, targets)
    loss.backward()
    assert (float(loss.detach()), int(hits)) == (0.0, 0)
    assert not parts[1].grad.any()


def test_nothing_is_kept_for_gradients_that_nobody_wants():
    (x, weight, bias), targets = inputs()
    with torch.no_grad():
        assert linear_cross_entropy(x, weight, bias, targets)[0].grad_fn is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_under_autocast_products_are_rounded_and_sums_are_not(dtype):
    parts, targets = inputs(torch.float32)
    with torch.autocast("cpu", dtype):
        loss, _ = linear_cross_entropy(*parts, targets)
    loss.backward()
    expected, _ = plain(*inputs(torch.float32))
    assert loss.dtype == torch.float32
    assert {part.grad.dtype for part in parts} == {torch.float32}
    assert float(loss.detach()) == pytest.approx(float(expected.detach()), rel=0.01)
    assert float(loss.detach()) != float(expected.detach())


def test_memory_does_not_grow_with_the_number_of_targets(monkeypatch, aligned):
    """The largest tensor made is a chunk's scores, or the gradient of the weight."""
    words = WORDS if aligned == 64 else WORDS + 1
    monkeypatch.setitem(cross_entropy._SCORES_PER_CHUNK, "cpu", 7 * words)
    sizes = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            sizes.extend(
                each.numel() for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, torch.Tensor)
            )
            return result

    (x, weight, bias), targets = inputs(n_targets=31)
    with Watch():
        linear_cross_entropy(x, weight, bias, targets)[0].backward()
    assert max(sizes) == 7 * words


@pytest.mark.parametrize("scores_per_chunk", [WORDS, 4 * WORDS, 1 << 24])
@pytest.mark.parametrize("n_targets", [0, 5, 12])
def test_vectors_without_a_target_count_for_nothing(monkeypatch, scores_per_chunk, n_targets):
    monkeypatch.setitem(cross_entropy._SCORES_PER_CHUNK, "cpu", scores_per_chunk)
    parts, targets = inputs()
    loss, hits = linear_cross_entropy(*parts, targets[:n_targets])
    loss.backward()
    (x, *others), _ = inputs()
    expected, expected_hits = plain([x[:n_targets], *others], targets[:n_targets])
    expected.backward()
    assert hits == expected_hits
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(parts, (x, *others), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", [0.1, 0.5])
def test_smoothed_targets_are_those_of_torch(smoothing):
    torch.manual_seed(0)
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((7, 5), (23, 5), (23,)))
    targets = torch.randint(0, 23, (7,))
    scores = x @ weight.t() + bias
    expected = torch.nn.functional.cross_entropy(scores, targets, reduction="sum", label_smoothing=smoothing)
    loss, n_hits = linear_cross_entropy(x, weight, bias, targets, smoothing)
    torch.testing.assert_close(loss, expected)
    assert n_hits == (scores.argmax(1) == targets).sum()
    theirs, ours = (torch.autograd.grad(each, (x, weight, bias)) for each in (expected, loss))
    torch.testing.assert_close(ours, theirs)
