"""The Hessian of every family: second derivatives are exact, whatever parts the family is made of."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import patchword
from patchword.analysis.sharpness.hessian import normal
from patchword.analysis.sharpness.loss import SampleLoss
from patchword.kernels.mlp import gelu
from patchword.models import REGISTRY
from support.helpers import image_structures, pixels, randomise, smallest, text_models, texts, tiny_text

STEP = 1e-6


IMAGES = image_structures()
VIT = next(name for name in IMAGES if name.startswith("vit"))
TEXTS = sorted({smallest(REGISTRY.find(name)[0].name) for name in text_models()})


def of_images(name: str) -> SampleLoss:
    base, config = IMAGES[name]
    model = randomise(patchword.create(base, **config)).double().eval()
    inputs = pixels(2, config["channels"], 28, 28).double()
    labels = torch.tensor([3, 8])
    return SampleLoss(
        model, lambda _: [inputs], lambda piece: (F.cross_entropy(model(piece) / 8, labels), torch.zeros(()))
    )


def of_texts(name: str) -> SampleLoss:
    model = tiny_text(name, head="classes", classes=3).double()
    text, labels = texts(9, 14), torch.tensor([2, 0])
    return SampleLoss(model, lambda _: [text], lambda piece: (F.cross_entropy(model(piece), labels), torch.zeros(())))


def error(loss: SampleLoss) -> float:
    """How far a product with the Hessian is from the difference of two gradients, relative to it."""
    direction = normal(loss.weights, 3).double()
    direction = direction / direction.norm()
    ours = loss.products(direction[None])[0]
    with loss.moved_weights() as go:
        go(STEP * direction)
        above = loss.gradient()[1]
        go(-STEP * direction)
        below = loss.gradient()[1]
    differences = (above - below) / (2 * STEP)
    assert differences.norm() > 1e-6, "there is curvature to be wrong about"
    return float((ours - differences).norm() / differences.norm())


@pytest.mark.parametrize("name", IMAGES)
def test_of_images(name):
    assert error(of_images(name)) < 1e-4


@pytest.mark.parametrize("name", TEXTS)
def test_of_texts(name):
    assert error(of_texts(name)) < 1e-4


@pytest.mark.parametrize("slow", [False, True])
def test_both_paths_of_gelu(slow, monkeypatch):
    monkeypatch.setattr(gelu, "_HAS_SLOW_BACKWARD", slow)
    assert error(of_images(VIT)) < 1e-4


class _Once(torch.autograd.Function):
    """GELU whose gradient is taken for a constant."""

    @staticmethod
    def forward(context, inputs: Tensor) -> Tensor:
        context.save_for_backward(inputs)
        return F.gelu(inputs)

    @staticmethod
    def backward(context, gradient: Tensor) -> Tensor:
        (inputs,) = context.saved_tensors
        with torch.enable_grad():
            again = inputs.detach().requires_grad_()
            (slope,) = torch.autograd.grad(F.gelu(again).sum(), again)
        return gradient * slope


def test_a_part_with_one_derivative_only_is_seen(monkeypatch):
    from patchword.kernels.mlp import activated_linear

    monkeypatch.setattr(activated_linear, "gelu_overwriting", _Once.apply)
    assert error(of_images(VIT)) > 1e-2


def test_attention_whose_softmax_is_taken_for_constant_is_seen(monkeypatch):
    from patchword.layers.attention import core

    loss = of_images(VIT)
    real = core._weights

    def detached(scores: Tensor, bias: Tensor | None) -> Tensor:
        weights = real(scores, bias)
        return weights + (weights.detach() - weights) * 0.5

    monkeypatch.setattr(core, "_weights", detached)
    assert error(loss) > 1e-2
