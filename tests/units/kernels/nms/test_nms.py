"""Batched non-maximum suppression against torchvision's compiled operator and against a greedy loop."""

import pytest
import torch
from torch import Tensor

from patchword.core.geometry.boxes import pairwise_iou
from patchword.kernels.nms import blocks, nms, operation
from patchword.kernels.nms.blocks import nms_in_blocks
from patchword.kernels.nms.reference import nms_reference
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


@pytest.mark.parametrize("shape", [(2, 0), (0, 3)])
@pytest.mark.parametrize("grouped", [False, True])
def test_no_boxes_and_no_images(shape, grouped):
    given = torch.zeros(*shape, 4), torch.zeros(shape), torch.zeros(shape, dtype=torch.bool)
    assert nms(*given, 0.5, torch.zeros(shape, dtype=torch.long) if grouped else None).shape == shape


@pytest.mark.parametrize("rounds", [None, 8])
def test_nms_compiles(rounds):
    boxes, scores = crowd()
    valid = torch.ones(3, 60, dtype=torch.bool)
    assert_compiles(nms, boxes, scores, valid, 0.3, scores.long(), rounds)


def many_boxes(images: int = 2, count: int = 300) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Boxes that overlap, with equal scores, padding and groups of different sizes."""
    torch.manual_seed(0)
    corner = torch.rand(images, count, 2) * 40
    boxes = torch.cat([corner, corner + 4 + 20 * torch.rand(images, count, 2)], dim=-1)
    scores = (torch.rand(images, count) * 50).round() / 50
    groups = (torch.rand(images, count) ** 2 * 5).long()
    return boxes, scores, torch.rand(images, count) > 0.1, groups


@pytest.mark.parametrize("block", [1, 7, 1000])
@pytest.mark.parametrize("grouped", [False, True])
def test_blocks_keep_the_boxes_of_the_reference(monkeypatch, block, grouped):
    boxes, scores, valid, groups = many_boxes()
    monkeypatch.setattr(blocks, "_BLOCK", block)
    for threshold in (0.2, 0.6):
        given = boxes, scores, valid, threshold, groups if grouped else None
        expected = nms_reference(*given, None)
        assert torch.equal(nms_in_blocks(*given), expected)
        assert 0.05 < expected.double().mean() < 0.85


def test_blocks_without_valid_boxes_and_with_undefined_ones():
    boxes, scores, valid, groups = many_boxes(count=20)
    assert not nms_in_blocks(boxes, scores, valid & False, 0.5, groups).any()
    boxes[:, ::4, 0] = float("nan")
    given = boxes, scores, valid, 0.5, groups
    assert torch.equal(nms_in_blocks(*given), nms_reference(*given, None))


@pytest.mark.parametrize("score", [-torch.inf, torch.inf, torch.nan])
def test_blocks_take_valid_boxes_whatever_their_score(score):
    boxes, scores, valid, groups = many_boxes(count=20)
    scores[:, 5:15] = score
    given = boxes, scores, valid, 0.5, groups
    assert torch.equal(nms_in_blocks(*given), nms_reference(*given, None))
    assert not nms_in_blocks(*given)[~valid].any()


def test_when_blocks_are_used(monkeypatch):
    boxes, scores, valid, groups = many_boxes(count=20)
    seen = []

    def spy(*given):
        seen.append(len(given))
        return nms_reference(*given, None)

    monkeypatch.setattr(operation, "nms_in_blocks", spy)
    nms(boxes, scores, valid, 0.5, groups)
    assert seen == [5]
    nms(boxes, scores, valid, 0.5, groups, rounds=3)
    torch.func.vmap(lambda *given: nms(*given, 0.5, rounds=3))(boxes[None], scores[None], valid[None])
    torch._dynamo.reset()
    torch.compile(nms, fullgraph=True, backend="eager")(boxes, scores, valid, 0.5, groups)
    assert seen == [5]
