"""Mask targets against mmdet and torchvision."""

import torch
from torch import Tensor

from patchword.layers.dense.mask_targets import mask_targets
from support.dense.operators import assert_compiles, golden

SIZE = (28, 28)


def given() -> tuple[Tensor, Tensor, Tensor]:
    return golden("mask_target/masks")[None], golden("mask_target/boxes")[None], torch.arange(6)[None]


def test_thresholded_targets_equal_mmdet():
    found = mask_targets(*given(), SIZE, aligned=True, threshold=0.5)
    assert torch.equal(found[0].bool(), golden("mask_target/mmdet"))


def test_soft_targets_equal_torchvision():
    found = mask_targets(*given(), SIZE, aligned=False, threshold=None)
    assert torch.allclose(found[0], golden("mask_target/torchvision"), rtol=0, atol=2e-5)


def test_each_box_takes_its_own_object():
    masks, boxes, _ = given()
    index = torch.tensor([[3, 3, 0, 5, 1, 2]])
    found = mask_targets(masks, boxes, index, SIZE, aligned=True, threshold=0.5)
    expected = mask_targets(masks[:, index[0]], boxes, torch.arange(6)[None], SIZE, aligned=True, threshold=0.5)
    assert torch.equal(found, expected)


def test_mask_targets_compile():
    assert_compiles(mask_targets, *given(), SIZE, aligned=True, threshold=0.5)
