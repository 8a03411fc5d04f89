"""How the named detectors learn, as in mmdet, Swin's repository and the authors' code."""

from collections.abc import Mapping
from typing import Any

from patchword.core.errors import UserError, nearest
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.anchor_loss import AnchorLoss
from patchword.objectives.detection.assigners import AtssAssigner, MaxIouAssigner
from patchword.objectives.detection.dense_loss import DenseLoss
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.points.reppoints_loss import RepPointsLoss
from patchword.objectives.detection.queries.detr_loss import DetrLoss
from patchword.objectives.detection.queries.sparse_loss import SparseLoss
from patchword.objectives.detection.sampler import RandomSampler
from patchword.objectives.detection.stage_loss import StageLoss

_PROPOSALS = MaxIouAssigner(positive_iou=0.7, negative_iou=0.3, low_quality="object", min_low_quality_iou=0.3)
_ANCHORS, _BOXES = RandomSampler(256, 0.5), RandomSampler(512, 0.25)
_STAGE = StageLoss(MaxIouAssigner(0.5, 0.5, "object", min_low_quality_iou=0.5), _BOXES, "l1")
_RCNN = AnchorLoss(DenseLoss(_PROPOSALS, "l1", _ANCHORS), (_STAGE,))

LOSSES: Mapping[str, DetectionLoss[Any]] = {
    "faster-rcnn": _RCNN,
    "mask-rcnn": _RCNN,
    "cascade-mask-rcnn": AnchorLoss(
        DenseLoss(_PROPOSALS, "smooth_l1", _ANCHORS, border=0.0),
        tuple(
            StageLoss(MaxIouAssigner(iou, iou, "none"), _BOXES, "giou", box_weight=10.0, weight=weight)
            for iou, weight in ((0.5, 1.0), (0.6, 0.5), (0.7, 0.25))
        ),
    ),
    "retinanet": AnchorLoss(DenseLoss(MaxIouAssigner(0.5, 0.4, "object"), "l1")),
    "atss": AnchorLoss(DenseLoss(AtssAssigner(), "giou", box_weight=2.0)),
    "detr": DetrLoss(),
    "reppoints-v2": RepPointsLoss(),
    "sparse-rcnn": SparseLoss(),
}


def detection_loss(detector: Detector) -> DetectionLoss[Any]:
    """Return the loss of a detector that was created by its name.

    >>> losses = detection_loss(detector)(detector, images, targets)
    >>> sum(losses.values()).backward()
    """
    name = detector.card.model
    if name not in LOSSES:
        raise UserError(f"no detector is called {name!r}", hint=nearest(name, LOSSES))
    return LOSSES[name].configured(detector.card.config)
