"""How the named detectors learn, as in mmdet and Swin's repository."""

from dataclasses import replace

from patchword.core.errors import UserError, nearest
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.assigners import AtssAssigner, MaxIouAssigner
from patchword.objectives.detection.dense_loss import DenseLoss
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.sampler import RandomSampler
from patchword.objectives.detection.stage_loss import StageLoss

_PROPOSALS = MaxIouAssigner(positive_iou=0.7, negative_iou=0.3, low_quality="object", min_low_quality_iou=0.3)
_ANCHORS, _BOXES = RandomSampler(256, 0.5), RandomSampler(512, 0.25)
_STAGE = StageLoss(MaxIouAssigner(0.5, 0.5, "object", min_low_quality_iou=0.5), _BOXES, "l1")
_RCNN = DetectionLoss(DenseLoss(_PROPOSALS, "l1", _ANCHORS), (_STAGE,))

LOSSES = {
    "faster-rcnn": _RCNN,
    "mask-rcnn": _RCNN,
    "cascade-mask-rcnn": DetectionLoss(
        DenseLoss(_PROPOSALS, "smooth_l1", _ANCHORS, border=0.0),
        tuple(
            StageLoss(MaxIouAssigner(iou, iou, "none"), _BOXES, "giou", box_weight=10.0, weight=weight)
            for iou, weight in ((0.5, 1.0), (0.6, 0.5), (0.7, 0.25))
        ),
    ),
    "retinanet": DetectionLoss(DenseLoss(MaxIouAssigner(0.5, 0.4, "object"), "l1")),
    "atss": DetectionLoss(DenseLoss(AtssAssigner(), "giou", box_weight=2.0)),
}


def detection_loss(detector: Detector) -> DetectionLoss:
    """Return the loss of a detector that was created by its name.

    Its config gives roi_samples, the number of boxes per image that each box head learns from. Files that were written
    before this field existed do not have it; their number is 512.

    >>> losses = detection_loss(detector)(detector, images, targets)
    >>> sum(losses.values()).backward()
    """
    name = detector.card.model
    if name not in LOSSES:
        raise UserError(f"no detector is called {name!r}", hint=nearest(name, LOSSES))
    loss, samples = LOSSES[name], detector.card.config.get("roi_samples", _BOXES.count)
    stages = (replace(stage, sampler=replace(stage.sampler, count=samples)) for stage in loss.stages)
    return replace(loss, stages=tuple(stages))
