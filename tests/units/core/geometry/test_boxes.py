"""Box arithmetic."""

import torch

from patchword.core.geometry.boxes import (
    box_areas,
    box_centers,
    box_giou,
    box_iou,
    clip_boxes,
    pairwise_giou,
    pairwise_iou,
)
from support.dense.operators import assert_compiles, assert_golden, golden

BOXES = torch.tensor([[0.0, 0.0, 4.0, 2.0], [2.0, 0.0, 6.0, 2.0], [10.0, 10.0, 12.0, 12.0], [5.0, 5.0, 3.0, 9.0]])


def test_areas_and_centers():
    assert box_areas(BOXES).tolist() == [8, 8, 4, 0]
    assert box_centers(BOXES)[1].tolist() == [4, 1]


def test_iou_by_hand():
    found = pairwise_iou(BOXES, BOXES)
    assert torch.allclose(found[0], torch.tensor([1, 4 / 12, 0, 0]))
    assert torch.equal(box_iou(BOXES, BOXES).isnan(), torch.zeros(4, dtype=torch.bool))


def test_giou_equals_the_golden_loss():
    assert_golden(lambda *boxes: 1 - box_giou(*boxes), "loss/giou", golden("loss/boxes"), golden("loss/targets"))


def test_pairwise_giou_holds_the_elementwise_one():
    first, second = golden("loss/boxes"), golden("loss/targets")
    found = pairwise_giou(first[None], second[None])
    assert found.shape == (1, 20, 20)
    assert torch.equal(found[0].diagonal(), box_giou(first, second))


def test_boxes_are_clipped_to_their_own_image():
    boxes = torch.tensor([[-3.0, 1.0, 90.0, 70.0]]).expand(2, 1, 4)
    found = clip_boxes(boxes, torch.tensor([[60, 80], [100, 50]]))
    assert found.tolist() == [[[0, 1, 80, 60]], [[0, 1, 50, 70]]]


def test_box_arithmetic_compiles():
    assert_compiles(pairwise_giou, BOXES, BOXES)
    assert_compiles(pairwise_iou, BOXES, BOXES)
    assert_compiles(clip_boxes, BOXES[None], torch.tensor([[6, 7]]))
