"""The quick gradient of GELU is torch's."""

import pytest
import torch
import torch.nn.functional as F

from patchword.kernels.gelu import gelu, quick_gelu

POINTS = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, -0.0, 40.0, -40.0])])


@pytest.mark.parametrize("path", [gelu, quick_gelu])
def test_the_value_is_torchs_to_the_bit(path):
    assert torch.equal(path(POINTS.clone().requires_grad_()), F.gelu(POINTS))


def gradient(function, inputs, upstream):
    inputs = inputs.clone().requires_grad_()
    return torch.autograd.grad(function(inputs), inputs, upstream)[0]


def test_the_gradient_is_torchs():
    upstream = torch.linspace(-3, 3, len(POINTS))
    assert (gradient(quick_gelu, POINTS, upstream) - gradient(F.gelu, POINTS, upstream)).abs().max() < 3e-6


def test_first_and_second_derivatives_are_right():
    inputs = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(quick_gelu, inputs)
    assert torch.autograd.gradgradcheck(quick_gelu, inputs)


def test_it_works_under_function_transforms():
    inputs = torch.linspace(-2, 2, 5, dtype=torch.float64)

    def total(values):
        return quick_gelu(values).sum()

    expected = torch.func.hessian(lambda values: F.gelu(values).sum())(inputs)
    assert torch.allclose(torch.func.hessian(total)(inputs), expected)
    assert torch.allclose(torch.func.grad(total)(inputs), torch.func.grad(lambda v: F.gelu(v).sum())(inputs))
