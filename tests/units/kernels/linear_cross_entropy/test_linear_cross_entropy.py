"""The fused cross-entropy matches torch's: losses, likeliest tokens and gradients, in any number of chunks."""

import pytest
import torch
import torch.nn.functional as F

from patchword.kernels.linear_cross_entropy import rows as cross_entropy_rows
from patchword.kernels.linear_cross_entropy.operation import (
    TokenLosses,
    fused_linear_cross_entropy,
    linear_cross_entropy_reference,
)
from patchword.kernels.linear_cross_entropy.reference import row_gradients_reference, row_losses_reference
from support.kernel_tests import DEVICE, assert_as_exact


def case(count=13, words=70, width=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(count, width, generator=generator).to(DEVICE)
    table = torch.randn(words, width, generator=generator).to(DEVICE)
    bias = torch.randn(words, generator=generator).to(DEVICE)
    targets = torch.randint(0, words, (count,), generator=generator).to(DEVICE)
    shares = torch.rand(count, generator=generator).to(DEVICE)
    return vectors, table, bias, targets, shares


def learned(way, vectors, table, bias, targets, shares, **given):
    """Returns losses, likeliest tokens, and the gradients of vectors, table and bias; shares: weights of the losses"""
    parts = [part.clone().requires_grad_() for part in (vectors, table, bias) if part is not None]
    losses, words = way(*parts[:2], parts[2] if bias is not None else None, targets, **given)
    (losses * shares).sum().backward()
    return [losses.detach(), words, *(part.grad for part in parts)]


def exact_losses(vectors, table, bias, targets):
    """the reference, which computes its softmax in float32, in float64 throughout"""
    logits = F.linear(vectors, table, bias)
    return TokenLosses(F.cross_entropy(logits, targets, reduction="none"), logits.detach().argmax(-1))


def exactly(vectors, table, bias, targets, shares):
    narrow = vectors, table, bias, shares
    vectors, table, bias, shares = (None if part is None else part.double() for part in narrow)
    return learned(exact_losses, vectors, table, bias, targets, shares)


def assert_matches_reference(found, given):
    """Losses and gradients are about as exact as those of the reference; the likeliest tokens are the same."""
    reference, exact = learned(linear_cross_entropy_reference, *given), exactly(*given)
    assert torch.equal(found.pop(1), reference.pop(1))
    exact.pop(1)
    assert_as_exact(found, reference, exact)


@pytest.mark.parametrize("held", [1, 3 * 128, 10**6], ids=["one row", "three rows", "all at once"])
@pytest.mark.parametrize("words", [64, 70, 129])
def test_fused_loss_matches_torch(held, words):
    given = case(words=words)
    assert_matches_reference(learned(fused_linear_cross_entropy, *given, held=held), given)


def test_without_a_bias_and_with_ignored_targets():
    vectors, table, _, targets, shares = case(seed=1)
    targets[::3] = -100
    given = vectors, table, None, targets, shares
    found = learned(fused_linear_cross_entropy, *given, held=500)
    assert not found[0][::3].any()
    assert_matches_reference(found, given)


def test_another_gradient_changes_the_result():
    vectors, table, bias, targets, shares = case()
    ours = learned(fused_linear_cross_entropy, vectors, table, bias, targets, 2 * shares)
    with pytest.raises(AssertionError, match="from float64"):
        assert_matches_reference(ours, (vectors, table, bias, targets, shares))


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a CPU without bfloat16
def test_it_is_as_exact_as_torch_under_autocast():
    vectors, table, bias, targets, shares = case(40, 300, 32)
    exact = exactly(vectors, table, bias, targets, shares)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        ours, theirs = (
            learned(way, vectors, table, bias, targets, shares)
            for way in (fused_linear_cross_entropy, linear_cross_entropy_reference)
        )
    assert [part.dtype for part in ours] == [part.dtype for part in theirs]
    for mine, their, true in zip(ours[2:], theirs[2:], exact[2:], strict=True):
        assert_as_exact([mine], [their], [true], factor=1.2)


def test_an_empty_batch():
    vectors, table, bias, targets, shares = case(0)
    found = learned(fused_linear_cross_entropy, vectors, table, bias, targets, shares)
    assert len(found[0]) == 0
    assert not found[3].any()


def test_it_compiles_without_a_graph_break():
    given = case()
    compiled = torch.compile(fused_linear_cross_entropy, backend="aot_eager", fullgraph=True, dynamic=True)
    assert_matches_reference(learned(compiled, *given), given)


@pytest.fixture
def fused():
    pytest.importorskip("triton")
    from patchword.kernels.linear_cross_entropy import triton as cross_entropy_triton

    return cross_entropy_triton


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("words", "wide"), [(5, 64), (4096, 4096), (4100, 4160), (9000, 9024)])
def test_kernels_match_references(fused, dtype, words, wide):
    generator = torch.Generator().manual_seed(words)
    scores = (3 * torch.randn(4, wide, generator=generator)).to(DEVICE, dtype)
    scores[:, words:] = float("nan")  # the padding must not be read
    scores[1, 2] = float("-inf")
    targets = torch.randint(0, words, (4,), generator=generator).to(DEVICE)
    targets[3] = -100
    slopes = torch.rand(4, generator=generator).to(DEVICE)
    ours, expected = fused.row_losses(scores, targets, words), row_losses_reference(scores, targets, words)
    logits = scores[:, :words].double().requires_grad_()
    exact = F.cross_entropy(logits, targets, reduction="none")
    assert torch.equal(ours[1], expected[1])
    finite = exact.isfinite()  # the target of a row may be the token without any probability
    assert torch.equal(ours[0].isfinite(), finite)
    totals = logits.detach().logsumexp(-1)
    assert_as_exact([ours[0][finite], ours[2]], [expected[0][finite], expected[2]], [exact[finite], totals])
    found = fused.row_gradients(scores, ours[2], targets, slopes, words)
    assert not found[:, words:].any()
    reference = row_gradients_reference(scores, expected[2], targets, slopes, words)
    (gradient,) = torch.autograd.grad(exact, logits, slopes.double())
    assert found.dtype == reference.dtype
    assert_as_exact([found[:, :words]], [reference[:, :words]], [gradient])


def test_the_full_loss_with_the_kernels(fused, monkeypatch):
    monkeypatch.setattr(cross_entropy_rows, "row_losses_reference", fused.row_losses)
    monkeypatch.setattr(cross_entropy_rows, "row_gradients_reference", fused.row_gradients)
    given = case(words=129)
    assert_matches_reference(learned(fused_linear_cross_entropy, *given, held=600), given)
