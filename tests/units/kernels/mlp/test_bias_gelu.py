"""The kernels of a bias with GELU are the plain way: on a GPU, or else in Triton's interpreter."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from patchword.core.scope import Scope
from patchword.kernels.mlp import activated_linear as chooser
from patchword.kernels.mlp import bias_gelu as kernel
from patchword.kernels.mlp.bias_gelu import bias_gelu, has_bias_gelu_kernel
from patchword.kernels.mlp.reference import bias_gelu_reference
from patchword.layers import FeedForward, QuickGelu
from support.kernel_tests import DEVICE, error, needs_triton


def given(rows, hidden=128, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)
    between, bias = (torch.randn(*shape, generator=generator) for shape in ((rows, hidden), (hidden,)))
    return (2 * between).to(DEVICE, dtype).requires_grad_(), bias.to(DEVICE).requires_grad_()


@needs_triton
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float16, 1e-3)])
@pytest.mark.parametrize(("rows", "hidden"), [(1, 128), (7, 384), (70, 256)])
def test_the_kernels_are_the_plain_way(rows, hidden, dtype, bound):
    between, bias = given(rows, hidden, dtype)
    exact = [part.detach().double().requires_grad_() for part in (between, bias)]
    found, expected = bias_gelu(between, bias), bias_gelu_reference(*exact)
    slopes = torch.randn_like(found)
    both = torch.autograd.grad(found, [between, bias], slopes)
    wanted = torch.autograd.grad(expected, exact, slopes.double())
    assert [part.dtype for part in (found, *both)] == [dtype, dtype, torch.float32]
    for one, other in zip((found, *both), (expected, *wanted), strict=True):
        assert one.shape == other.shape
        assert error(one.detach(), other.detach()) < bound
    assert (
        error(found.detach(), bias_gelu_reference(exact[0], 1.01 * exact[1]).detach()) > bound
    )  # another bias is told apart


@needs_triton
def test_far_from_zero():
    between = torch.tensor([-40.0, -9, -1e-7, 0, 1e-7, 9, 40, 1e4]).repeat(16)[None].to(DEVICE).requires_grad_()
    bias = torch.zeros(128, device=DEVICE)
    found, expected = bias_gelu(between, bias), bias_gelu_reference(between, bias)
    assert torch.allclose(found, expected, 1e-6, 1e-7)
    slopes = torch.ones_like(found)
    one, other = (torch.autograd.grad(answer, between, slopes)[0] for answer in (found, expected))
    assert torch.allclose(one, other, 1e-6, 1e-6)


@needs_triton
@pytest.mark.parametrize("programs", [1, 6, 1000])
def test_however_rows_are_dealt_out(monkeypatch, programs):
    """The sums for the bias are those of all rows, each once."""
    monkeypatch.setattr(kernel, "_PROGRAMS", programs)
    between, bias = given(53)
    found = torch.autograd.grad(bias_gelu(between, bias).sum(), [between, bias])
    expected = torch.autograd.grad(bias_gelu_reference(between, bias).sum(), [between, bias])
    assert all(torch.allclose(one, other, 1e-5, 1e-5) for one, other in zip(found, expected, strict=True))


@needs_triton
def test_leading_axes_strides_and_nothing_at_all():
    between, bias = given(6)
    turned = between.view(2, 3, 128).transpose(0, 1)
    found, expected = bias_gelu(turned, bias).detach(), bias_gelu_reference(turned, bias).detach()
    assert error(found, expected) < 1e-6
    for spread_out in (torch.randn(256, device=DEVICE)[::2], torch.ones(1, device=DEVICE).expand(128)):
        assert error(bias_gelu(between, spread_out).detach(), bias_gelu_reference(between, spread_out).detach()) < 1e-6
    nothing = bias_gelu(between[:0], bias)
    assert nothing.shape == (0, 128)
    assert not torch.autograd.grad(nothing.sum(), bias)[0].any()


@needs_triton
def test_it_is_tried_before_it_is_trusted(monkeypatch):
    assert kernel.matches_reference(DEVICE)
    original = kernel.bias_gelu
    monkeypatch.setattr(kernel, "bias_gelu", lambda between, bias: original(1.01 * between, bias))
    assert not kernel.matches_reference(DEVICE)


@needs_triton
def test_in_a_compiled_model():
    between, bias = given(9)
    run = torch.compile(bias_gelu, backend="aot_eager", fullgraph=True)
    found = torch.autograd.grad(run(between, bias).sum(), [between, bias])
    expected = torch.autograd.grad(bias_gelu_reference(between, bias).sum(), [between, bias])
    assert all(torch.allclose(one, other, 1e-5, 1e-5) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize(
    ("dtype", "hidden", "compiles", "taken"),
    [
        (torch.bfloat16, 3072, True, True),
        (torch.float16, 384, True, True),
        (torch.bfloat16, 3072, False, False),
        (torch.float32, 3072, True, False),
        (torch.bfloat16, 3000, True, False),
        (torch.float64, 3072, True, False),
    ],
)
def test_when_it_is_chosen(monkeypatch, dtype, hidden, compiles, taken):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiles)
    monkeypatch.setattr(kernel, "is_usable", lambda tokens, trial: True)
    with FakeTensorMode():
        tokens, up = (torch.empty(size, 8, dtype=dtype, device="cuda:0") for size in (4, hidden))
        assert has_bias_gelu_kernel(tokens, up) == taken
        monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: True)
        monkeypatch.setattr(torch, "get_autocast_dtype", lambda kind: torch.bfloat16)
        assert has_bias_gelu_kernel(tokens.float(), up) == (compiles and hidden != 3000)


@pytest.fixture
def calls(monkeypatch):
    """A feed-forward takes the kernel here, too; the calls are counted."""
    found = []

    def run(*parts):
        found.append(parts)
        return bias_gelu_reference(*parts)

    monkeypatch.setattr(chooser, "has_bias_gelu_kernel", lambda *parts: True)
    monkeypatch.setattr(chooser, "bias_gelu", run)
    return found


@pytest.mark.parametrize("activation", [None, nn.GELU()])
def test_a_feed_forward_takes_it(calls, activation):
    torch.manual_seed(0)
    part, tokens = FeedForward(8, 16, activation), torch.randn(2, 3, 8)
    found = part(tokens, Scope())
    assert len(calls) == 1
    assert torch.allclose(found, part.down(part.activation(part.up(tokens))), atol=1e-6)


def test_not_where_it_drops_or_watches_or_has_other_parts(calls):
    tokens = torch.randn(2, 3, 8)
    for activation in (nn.ReLU(), QuickGelu(), nn.GELU("tanh")):
        FeedForward(8, 16, activation)(tokens, Scope())
    FeedForward(8, 16, dropout=0.1)(tokens, Scope())
    without = FeedForward(8, 16)
    without.dropout = nn.Tanh()
    without(tokens, Scope())
    watched, seen = FeedForward(8, 16), []
    watched.up.register_forward_hook(lambda *given: seen.append(given))
    watched(tokens, Scope())
    assert len(seen) == 1
    assert not calls
