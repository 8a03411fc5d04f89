"""Assigners against mmdet and torchvision."""

import pytest
import torch
from torch import Tensor

from patchword.objectives.detection.assigners import AtssAssigner, MaxIouAssigner
from support.dense.operators import assert_compiles, golden

ASSIGNERS = {
    "rpn": MaxIouAssigner(0.7, 0.3, "object", 0.3),
    "torchvision.rpn": MaxIouAssigner(0.7, 0.3, "best"),
    "retinanet": MaxIouAssigner(0.5, 0.4, "object"),
    "roi": MaxIouAssigner(0.5, 0.5, "object", 0.5),
}


def two_images() -> tuple[Tensor, Tensor]:
    """All golden objects, then those without the second and the fourth, which are padding."""
    valid = torch.ones(2, 5, dtype=torch.bool)
    valid[1, 1] = valid[1, 3] = False
    return golden("assign/boxes").expand(2, 5, 4), valid


def levels() -> list[Tensor]:
    return list(golden("assign/atss.anchors").split([192, 48, 12]))


@pytest.mark.parametrize("name", ASSIGNERS)
def test_max_iou_equals_the_golden_assignment(name):
    found = ASSIGNERS[name](golden("assign/anchors"), *two_images())
    assert torch.equal(found[0], golden(f"assign/{name}"))


def test_atss_equals_the_golden_assignment():
    assert torch.equal(AtssAssigner()(levels(), *two_images())[0], golden("assign/atss"))


def test_atss_takes_the_unbiased_standard_deviation():
    """Of two candidates with IoU a > b, mean + unbiased deviation is (a + b) / 2 + (a - b) / sqrt(2), which is above a.

    Of three with b twice, it is b + (a - b) (1 / 3 + 1 / sqrt(3)), below a. With the biased one, the sum of two is a.
    """
    anchors = [torch.tensor([[0.0, 0.0, 8.0, 8.0], [1.0, 0.0, 9.0, 8.0]])]
    objects = torch.tensor([[[0.0, 0.0, 8.0, 7.0]]])
    assert not AtssAssigner()(anchors, objects, torch.ones(1, 1, dtype=torch.bool)).any()
    third = [torch.cat([anchors[0], anchors[0][1:]])]
    assert AtssAssigner()(third, objects, torch.ones(1, 1, dtype=torch.bool)).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("objects", [5, 0])
def test_atss_takes_the_anchors_of_each_image(objects):
    boxes, valid = (part[:, :objects] for part in two_images())
    generator = torch.Generator().manual_seed(0)
    anchors = [level + 9 * torch.randn(2, *level.shape, generator=generator) for level in levels()]
    found = AtssAssigner()(anchors, boxes, valid)
    for image in range(2):
        own = slice(image, image + 1)
        assert torch.equal(found[own], AtssAssigner()([level[image] for level in anchors], boxes[own], valid[own]))
    if objects:
        assert not torch.equal(found[0], found[1])
        assert found.any(dim=1).all()


def test_padding_objects_change_nothing():
    objects, valid = two_images()
    place = torch.tensor([0, 1, 3, 5])  # none, and objects 0, 2 and 4
    for name, assigner in ASSIGNERS.items():
        found = assigner(golden("assign/anchors"), objects, valid)[1]
        alone = assigner(golden("assign/anchors"), objects[1:, valid[1]], valid[1:, valid[1]])[0]
        assert torch.equal(found, torch.where(alone < 0, -1, place[alone.clamp(min=0)])), name
    alone = AtssAssigner()(levels(), objects[1:, valid[1]], valid[1:, valid[1]])[0]
    assert torch.equal(AtssAssigner()(levels(), objects, valid)[1], place[alone])


def test_the_two_rules_of_low_quality_matches_differ():
    boxes = torch.tensor([[0.0, 0.0, 10.0, 10.0]])
    objects = torch.tensor([[[0.0, 0.0, 10.0, 6.0], [0.0, 0.0, 10.0, 5.0]]])
    valid = torch.ones(1, 2, dtype=torch.bool)
    found = [MaxIouAssigner(0.9, 0.3, rule)(boxes, objects, valid).item() for rule in ("none", "best", "object")]
    assert found == [-1, 1, 2]


def test_unusable_boxes_are_ignored_and_are_no_best_match():
    assigner, anchors = ASSIGNERS["rpn"], golden("assign/anchors")
    objects, valid = two_images()
    usable = assigner(anchors, objects, valid) != 2
    found = assigner(anchors, objects, valid, usable)
    assert (found[~usable] == -1).all()
    assert (found[0] == 2).any()


def test_images_without_objects_have_no_match():
    none = torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.bool)
    assert not ASSIGNERS["rpn"](golden("assign/anchors"), *none).any()
    assert not AtssAssigner()(levels(), *none).any()
    objects, valid = two_images()
    assert not ASSIGNERS["rpn"](golden("assign/anchors"), objects, torch.zeros_like(valid)).any()


def test_assigners_compile():
    assert_compiles(ASSIGNERS["rpn"], golden("assign/anchors"), *two_images())
    assert_compiles(AtssAssigner(), levels(), *two_images())
