"""Sparse R-CNN against mmdet: neck, heads, detections and losses from the stored inputs."""

from dataclasses import replace

import pytest
import torch

from patchword.layers.dense.queries.box_forms import to_centers, to_corners, to_pixels
from patchword.objectives.detection.queries import sparse_loss
from patchword.objectives.detection.queries.sparse_loss import SparseLoss
from support.dense.sparse_rcnn import golden_sparse_rcnn

LOSSES = {"head_1_": "stage0", "": "stage1"}
PARTS = {"class": "loss_cls", "box": "loss_bbox", "giou": "loss_iou"}


def distance(found, expected):
    """The largest difference, as a share of the largest expected value."""
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max())


@torch.no_grad()
def outputs(golden, detector):
    """The distances of neck and heads. A head reads the boxes and queries that mmdet's head before it computed."""
    levels = detector.features(golden.maps)
    pairs = [(found, golden[f"out.neck.{level}"]) for level, found in enumerate(levels)]
    boxes = to_pixels(to_corners(detector.boxes).expand(2, -1, -1), golden.sizes)
    queries = detector.queries.expand(2, -1, -1)
    for number, stage in enumerate(detector.stages):
        found = stage(levels, boxes, queries)
        logits, deltas, queries = (golden[f"out.bbox_head.{number}.{kind}"] for kind in range(3))
        pairs += [(found.logits, logits), (found.queries, queries)]
        boxes = stage.coder.decode(boxes, deltas)
        pairs.append((found.boxes, boxes))
    return [distance(*pair) for pair in pairs]


@torch.no_grad()
def losses(golden, detector, loss=None):
    """The relative difference of each loss."""
    found = (loss or SparseLoss())(detector, golden.maps, golden.targets)
    pairs = {f"{head}{ours}": f"{stage}_{theirs}" for head, stage in LOSSES.items() for ours, theirs in PARTS.items()}
    assert found.keys() == pairs.keys()
    return {ours: abs(float(found[ours] / golden[f"loss.{theirs}"]) - 1) for ours, theirs in pairs.items()}


def test_neck_and_heads():
    assert max(outputs(*golden_sparse_rcnn())) < 1e-5


@torch.no_grad()
def test_detections():
    golden, detector = golden_sparse_rcnn()
    found = detector(golden.maps, golden.sizes)
    for image in range(2):
        expected = golden[f"result.{image}.boxes_score_class"]
        assert torch.equal(found.labels[image], expected[:, 5].long())
        assert float((found.boxes[image] - expected[:, :4]).abs().max()) < 2e-3
        assert float((found.scores[image] - expected[:, 4]).abs().max()) < 1e-5
    assert found.valid.all()


@torch.no_grad()
def test_the_chain_of_heads_is_as_exact_as_mmdet():
    """With our own boxes, the distance from float64 is at most four times that of the golden logits."""
    golden, detector = golden_sparse_rcnn()
    found = detector.refine(detector.features(golden.maps), golden.sizes)[-1].logits
    wide = detector.double()
    exact = wide.refine(wide.features([one.double() for one in golden.maps]), golden.sizes)[-1].logits
    rounding = distance(golden["out.bbox_head.1.0"].double(), exact)
    assert rounding < 1e-4
    assert distance(found.double(), exact) <= 4 * rounding


def test_losses():
    found = losses(*golden_sparse_rcnn())
    assert max(found.values()) < 1e-5, found


@torch.no_grad()
def test_clipped_detections_are_inside_the_image():
    golden, detector = golden_sparse_rcnn()
    outside = detector(golden.maps, golden.sizes).boxes
    detector.clipped = True
    boxes = detector(golden.maps, golden.sizes).boxes
    limits = golden.sizes.flip(-1).repeat(1, 2)[:, None]
    assert outside.amin() < 0
    assert torch.equal(boxes, torch.minimum(outside.clamp(min=0), limits.float()))


# A changed convention is noticed.


def pooled(**changed):
    def change(detector):
        for stage in detector.stages:
            stage.pool = replace(stage.pool, **changed)

    return change


def coded(**changed):
    def change(detector):
        for stage in detector.stages:
            stage.coder = replace(stage.coder, **changed)

    return change


def swapped_weights(detector):
    """The second dynamic layer comes first."""
    for stage in detector.stages:
        layer = stage.dynamic.sublayer.weights
        layer.weight.copy_(torch.cat(layer.weight.chunk(2)[::-1]))


NETWORKS = {
    "sides without half a cell": pooled(aligned=False),
    "adaptive samples": pooled(samples="adaptive"),
    "other stds": coded(stds=(0.1, 0.1, 0.2, 0.2)),
    "weights in another order": swapped_weights,
}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_a_changed_network_is_noticed(name):
    golden, detector = golden_sparse_rcnn()
    NETWORKS[name](detector)
    found = detector(golden.maps, golden.sizes)
    expected = torch.stack([golden[f"result.{image}.boxes_score_class"] for image in range(2)])
    assert float((found.boxes - expected[..., :4]).abs().max()) > 0.1


def test_another_number_of_attention_heads_is_noticed():
    assert max(outputs(*golden_sparse_rcnn(heads=8))) > 1e-3


CHANGES = {
    "gamma": SparseLoss(gamma=1.0),
    "alpha": SparseLoss(alpha=0.5),
    "class_weight": SparseLoss(class_weight=1.0),
    "box_weight": SparseLoss(box_weight=2.0),
    "giou_weight": SparseLoss(giou_weight=1.0),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_loss_is_noticed(name):
    assert max(losses(*golden_sparse_rcnn(), CHANGES[name]).values()) > 1e-3


def test_centers_and_sizes_instead_of_corners_are_noticed(monkeypatch):
    relative = sparse_loss.to_relative
    monkeypatch.setattr(sparse_loss, "to_relative", lambda boxes, sizes: to_centers(relative(boxes, sizes)))
    assert max(losses(*golden_sparse_rcnn()).values()) > 1e-3
