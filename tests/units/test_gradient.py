"""The gradient of a residual stream in a compiled model of bfloat16."""

import pytest
import torch
from torch import nn

from patchword.core.scope import Scope
from patchword.layers import Norm, Residual
from patchword.layers.gradient import short_gradient


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, tokens, scope):
        return self.linear(tokens)


def back(where, run):
    """the gradient that leaves a residual at its beginning; run: it, perhaps compiled"""
    torch.manual_seed(0)
    residual = Residual(Wide(), nn.LayerNorm(8), where)
    tokens = torch.randn(2, 3, 8, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        answer = run(residual)(tokens, Scope())
    answer.backward(torch.randn(2, 3, 8).to(answer.dtype))
    return answer.detach(), tokens.grad, residual


def compiled(residual):
    return torch.compile(residual, backend="aot_eager", fullgraph=True)


def is_short(tensor):
    return torch.equal(tensor, tensor.bfloat16().to(tensor.dtype))


@pytest.mark.parametrize("where", list(Norm))
def test_tokens_are_the_same_and_their_gradient_nearly(where):
    answer, gradient, _ = back(where, compiled)
    expected, exact, _ = back(where, lambda residual: residual)
    assert answer.dtype == expected.dtype == torch.float32
    assert torch.equal(answer, expected)
    assert not is_short(answer)
    assert not torch.equal(gradient, exact)  # it was rounded on its way
    assert (gradient - exact).norm() < 0.01 * exact.norm()


def test_what_comes_back_is_rounded_once():
    """Of a sum, both get the same numbers: those of the branch are short, so are those of the stream."""
    stream = torch.randn(4, 8, requires_grad=True)

    def step(stream):
        with torch.autocast("cpu", torch.bfloat16):
            return short_gradient(stream * 1.0)

    torch.compile(step, backend="aot_eager")(stream).backward(torch.randn(4, 8))
    assert is_short(stream.grad)


@pytest.mark.parametrize("kind", [None, torch.float16])
def test_in_other_precisions_nothing_is_rounded(kind):
    stream, slopes = torch.randn(4, 8, requires_grad=True), torch.randn(4, 8)

    def step(stream):
        with torch.autocast("cpu", kind, enabled=kind is not None):
            return short_gradient(stream * 1.0)

    torch.compile(step, backend="aot_eager")(stream).backward(slopes)
    assert torch.equal(stream.grad, slopes)
