"""Mask paste against mmdet and torchvision."""

import pytest
import torch

from patchword.kernels.mask_paste import paste_masks
from support.dense.operators import assert_compiles, golden

SIZE = (60, 70)


def test_pasting_at_pixel_centers_equals_grid_sample():
    found = paste_masks(golden("paste/masks")[:, 0], golden("paste/boxes"), SIZE, rounded=False)
    assert torch.allclose(found, golden("paste/mmdet"), rtol=0, atol=2e-5)
    assert torch.equal(found >= 0.5, golden("paste/mmdet.mask"))


def test_pasting_into_rounded_boxes_equals_torchvision():
    found = paste_masks(golden("paste/masks")[:, 0], golden("paste/boxes"), SIZE, rounded=True)
    assert torch.equal(found > 0.5, golden("paste/torchvision.mask"))


@pytest.mark.parametrize("rounded", [False, True])
def test_a_batch_equals_its_boxes_one_by_one(rounded):
    masks, boxes = golden("paste/masks")[:, 0].view(2, 3, 28, 28), golden("paste/boxes").view(2, 3, 4)
    found = paste_masks(masks, boxes, SIZE, rounded=rounded)
    alone = paste_masks(masks[1, 2], boxes[1, 2], SIZE, rounded=rounded)
    assert torch.allclose(found[1, 2], alone, atol=1e-6)


def test_an_empty_box_pastes_nothing():
    assert not paste_masks(torch.ones(1, 4, 4), torch.tensor([[3.0, 3.0, 3.0, 9.0]]), SIZE, rounded=False).any()


@pytest.mark.parametrize("rounded", [False, True])
def test_mask_paste_compiles(rounded):
    assert_compiles(paste_masks, golden("paste/masks")[:, 0], golden("paste/boxes"), SIZE, rounded=rounded)
