"""GELU with a fast backward pass matches torch's GELU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from patchword.core.scope import Scope
from patchword.kernels.mlp.gelu import gelu, gelu_overwriting, gelu_with_fast_backward
from patchword.layers import FeedForward
from support.kernel_tests import assert_as_exact

POINTS = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, -0.0, 40.0, -40.0])])


@pytest.mark.parametrize("path", [gelu, gelu_with_fast_backward])
def test_the_value_is_torchs_to_the_bit(path):
    assert torch.equal(path(POINTS.clone().requires_grad_()), F.gelu(POINTS))


def gradient(function, inputs, upstream):
    inputs = inputs.clone().requires_grad_()
    return torch.autograd.grad(function(inputs), inputs, upstream)[0]


def test_the_gradient_is_torchs():
    upstream = torch.linspace(-3, 3, len(POINTS))
    found, expected = (gradient(run, POINTS, upstream) for run in (gelu_with_fast_backward, F.gelu))
    exact = gradient(F.gelu, POINTS.double(), upstream.double())
    assert_as_exact([found], [expected], [exact])
    ours, theirs = ((each - exact).abs().max() for each in (found, expected))  # no single point may be wrong
    assert ours <= 4 * max(theirs, torch.finfo(torch.float32).eps * exact.abs().max())


def test_first_and_second_derivatives_are_right():
    inputs = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(gelu_with_fast_backward, inputs)
    assert torch.autograd.gradgradcheck(gelu_with_fast_backward, inputs)


def test_it_works_under_function_transforms():
    inputs = torch.linspace(-2, 2, 5, dtype=torch.float64)

    def total(values):
        return gelu_with_fast_backward(values).sum()

    expected = torch.func.hessian(lambda values: F.gelu(values).sum())(inputs)
    assert torch.allclose(torch.func.hessian(total)(inputs), expected)
    assert torch.allclose(torch.func.grad(total)(inputs), torch.func.grad(lambda v: F.gelu(v).sum())(inputs))


def test_a_feed_forward_overwrites_its_hidden_activations_only():
    part, tokens = FeedForward(8, 32), torch.randn(2, 5, 8)
    kept = tokens.clone()
    expected = part(tokens, Scope()).detach()  # with a gradient nothing is overwritten
    with torch.no_grad():
        assert torch.equal(part(tokens, Scope()), expected)
        assert torch.equal(tokens, kept)
        held = []
        part.up.register_forward_hook(lambda _, inputs, answer: held.append(answer))
        assert torch.equal(part(tokens, Scope()), expected)
        assert torch.equal(held[0], F.linear(tokens, part.up.weight, part.up.bias))  # what a hook received is unchanged


def test_tensors_that_need_a_gradient_or_are_traced_are_not_overwritten():
    inputs = torch.randn(3, requires_grad=True)
    assert not overwrites(inputs)
    with torch.no_grad():
        assert overwrites(inputs)
    assert overwrites(inputs.detach())
    meta = torch.empty(3, device="meta")
    assert gelu_overwriting(meta) is not meta
    given = torch.randn(2, 3)
    kept = given.clone()
    assert torch.equal(torch.func.vmap(gelu_overwriting)(given), F.gelu(kept))
    assert torch.equal(given, kept)


def overwrites(inputs):
    """Returns whether gelu_overwriting changed its input, and checks that it computed GELU."""
    kept = inputs.detach().clone()
    outputs = gelu_overwriting(inputs)
    assert torch.equal(outputs, F.gelu(kept))
    return not torch.equal(inputs, kept)


def test_global_hooks_keep_the_outputs_they_received():
    part, tokens, held = FeedForward(8, 32), torch.randn(2, 5, 8), []
    hook = nn.modules.module.register_module_forward_hook(lambda module, _, answer: held.append((module, answer)))
    try:
        with torch.no_grad():
            part(tokens, Scope())
    finally:
        hook.remove()
    seen = dict(held)
    assert torch.equal(seen[part.up], F.linear(tokens, part.up.weight, part.up.bias))
    assert part.activation in seen


def test_an_overridden_forward_is_called():
    part, tokens = FeedForward(8, 32), torch.randn(2, 5, 8)
    kept = F.linear(tokens, part.up.weight, part.up.bias).detach()
    part.up.forward = lambda _: kept
    with torch.no_grad():
        assert torch.equal(part(tokens, Scope()), part(tokens, Scope()))
