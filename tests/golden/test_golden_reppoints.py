"""RepPoints v2 against the code of Swin's repository: neck, head, detections and losses from the stored inputs."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from patchword.layers.dense.points import bifpn, corner_branch, reppoints_head
from patchword.objectives.detection.assigners import AtssAssigner
from patchword.objectives.detection.losses import giou_loss
from patchword.objectives.detection.points import reppoints_loss
from patchword.objectives.detection.points.point_targets import NearestPointAssigner, semantic_weights
from patchword.objectives.detection.points.reppoints_loss import RepPointsLoss
from support.dense.reppoints import CLASSES, RepeatedCandidates, golden_maps, golden_reppoints

LOSS = RepPointsLoss(refined=RepeatedCandidates())
NAMES = {  # ours, theirs
    "class": "loss_cls",
    "first_box": "loss_pts_init",
    "box": "loss_pts_refine",
    "corner": "loss_heatmap",
    "corner_offset": "loss_offset",
    "semantic": "loss_sem",
}


def distance(found, expected):
    """The largest difference, as a share of the largest expected value."""
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())


def by_cell(maps):
    return torch.cat([one.flatten(2).transpose(1, 2) for one in maps], dim=1)


def outputs(golden, detector):
    """The distances of the neck's levels and of the six outputs of the head."""
    levels = detector.features(golden_maps(golden))
    pairs = [(found, expected) for found, expected in zip(levels, golden.levels("out.neck"), strict=True)]
    output = detector.head(levels)
    assert output.shapes == tuple(tuple(level.shape[-2:]) for level in levels)
    pairs += [(output[kind], by_cell(golden.levels(f"out.bbox_head.{kind}"))) for kind in range(6)]
    return [distance(*pair) for pair in pairs]


def results(golden, detector):
    """The largest difference of boxes in pixels, and of scores; infinite if other objects are detected."""
    found = detector(golden_maps(golden), golden.sizes)
    expected = torch.stack([golden[f"result.{image}.boxes_score_class"] for image in range(2)])
    if not found.valid.all() or not torch.equal(found.labels, expected[..., 5].long()):
        return float("inf"), float("inf")
    return float((found.boxes - expected[..., :4]).abs().max()), float((found.scores - expected[..., 4]).abs().max())


@torch.no_grad()
def losses(golden, detector, loss=LOSS):
    """The relative difference of each loss."""
    found = loss(detector, golden_maps(golden), golden.targets)
    assert found.keys() == NAMES.keys()
    return {ours: abs(float(found[ours] / golden[f"loss.{theirs}"].sum()) - 1) for ours, theirs in NAMES.items()}


@torch.no_grad()
def test_neck_and_head():
    assert max(outputs(*golden_reppoints())) < 1e-5


@torch.no_grad()
def test_detections():
    boxes, scores = results(*golden_reppoints())
    assert boxes < 2e-3
    assert scores < 1e-5


def test_losses():
    found = losses(*golden_reppoints())
    assert max(found.values()) < 1e-5, found


def test_the_semantic_map():
    golden, _ = golden_reppoints()
    found = semantic_weights(golden.targets, CLASSES, (16, 20), 8)
    assert torch.equal(found, golden["gt.sem_weights"])
    assert torch.equal((found > 0).float(), golden["gt.sem_map"])


# A changed convention is noticed.


def other_direction(detector, monkeypatch):
    detector.head.upper_left.directions = ("bottom", "right")


def other_groups(detector, monkeypatch):
    for branch in (detector.head.upper_left, detector.head.lower_right):
        branch.merge[1].num_groups = branch.skip[1].num_groups = 8


def no_swish(detector, monkeypatch):
    monkeypatch.setattr(bifpn.F, "silu", F.relu)


def x_first(detector, monkeypatch):
    conv = reppoints_head.deformable_conv
    swapped = [index ^ 1 for index in range(18)]
    monkeypatch.setattr(reppoints_head, "deformable_conv", lambda x, offsets, w: conv(x, offsets[:, swapped], w))


def no_grid(detector, monkeypatch):
    monkeypatch.setattr(reppoints_head, "_GRID", (0.0,) * 18)


def single_cells(detector, monkeypatch):
    monkeypatch.setattr(corner_branch, "corner_pool", lambda features, direction: features)


HEADS = (other_direction, other_groups, no_swish, x_first, no_grid, single_cells)


@pytest.mark.parametrize("change", HEADS, ids=lambda change: change.__name__)
@torch.no_grad()
def test_a_changed_network_is_noticed(change, monkeypatch):
    golden, detector = golden_reppoints()
    change(detector, monkeypatch)
    assert max(outputs(golden, detector)) > 1e-3


@pytest.mark.parametrize("sources", [(None,) * 5, (None, 1, 0, 1, 1), (None, 0, 1, 1, 1), (0, 0, 0, 1, 1)], ids=str)
@torch.no_grad()
def test_corners_of_other_levels_are_noticed(sources):
    golden, detector = golden_reppoints()
    detector.corners_from = sources
    assert results(golden, detector)[0] > 0.1


LOSSES = {
    "box": replace(LOSS, refined=AtssAssigner()),
    "first_box": replace(LOSS, first=NearestPointAssigner(scale=1.0)),
    "corner": replace(LOSS, heat_alpha=1.0),
    "semantic": replace(LOSS, alpha=0.5),
    "class": replace(LOSS, beta=1.0),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_changed_loss_is_noticed(name):
    assert losses(*golden_reppoints(), LOSSES[name])[name] > 1e-3


@pytest.mark.parametrize("name", ["first_box", "box"])
def test_boxes_without_the_longer_sides_are_noticed(name, monkeypatch):
    monkeypatch.setattr(reppoints_loss, "widened_giou_loss", giou_loss)
    assert losses(*golden_reppoints())[name] > 1e-3


def test_offsets_of_other_cells_are_noticed(monkeypatch):
    targets = reppoints_loss.corner_targets
    monkeypatch.setattr(
        reppoints_loss, "corner_targets", lambda corners, *rest: targets(corners + torch.tensor([8.0, 0.0]), *rest)
    )
    assert losses(*golden_reppoints())["corner_offset"] > 1e-3
