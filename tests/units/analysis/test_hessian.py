"""Eigenvalues and trace against the whole Hessian, which a tiny network still has room for."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from patchword.analysis.sharpness.hessian import Spectrum, lanczos, normal, trace
from patchword.analysis.sharpness.loss import SampleLoss
from patchword.core.errors import UserError
from support.helpers import pixels, tiny
from support.tiny_losses import network, quadratic


def whole_hessian(loss: SampleLoss) -> Tensor:
    """(weights, weights) by autograd alone, row by row"""
    loss.model.eval()
    names = [name for name, _ in loss.model.named_parameters()]
    sizes = [parameter.numel() for parameter in loss.parameters]
    shapes = [parameter.shape for parameter in loss.parameters]
    inputs, labels = pixels(24, 1, 4, 4).double(), torch.arange(24) % 3

    def value(vector: Tensor) -> Tensor:
        parts = [part.view(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]
        scores = torch.func.functional_call(loss.model, dict(zip(names, parts, strict=True)), (inputs,))
        return F.cross_entropy(scores, labels)

    at = torch.cat([parameter.detach().flatten() for parameter in loss.parameters])
    return torch.autograd.functional.hessian(value, at)


def found(loss: SampleLoss, wanted: int = 5, most: int = 40) -> Spectrum:
    return lanczos(loss.products, normal(loss.weights, 0).to(loss.zeros()), wanted, most)


def test_leading_eigenvalues_are_those_of_the_whole_hessian():
    loss = network()
    exact = torch.linalg.eigvalsh(whole_hessian(loss)).flip(0)
    spectrum = found(loss)
    assert all(spectrum.converged)
    assert spectrum.products < loss.weights
    assert torch.allclose(spectrum.values, exact[:5], rtol=1e-3, atol=0)
    assert abs(spectrum.lowest - float(exact[-1])) <= spectrum.lowest_residual + 1e-9


def test_a_residual_bounds_the_error_and_is_the_vectors_own():
    loss = network()
    exact = torch.linalg.eigvalsh(whole_hessian(loss))
    spectrum = found(loss, most=8)
    for value, residual, vector in zip(spectrum.values, spectrum.residuals, spectrum.vectors(), strict=True):
        assert (exact - value).abs().min() <= residual + 1e-9
        left = loss.products(vector[None])[0] - value * vector
        assert left.norm() == pytest.approx(float(residual), rel=1e-6, abs=1e-9)
    assert not all(spectrum.converged)


def test_a_wrong_product_is_seen():
    """The mutation: the batch norm's statistics are of the batch, as in training."""
    loss = network()
    exact = torch.linalg.eigvalsh(whole_hessian(loss)).flip(0)

    def in_training(piece: Tensor) -> tuple[Tensor, Tensor]:
        loss.model.train()
        return loss.contribution(piece)

    wrong = replace(loss, contribution=in_training)
    assert not torch.allclose(found(wrong).values, exact[:5], rtol=1e-3, atol=0)


def test_pieces_add_up():
    loss = network()
    vectors = normal(3 * loss.weights, 1).view(3, -1).double()
    in_pieces = replace(loss, size=7)
    assert torch.allclose(in_pieces.products(vectors), loss.products(vectors), rtol=1e-10, atol=1e-12)
    assert torch.allclose(in_pieces.gradient()[1], loss.gradient()[1], rtol=1e-10, atol=1e-12)
    assert in_pieces.value() == pytest.approx(loss.value())


def test_equal_eigenvalues_are_found_as_often_as_they_are_there():
    spectrum = found(quadratic([5, 5, 5, 2, 1, -3]), wanted=4)
    assert spectrum.values.tolist() == pytest.approx([5, 5, 5, 2])
    assert spectrum.lowest == pytest.approx(-3)


def test_estimates_after_each_product_only_rise():
    spectrum = found(network(), wanted=1)
    leading = [values[0] for values in spectrum.history]
    assert leading == sorted(leading)
    assert leading[-1] == spectrum.values[0]


def test_the_trace_lies_within_its_error():
    loss = network()
    exact = float(whole_hessian(loss).trace())
    like = loss.zeros()
    plain = trace(loss.products, like, 80, 0)
    assert abs(plain.value - exact) < 4 * plain.error
    helped = trace(loss.products, like, 80, 0, found(loss, most=12))
    assert abs(helped.value - exact) < 4 * helped.error
    assert helped.error < plain.error
    assert abs(trace(lambda vectors: 1.5 * loss.products(vectors), like, 80, 0).value - exact) > 4 * plain.error


def test_the_trace_is_exact_where_lanczos_reached_everything():
    estimate = trace(
        quadratic([4, 2, 1, -1]).products, torch.zeros(4).double(), 4, 0, found(quadratic([4, 2, 1, -1]), 4)
    )
    assert estimate.value == pytest.approx(6)
    assert estimate.error < 1e-9


def test_nothing_of_the_model_changes():
    loss = network()
    loss.model.train()
    before = {name: tensor.clone() for name, tensor in loss.model.state_dict().items()}
    loss.value(), loss.gradient(), found(loss)
    assert loss.model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in loss.model.state_dict().items())
    assert all(parameter.grad is None for parameter in loss.parameters)


def test_attention_is_differentiated_twice_and_fused_again_afterwards():
    model = tiny()
    inputs = pixels(2, 3, 32, 32)
    loss = SampleLoss(model, lambda _: [inputs], lambda piece: (model(piece).square().mean(), torch.zeros(())))
    assert loss.products(torch.ones_like(loss.zeros(1))).any()
    assert all(core.fused for core in model.modules() if hasattr(core, "fused"))


def test_weights_that_are_no_numbers_are_refused():
    loss = network()
    with torch.no_grad():
        loss.parameters[0][0] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        loss.value()
    with pytest.raises(UserError, match="not finite"):
        found(loss)


def test_a_flat_loss_has_no_curvature():
    model = nn.Linear(3, 1)
    loss = SampleLoss(model, lambda _: [None], lambda _: (model(torch.ones(1, 3)).sum(), torch.zeros(())))
    assert not loss.products(torch.ones(1, 4)).any()
