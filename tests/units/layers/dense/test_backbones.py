"""Backbones of detectors."""

import torch
from torch import nn

import patchword
from patchword.layers.dense.backbones import NormedMaps, SimplePyramid, drop_prefix, fix_batch_norms, freeze_stages


def test_the_maps_are_normalized():
    backbone = NormedMaps(patchword.create("swin-mini", features=True))
    for each in backbone(torch.randn(2, 1, 28, 28)):
        assert torch.allclose(each.mean(dim=1), torch.zeros(()), atol=1e-5)
        assert torch.allclose(each.var(dim=1, unbiased=False), torch.ones(()), atol=1e-2)


def test_a_pyramid_of_one_map_has_four_strides():
    backbone = SimplePyramid(patchword.create("vit-tiny-16", depth=1, features=True))
    maps = backbone(torch.randn(1, 3, 64, 96))
    assert [tuple(each.shape[-2:]) for each in maps] == [(16, 24), (8, 12), (4, 6), (2, 3)]
    assert [each.shape[1] for each in maps] == list(backbone.widths)


def test_the_leading_token_and_its_position_are_removed():
    backbone = patchword.create("pvt-mini", features=True)
    nn.init.normal_(backbone.stages[-1].positions.table)
    rows = backbone.stages[-1].positions.table.detach().clone()
    drop_prefix(backbone)
    assert torch.equal(backbone.stages[-1].positions.table, rows[:, 1:])
    assert "stages.1.prefix.tokens" not in backbone.state_dict()
    assert backbone(torch.randn(1, 1, 28, 28))[-1].shape[-2:] == (7, 7)


def test_fixed_batch_norms_compute_the_same_in_training():
    backbone = patchword.create("resnet-mini", features=True)
    for norm in (one for one in backbone.modules() if isinstance(one, nn.BatchNorm2d)):
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    images = torch.randn(2, 1, 28, 28)
    expected = backbone.eval()(images)[-1]
    fix_batch_norms(backbone, "evaluate")
    assert torch.equal(backbone.train()(images)[-1], expected)


def test_frozen_stages_get_no_gradient():
    backbone = patchword.create("resnet-mini", features=True)
    freeze_stages(backbone, 2)
    backbone(torch.randn(2, 1, 28, 28))[-1].sum().backward()
    trained = {name.split(".")[1] for name, one in backbone.named_parameters() if one.grad is not None}
    assert trained == {"2"}
