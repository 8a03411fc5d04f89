"""Fused blocks and stems of residual networks compute what the blocks compute."""

import pytest
import torch
from torch import nn

from patchword.core.errors import UserError
from patchword.fusion import residual_convolution
from patchword.fusion.residual_convolution import FusedConvResidual, FusedConvStem
from patchword.fusion.rules import fuse
from patchword.kernels.conv_relu import conv_relu_reference
from patchword.layers.dense.backbones import fix_batch_norms
from patchword.models import REGISTRY, backbone_of
from support.helpers import difference, randomise


@pytest.fixture
def on_any_device(monkeypatch):
    """Run the fused path, with the reference instead of cuDNN."""
    calls = []

    def run(feature_map, weight, bias, stride=1, padding=0, addend=None):
        calls.append(weight.shape)
        return conv_relu_reference(feature_map, weight, bias, stride, padding, addend)

    monkeypatch.setattr(residual_convolution, "has_conv_relu", lambda feature_map: True)
    monkeypatch.setattr(residual_convolution, "conv_relu", run)
    return calls


def network(name, **fields):
    model = backbone_of(randomise(REGISTRY.create(name, depths=(1, 2), width=8, **fields)), name).eval()
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return model


@pytest.mark.parametrize("norms", ["train", "buffers"])
@pytest.mark.parametrize("name", ["resnet-18", "resnet-50"])
@torch.no_grad()
def test_the_maps_are_the_same(name, norms, on_any_device):
    model, images = network(name), torch.randn(2, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    fix_batch_norms(model, norms)
    expected, fused = model(images), fuse(model)
    assert {FusedConvStem, FusedConvResidual} <= {type(part) for part in fused.modules()}
    for found, map_ in zip(fused(images), expected, strict=True):
        assert difference(found, map_) < 1e-5
    assert torch.Size([8, 16, 4, 4]) in on_any_device  # the stem reads blocks of 2 x 2 pixels, 12 channels and padding
    assert len(on_any_device) == 1 + 3 * (2 if name == "resnet-18" else 3)


@torch.no_grad()
def test_other_inputs_use_the_original(on_any_device):
    model = network("resnet-18")
    fused = fuse(model)
    odd = torch.randn(1, 3, 33, 64)
    assert torch.allclose(fused(odd)[-1], model(odd)[-1], atol=1e-5)
    assert torch.Size([8, 16, 4, 4]) not in on_any_device
    on_any_device.clear()
    model.train()
    fuse(model)(torch.randn(2, 3, 64, 64))
    assert not on_any_device  # statistics of the batch
    model.eval()
    with torch.enable_grad():
        fused(torch.randn(1, 3, 64, 64))
    assert not on_any_device  # a gradient is needed
    with pytest.raises(UserError):
        network("resnet-18")(torch.randn(1, 4, 64, 64))
