"""Detectors against mmdet: maps, logits, proposals, detections, masks and losses from the stored inputs."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from patchword.kernels.mask_paste import paste_masks
from patchword.layers.dense.selection import Proposals
from patchword.objectives.detection.anchor_loss import AnchorLoss
from patchword.objectives.detection.assigners import AtssAssigner, MaxIouAssigner
from patchword.objectives.detection.dense_loss import DenseLoss
from patchword.objectives.detection.sampler import RandomSampler
from patchword.objectives.detection.stage_loss import StageLoss
from patchword.weights.names.detection import mmdet
from support.dense.detectors import cascade, golden_detector, mask_rcnn, one_stage

EVERYTHING = 100_000  # a sampler of so many takes all
TWO_STAGE = {"mask_rcnn": mask_rcnn, "cascade_mask_rcnn": cascade}


def built(system):
    if system in TWO_STAGE:
        golden = golden_detector(system)
        return golden, TWO_STAGE[system](golden)
    golden = golden_detector("one_stage", f"{system}/")
    return golden, one_stage(golden, system)


def objective(system):
    everything = RandomSampler(EVERYTHING, 0.5)
    if system == "retinanet":
        return AnchorLoss(DenseLoss(MaxIouAssigner(0.5, 0.4, "object"), "l1"))
    if system == "atss":
        return AnchorLoss(DenseLoss(AtssAssigner(), "giou", box_weight=2.0))
    dense = MaxIouAssigner(0.7, 0.3, "object", min_low_quality_iou=0.3)
    if system == "mask_rcnn":
        stage = StageLoss(MaxIouAssigner(0.5, 0.5, "object", min_low_quality_iou=0.5), everything, "l1")
        return AnchorLoss(DenseLoss(dense, "l1", everything), (stage,))
    stages = tuple(
        StageLoss(MaxIouAssigner(iou, iou, "none"), everything, "giou", box_weight=10.0, weight=weight)
        for iou, weight in ((0.5, 1.0), (0.6, 0.5), (0.7, 0.25))
    )
    return AnchorLoss(DenseLoss(dense, "smooth_l1", everything, border=0.0), stages)


def assert_near(found, expected, share=1e-5):
    """Within a share of the largest expected value."""
    assert found.shape == expected.shape
    assert float((found - expected).abs().max()) <= share * float(expected.abs().max())


NAMES = {"mask_rcnn": "mask-rcnn", "cascade_mask_rcnn": "cascade-mask-rcnn", "retinanet": "retinanet", "atss": "atss"}


@pytest.mark.parametrize("system", NAMES)
def test_tensors_are_written_under_their_names(system):
    golden, _ = built(system)
    theirs = {name.removeprefix("weight."): one for name, one in golden.tensors.items() if name.startswith("weight.")}
    layout = next(layout for layout in mmdet.LAYOUTS if NAMES[system] in layout.also_for)
    written = layout.to_theirs(layout.to_ours(theirs)[0])
    assert written.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in written.items())


def by_anchor(maps, values):
    return torch.cat([one.permute(0, 2, 3, 1).reshape(len(one), -1, values) for one in maps], dim=1)


@pytest.mark.parametrize("system", ["mask_rcnn", "cascade_mask_rcnn", "retinanet", "atss"])
@torch.no_grad()
def test_maps_and_dense_logits(system):
    golden, detector = built(system)
    levels = detector.features(golden.maps)
    for found, expected in zip(levels, golden.levels("out.neck"), strict=True):
        assert_near(found, expected)
    output = detector.proposer(levels)
    head = "rpn_head" if system in TWO_STAGE else "bbox_head"
    assert_near(output.logits, by_anchor(golden.levels(f"out.{head}.0"), 1 if system in TWO_STAGE else 5))
    assert_near(output.deltas, by_anchor(golden.levels(f"out.{head}.1"), 4))
    if system == "atss":
        assert_near(output.centerness, by_anchor(golden.levels("out.bbox_head.2"), 1).squeeze(-1))


@pytest.mark.parametrize("system", TWO_STAGE)
@torch.no_grad()
def test_proposals(system):
    golden, detector = built(system)
    levels = detector.features(golden.maps)
    found = detector.proposer.propose(detector.proposer(levels), detector.proposer.boxes(levels), golden.sizes)
    for image in range(2):
        expected = golden[f"out.proposals.{image}"]
        assert found.valid[image].sum() == len(expected)
        assert float((found.boxes[image] - expected[:, :4]).abs().max()) < 2e-3
        assert_near(found.scores[image], expected[:, 4])


@pytest.mark.parametrize("system", TWO_STAGE)
@torch.no_grad()
def test_box_heads_read_the_stored_proposals(system):
    golden, detector = built(system)
    levels = detector.features(golden.maps)
    boxes = torch.stack([golden[f"out.proposals.{image}"][:, :4] for image in range(2)])
    for number, stage in enumerate(detector.stages):
        logits, deltas = stage(levels, boxes)
        assert_near(logits.flatten(0, 1), golden[f"out.bbox_head.{number}.0"])
        assert_near(deltas.flatten(0, 1).flatten(1), golden[f"out.bbox_head.{number}.1"])
        best = logits[..., :-1].argmax(dim=-1)
        boxes = stage.coder.decode(boxes, stage.of_class(deltas, best), golden.sizes)


def from_stored_proposals(golden, detector):
    """Detect from mmdet's proposals: a difference of theirs in the last digit would be stretched by the heads."""
    levels = detector.features(golden.maps)
    if not detector.stages:
        return detector.detect(levels, golden.sizes)
    stored = torch.stack([golden[f"out.proposals.{image}"] for image in range(2)])
    everything = torch.ones(stored.shape[:2], dtype=torch.bool)
    return detector.refine(levels, Proposals(stored[..., :4], stored[..., 4], everything), golden.sizes)


@pytest.mark.parametrize("system", ["mask_rcnn", "cascade_mask_rcnn", "retinanet", "atss"])
@torch.no_grad()
def test_detections(system):
    golden, detector = built(system)
    found = from_stored_proposals(golden, detector)
    for image in range(2):
        expected = golden[f"result.{image}.boxes_score_class"]
        count = int(found.counts()[image])
        assert count == len(expected)
        assert float((found.boxes[image, :count] - expected[:, :4]).abs().max()) < 2e-3
        assert_near(found.scores[image, :count], expected[:, 4])
        assert found.labels[image, :count].tolist() == expected[:, 5].int().tolist()


@pytest.mark.parametrize("system", TWO_STAGE)
@torch.no_grad()
def test_detections_of_the_whole_chain(system):
    """With our own proposals, the distance from float64 is at most four times that of the golden boxes."""
    golden, detector = built(system)
    found = detector(golden.maps, golden.sizes)
    exact = detector.double()([one.double() for one in golden.maps], golden.sizes)
    expected = torch.stack([golden[f"result.{image}.boxes_score_class"] for image in range(2)])
    assert torch.equal(found.labels, expected[..., 5].long())
    rounding = float((expected[..., :4] - exact.boxes).abs().max())
    assert rounding < 0.01  # pixels; another network is much farther away
    assert float((found.boxes - exact.boxes).abs().max()) <= 4 * rounding


@pytest.mark.parametrize("system", TWO_STAGE)
@torch.no_grad()
def test_masks(system):
    golden, detector = built(system)
    found = detector(golden.maps, golden.sizes)
    for image in range(2):
        height, width = golden.sizes[image].tolist()
        pasted = paste_masks(found.masks[image], found.boxes[image], (height, width), rounded=False)
        areas = (pasted >= 0.5).sum(dim=(1, 2))
        assert (areas - golden[f"result.{image}.mask_area"]).abs().max() <= 2
        bits = np.unpackbits(golden[f"result.{image}.masks_packed"].numpy(), axis=-1)[..., :width]
        differ = (pasted[:12] >= 0.5).numpy() != bits.astype(bool)
        assert differ.sum(axis=(1, 2)).max() <= 2


@pytest.mark.parametrize("system", ["mask_rcnn", "cascade_mask_rcnn", "retinanet", "atss"])
def test_losses(system):
    golden, detector = built(system)
    found = objective(system)(detector, golden.maps, golden.targets)
    for name, loss in expected_losses(golden, system).items():
        assert float(found[name].detach()) == pytest.approx(float(loss), rel=1e-5), name


def expected_losses(golden, system):
    """mmdet's losses under our names, those of several levels added."""

    def loss(name):
        return golden[f"loss.{name}"].sum()

    if system not in TWO_STAGE:
        extra = {"centerness": loss("loss_centerness")} if system == "atss" else {}
        return {"class": loss("loss_cls"), "box": loss("loss_bbox"), **extra}
    parts = {"class": "loss_cls", "box": "loss_bbox", "mask": "loss_mask"}
    if system == "mask_rcnn":
        heads = {ours: loss(theirs) for ours, theirs in parts.items()}
    else:
        heads = {
            f"stage_{number + 1}_{ours}": loss(f"s{number}.{theirs}")
            for number in range(3)
            for ours, theirs in parts.items()
        }
    return {"proposal_class": loss("loss_rpn_cls"), "proposal_box": loss("loss_rpn_bbox"), **heads}


# A changed convention is noticed.


def pooled(detector, **changed):
    for head in (*detector.stages, *detector.masks):
        head.pool = replace(head.pool, **changed)


def dense(loss, **changed):
    return replace(loss, proposer=replace(loss.proposer, **changed))


def first_stage(loss, **changed):
    return replace(loss, stages=(replace(loss.stages[0], **changed), *loss.stages[1:]))


def other_anchors(detector):
    detector.proposer.anchors = replace(detector.proposer.anchors, rounded=True)


def other_rule(detector, **changed):
    detector.rule = replace(detector.rule, **changed)


def other_average(detector):
    detector.average = "probabilities"


NETWORKS = {  # changes of what a detector computes
    "sides without half a cell": ("mask_rcnn", lambda detector: pooled(detector, aligned=False)),
    "two samples": ("mask_rcnn", lambda detector: pooled(detector, samples=2)),
    "rounded anchors": ("mask_rcnn", other_anchors),
    "mean of probabilities": ("cascade_mask_rcnn", other_average),
    "square root of the score": ("atss", lambda detector: other_rule(detector, sqrt_score=True)),
}
LOSSES = {  # changes of how it learns; the tests of the assigners have theirs
    "anchors across the border": ("cascade_mask_rcnn", lambda loss: dense(loss, border=None)),
    "L1": ("cascade_mask_rcnn", lambda loss: dense(loss, boxes="l1")),
    "smooth L1": ("retinanet", lambda loss: dense(loss, boxes="smooth_l1")),
    "soft masks": ("mask_rcnn", lambda loss: first_stage(loss, mask_threshold=None)),
    "masks without half a pixel": ("mask_rcnn", lambda loss: first_stage(loss, mask_aligned=False)),
    "eight candidates": ("atss", lambda loss: dense(loss, assigner=AtssAssigner(nearest=8))),
}


@pytest.mark.parametrize("name", NETWORKS)
@torch.no_grad()
def test_a_changed_network_is_noticed(name):
    system, changed = NETWORKS[name]
    golden, detector = built(system)
    changed(detector)
    found = detector(golden.maps, golden.sizes)
    expected = torch.stack([golden[f"result.{image}.boxes_score_class"][:, 4] for image in range(2)])
    assert not torch.allclose(found.scores, expected, rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", LOSSES)
@torch.no_grad()
def test_a_changed_loss_is_noticed(name):
    system, changed = LOSSES[name]
    golden, detector = built(system)
    found = changed(objective(system))(detector, golden.maps, golden.targets)
    expected = expected_losses(golden, system)
    assert any(abs(float(found[key]) - float(loss)) > 1e-4 * float(loss) for key, loss in expected.items())
