"""The fused loss of words is torch's: its value, its guesses and its gradients, in however many pieces."""

import pytest
import torch

from patchword.kernels.linear_cross_entropy import rows as cross_entropy_rows
from patchword.kernels.linear_cross_entropy.operation import linear_cross_entropy_reference, quick_losses
from patchword.kernels.linear_cross_entropy.rows import torch_losses, torch_slopes

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def case(count=13, words=70, width=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(count, width, generator=generator).to(DEVICE)
    table = torch.randn(words, width, generator=generator).to(DEVICE)
    bias = torch.randn(words, generator=generator).to(DEVICE)
    targets = torch.randint(0, words, (count,), generator=generator).to(DEVICE)
    shares = torch.rand(count, generator=generator).to(DEVICE)
    return vectors, table, bias, targets, shares


def learned(way, vectors, table, bias, targets, shares, **given):
    """losses, guesses, and the gradients of vectors, table and bias, each loss counting as much as its share"""
    parts = [part.clone().requires_grad_() for part in (vectors, table, bias) if part is not None]
    losses, words = way(*parts[:2], parts[2] if bias is not None else None, targets, **given)
    (losses * shares).sum().backward()
    return [losses.detach(), words, *(part.grad for part in parts)]


@pytest.mark.parametrize("held", [1, 3 * 128, 10**6], ids=["one row", "three rows", "all at once"])
@pytest.mark.parametrize("words", [64, 70, 129])
def test_the_fused_loss_is_torchs(held, words):
    given = case(words=words)
    torch.testing.assert_close(
        learned(quick_losses, *given, held=held), learned(linear_cross_entropy_reference, *given)
    )


def test_without_a_bias_and_with_targets_left_out():
    vectors, table, _, targets, shares = case(seed=1)
    targets[::3] = -100
    found = learned(quick_losses, vectors, table, None, targets, shares, held=500)
    torch.testing.assert_close(found, learned(linear_cross_entropy_reference, vectors, table, None, targets, shares))
    assert not found[0][::3].any()


def test_another_slope_is_seen():
    vectors, table, bias, targets, shares = case()
    ours = learned(quick_losses, vectors, table, bias, targets, 2 * shares)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(
            ours[3], learned(linear_cross_entropy_reference, vectors, table, bias, targets, shares)[3]
        )


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a processor without bfloat16
def test_with_autocast_it_is_as_exact_as_torchs():
    vectors, table, bias, targets, shares = case(40, 300, 32)
    exact = learned(
        linear_cross_entropy_reference, *(part.double() for part in (vectors, table, bias)), targets, shares
    )
    with torch.autocast(DEVICE.type, torch.bfloat16):
        ours, theirs = (
            learned(way, vectors, table, bias, targets, shares)
            for way in (quick_losses, linear_cross_entropy_reference)
        )
    assert [part.dtype for part in ours] == [part.dtype for part in theirs]
    for mine, their, true in zip(ours[2:], theirs[2:], exact[2:], strict=True):
        assert (mine - true).norm() < 1.2 * (their - true).norm() + 1e-6


def test_an_empty_batch():
    vectors, table, bias, targets, shares = case(0)
    found = learned(quick_losses, vectors, table, bias, targets, shares)
    assert len(found[0]) == 0
    assert not found[3].any()


def test_it_is_seen_through_by_the_compiler_without_a_break():
    given = case()
    compiled = torch.compile(quick_losses, backend="aot_eager", fullgraph=True, dynamic=True)
    torch.testing.assert_close(learned(compiled, *given), learned(linear_cross_entropy_reference, *given))


@pytest.fixture
def fused():
    pytest.importorskip("triton")
    from patchword.kernels.linear_cross_entropy import triton as cross_entropy_triton

    return cross_entropy_triton


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(("words", "wide"), [(5, 64), (4096, 4096), (4100, 4160), (9000, 9024)])
def test_the_kernels_are_their_twins(fused, dtype, words, wide):
    generator = torch.Generator().manual_seed(words)
    scores = (3 * torch.randn(4, wide, generator=generator)).to(DEVICE, dtype)
    scores[:, words:] = float("nan")  # what stands behind the words must not be read
    scores[1, 2] = float("-inf")
    targets = torch.randint(0, words, (4,), generator=generator).to(DEVICE)
    targets[3] = -100
    slopes = torch.rand(4, generator=generator).to(DEVICE)
    ours, expected = fused.loss_rows(scores, targets, words), torch_losses(scores, targets, words)
    torch.testing.assert_close(ours, expected)
    found = fused.slope_rows(scores, ours[2], targets, slopes, words)
    torch.testing.assert_close(found, torch_slopes(scores, expected[2], targets, slopes, words))
    assert not found[:, words:].any()


def test_the_whole_loss_by_the_kernels(fused, monkeypatch):
    monkeypatch.setattr(cross_entropy_rows, "torch_losses", fused.loss_rows)
    monkeypatch.setattr(cross_entropy_rows, "torch_slopes", fused.slope_rows)
    given = case(words=129)
    torch.testing.assert_close(learned(quick_losses, *given, held=600), learned(linear_cross_entropy_reference, *given))
