"""The gradient of a residual stream in a compiled model of bfloat16."""

import pytest
import torch
from torch import nn

from patchword.core.scope import Scope
from patchword.layers import Norm, Residual
from patchword.layers.residual_add import residual_add


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


def step(kind):
    """a sum whose branch is of this kind, and the gradients of both"""
    stream, slopes = torch.randn(2, 4, 8, requires_grad=True), torch.randn(2, 4, 8)
    branch = torch.randn(2, 4, 8).to(kind).requires_grad_()
    torch.compile(residual_add, backend="aot_eager", fullgraph=True)(stream, branch).backward(slopes)
    return stream.grad, branch.grad, slopes


def test_what_comes_back_is_rounded_once():
    """The stream gets the numbers of the branch."""
    of_stream, of_branch, slopes = step(torch.bfloat16)
    assert torch.equal(of_stream, slopes.bfloat16().float())
    assert torch.equal(of_branch, slopes.bfloat16())


@pytest.mark.parametrize("kind", [torch.float32, torch.float16])
def test_in_other_precisions_nothing_is_rounded(kind):
    of_stream, of_branch, slopes = step(kind)
    assert torch.equal(of_stream, slopes)
    assert torch.equal(of_branch, slopes.to(kind))


def test_sums_of_shapes_that_are_spread():
    stream = torch.randn(2, 4, 8, requires_grad=True)
    branch = torch.randn(4, 8).bfloat16().requires_grad_()
    torch.compile(residual_add, backend="aot_eager")(stream, branch).sum().backward()
    assert torch.equal(branch.grad, torch.full((4, 8), 2.0).bfloat16())
