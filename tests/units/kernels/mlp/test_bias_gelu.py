"""The bias_gelu kernels match their reference, on a GPU or in Triton's interpreter."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

from patchword.core.scope import Scope
from patchword.kernels.mlp import activated_linear as chooser
from patchword.kernels.mlp import bias_gelu as kernel
from patchword.kernels.mlp import tuning
from patchword.kernels.mlp.bias_gelu import bias_gelu, has_bias_gelu_kernel
from patchword.kernels.mlp.reference import bias_gelu_reference
from patchword.layers import FeedForward, QuickGelu
from support.kernel_tests import (
    DEVICE,
    assert_as_exact,
    assert_matches_module,
    assert_rounded,
    error,
    needs_triton,
)


def given(rows, hidden=128, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows)
    inputs, bias = (torch.randn(*shape, generator=generator) for shape in ((rows, hidden), (hidden,)))
    return (2 * inputs).to(DEVICE, dtype).requires_grad_(), bias.to(DEVICE).requires_grad_()


def differentiated(run, inputs, bias):
    """Returns the output and both gradients."""
    output = run(inputs, bias)
    slopes = (torch.arange(output.numel(), device=DEVICE) % 7 - 2).view_as(output)  # exact in every dtype
    return [output.detach(), *torch.autograd.grad(output, [inputs, bias], slopes.to(output.dtype))]


def exactly(inputs, bias):
    exact = [part.detach().double().requires_grad_() for part in (inputs, bias)]
    return differentiated(bias_gelu_reference, *exact)


def check(inputs, bias, run=bias_gelu):
    """The kernels are about as exact as the reference."""
    found, reference = (differentiated(each, inputs, bias) for each in (run, bias_gelu_reference))
    assert [part.shape for part in found] == [part.shape for part in reference]
    assert_as_exact(found, reference, exactly(inputs, bias))


@needs_triton
@pytest.mark.parametrize(("rows", "hidden"), [(1, 128), (7, 384), (70, 256)])
def test_kernels_match_reference(rows, hidden):
    inputs, bias = given(rows, hidden)
    check(inputs, bias)
    assert error(bias_gelu(inputs, bias).detach(), exactly(inputs, 1.01 * bias)[0]) > 1e-3  # another bias differs


@needs_triton
@pytest.mark.parametrize(("rows", "hidden"), [(1, 128), (7, 384), (70, 256)])
def test_16_bit_inputs(rows, hidden):
    inputs, bias = given(rows, hidden, torch.float16)
    found = differentiated(bias_gelu, inputs, bias)
    assert [part.dtype for part in found] == [torch.float16, torch.float16, torch.float32]
    assert_rounded(found, exactly(inputs, bias))


@needs_triton
def test_inputs_far_from_zero():
    points = [-40.0, -9, -1e-7, 0, 1e-7, 9, 40, 1e4]
    inputs = torch.tensor(points).repeat(16)[None].to(DEVICE).requires_grad_()
    bias = torch.zeros(128, device=DEVICE, requires_grad=True)
    kernels, reference = (differentiated(run, inputs, bias)[:2] for run in (bias_gelu, bias_gelu_reference))
    eps = torch.finfo(torch.float32).eps
    for one, other, exact in zip(kernels, reference, exactly(inputs, bias)[:2], strict=True):
        ours, theirs = ((each - exact).abs() for each in (one, other))
        assert (ours <= 4 * theirs.maximum(eps * exact.abs().clamp(min=eps))).all()  # each point alone


@needs_triton
@pytest.mark.parametrize("programs", [1, 6, 1000])
def test_rows_are_split_between_programs(monkeypatch, programs):
    """The gradient of the bias sums all rows, each once."""
    monkeypatch.setattr(tuning, "BIAS_GELU_PROGRAMS", programs)
    check(*given(53))


@needs_triton
def test_leading_axes_strides_and_empty_input():
    inputs, bias = given(6)
    turned = inputs.view(2, 3, 128).transpose(0, 1)
    check(turned, bias)
    for spread_out in (torch.randn(256, device=DEVICE)[::2], torch.ones(1, device=DEVICE).expand(128)):
        check(inputs, spread_out.requires_grad_())
    nothing = bias_gelu(inputs[:0], bias)
    assert nothing.shape == (0, 128)
    assert not torch.autograd.grad(nothing.sum(), bias)[0].any()


@needs_triton
def test_self_test_rejects_a_wrong_kernel(monkeypatch):
    assert kernel.matches_reference(DEVICE)
    original = kernel.bias_gelu
    monkeypatch.setattr(kernel, "bias_gelu", lambda inputs, bias: original(1.01 * inputs, bias))
    assert not kernel.matches_reference(DEVICE)


@needs_triton
def test_in_a_compiled_model():
    check(*given(9), torch.compile(bias_gelu, backend="aot_eager", fullgraph=True))


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
    """Replaces the kernel by its reference on any machine, and records the calls."""
    found = []

    def run(*parts):
        found.append(parts)
        return bias_gelu_reference(*parts)

    monkeypatch.setattr(chooser, "has_bias_gelu_kernel", lambda *parts: True)
    monkeypatch.setattr(chooser, "bias_gelu", run)
    return found


@pytest.mark.parametrize("activation", [None, nn.GELU()])
def test_a_feed_forward_uses_the_kernel(calls, activation):
    torch.manual_seed(0)
    part, tokens = FeedForward(8, 16, activation), torch.randn(2, 3, 8)
    found = part(tokens, Scope())
    assert len(calls) == 1
    assert_matches_module(found, nn.Sequential(part.up, part.activation, part.down), tokens)


def test_it_is_not_used_with_dropout_hooks_or_other_parts(calls):
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
