"""Batched non-maximum suppression against torchvision's compiled operator and against a greedy loop."""

import pytest
import torch
from torch import Tensor

from patchword.core.geometry.boxes import pairwise_iou
from patchword.kernels.nms import nms
from support.dense.operators import assert_compiles, golden


def greedy(boxes: Tensor, scores: Tensor, threshold: float) -> list[int]:
    """Visit the boxes by falling score, the first of equal ones first."""
    kept: list[int] = []
    overlaps = pairwise_iou(boxes, boxes)
    for index in sorted(range(len(boxes)), key=lambda each: -scores[each].item()):
        if all(overlaps[index, other] <= threshold for other in kept):
            kept.append(index)
    return sorted(kept)


def kept_of_golden(threshold: float, groups: Tensor | None = None) -> list[int]:
    boxes, scores = golden("nms/boxes")[None], golden("nms/scores")[None]
    keep = nms(boxes, scores, torch.ones_like(scores, dtype=torch.bool), threshold, groups)
    return keep[0].nonzero().flatten().tolist()


@pytest.mark.parametrize("threshold", [0.5, 0.7])
def test_nms_equals_the_compiled_operator(threshold):
    assert kept_of_golden(threshold) == sorted(golden(f"nms/keep{threshold}").tolist())


def test_groups_do_not_suppress_each_other():
    expected = sorted(golden("nms/keep_by_class0.5").tolist())
    assert kept_of_golden(0.5, golden("nms/labels")[None]) == expected


def crowd() -> tuple[Tensor, Tensor]:
    """Three images of 60 boxes with long chains of overlaps, many equal scores, and equal boxes."""
    torch.manual_seed(0)
    corner = (torch.rand(3, 60, 2) * 20).round()
    scores = (torch.rand(3, 60) * 6).round() / 6
    return torch.cat([corner, corner + 10], dim=-1), scores


def test_ties_and_chains_are_resolved_as_by_the_greedy_loop():
    boxes, scores = crowd()
    keep = nms(boxes, scores, torch.ones(3, 60, dtype=torch.bool), 0.3)
    for image in range(3):
        assert keep[image].nonzero().flatten().tolist() == greedy(boxes[image], scores[image], 0.3)


def test_padding_is_not_kept_and_suppresses_nothing():
    boxes, scores = crowd()
    valid = torch.arange(60).expand(3, -1) % 3 != 0
    keep = nms(boxes, scores, valid, 0.3)
    assert not keep[~valid].any()
    for image in range(3):
        own = valid[image]
        expected = torch.tensor(greedy(boxes[image, own], scores[image, own], 0.3))
        assert torch.equal(keep[image, own].nonzero().flatten(), expected)


def test_enough_rounds_give_the_fixed_point():
    boxes, scores = crowd()
    valid = torch.ones(3, 60, dtype=torch.bool)
    exact = nms(boxes, scores, valid, 0.3)
    assert torch.equal(nms(boxes, scores, valid, 0.3, rounds=60), exact)
    assert not torch.equal(nms(boxes, scores, valid, 0.3, rounds=1), exact)


def test_no_boxes_are_no_error():
    assert nms(torch.zeros(2, 0, 4), torch.zeros(2, 0), torch.zeros(2, 0, dtype=torch.bool), 0.5).shape == (2, 0)


@pytest.mark.parametrize("rounds", [None, 8])
def test_nms_compiles(rounds):
    boxes, scores = crowd()
    valid = torch.ones(3, 60, dtype=torch.bool)
    assert_compiles(nms, boxes, scores, valid, 0.3, scores.long(), rounds)
