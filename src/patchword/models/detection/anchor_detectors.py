"""Faster, Mask and Cascade R-CNN, RetinaNet and ATSS, with the sizes of Swin's tables."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from patchword.core.errors import UserError
from patchword.layers.dense.anchor_detector import AnchorDetector, Proposer
from patchword.layers.dense.anchors import Anchors
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseHead
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.roi_heads import BoxHead, MaskHead, RoiPool
from patchword.layers.dense.selection import Selection
from patchword.models.dense.backbones import dense_backbone
from patchword.models.detection.config import AnchorConfig, OneStageConfig, RcnnConfig
from patchword.models.detection.family import DetectorFamily

_RATIOS = (0.5, 1.0, 2.0)
_STDS = ((0.1, 0.1, 0.2, 0.2), (0.05, 0.05, 0.1, 0.1), (0.033, 0.033, 0.067, 0.067))  # of the stages of a cascade
_UNIT = (1.0, 1.0, 1.0, 1.0)


def build_rcnn(c: RcnnConfig) -> AnchorDetector:
    """Build a detector of two or more stages."""
    backbone = dense_backbone(c)
    strides = (*backbone.strides, 2 * backbone.strides[-1])
    neck = Fpn(backbone.widths, c.width, extra=1, extra_from="pool")
    anchors = Anchors(tuple((8.0 * stride,) for stride in strides), _RATIOS, rounded=c.rounded_anchors)
    head = DenseHead(c.width, 1, anchors.per_cell, hidden=c.width, depth=1, shared=True, kernel=1)
    best = Selection(max_boxes=c.max_proposals, nms_threshold=0.7, min_size=c.min_proposal_size)
    most = c.max_training_proposals or (2000 if c.stages > 1 else 1000)
    training = replace(best, max_boxes=most, pre_nms_per_level=2000)
    proposer = Proposer(head, anchors, _coder(c, _UNIT), strides, best, training, c.fitted_strides)
    pool, mask_pool = (RoiPool(backbone.strides, size, c.aligned, c.samples) for size in (7, 14))
    inner = c.inner or c.width
    boxes = [
        BoxHead(
            pool,
            _coder(c, stds),
            c.width,
            c.classes,
            layers=c.layers,
            hidden=c.hidden,
            convolutions=c.convolutions,
            inner=inner,
            class_agnostic=c.class_agnostic,
        )
        for stds in _STDS[: c.stages]
    ]
    masks = [MaskHead(mask_pool, c.width, c.classes, inner=inner) for _ in boxes] if c.masks else []
    return AnchorDetector(backbone, neck, proposer, boxes, masks, replace(_rule(c, 0.5), min_size=c.min_box_size))


def build_retinanet(c: OneStageConfig) -> AnchorDetector:
    """Build a RetinaNet: nine anchors per cell."""
    lengths = tuple(4 * 2 ** (part / 3) for part in range(3))
    return _one_stage(c, lengths, _RATIOS, _coder(c, _UNIT), replace(_rule(c, 0.5), rank_pairs=c.rank_pairs), {})


def build_atss(c: OneStageConfig) -> AnchorDetector:
    """Build an ATSS: one square anchor per cell, group normalization, centerness, a learned scale per level."""
    if c.groups and (c.width % c.groups or c.width < 2 * c.groups):
        raise UserError(
            "the width of an ATSS", expected=f"a multiple of {c.groups}, at least {2 * c.groups}", got=c.width
        )
    given = {"levels": 5, "centerness": True}
    return _one_stage(c, (8.0,), (1.0,), _coder(c, _STDS[0]), replace(_rule(c, 0.6), rank_pairs=c.rank_pairs), given)


def _one_stage(
    c: OneStageConfig,
    lengths: tuple[float, ...],
    ratios: tuple[float, ...],
    coder: BoxCoder,
    rule: Selection,
    given: Mapping[str, Any],
) -> AnchorDetector:
    """Build a detector on the maps from stride 8 on and two coarser levels. lengths: of anchors, in strides."""
    backbone = dense_backbone(c)
    used = [place for place, stride in enumerate(backbone.strides) if stride >= 8]
    strides = [backbone.strides[place] for place in used]
    if not strides:
        raise UserError(
            f"{c.backbone!r} as the backbone of a one-stage detector",
            expected="a map of stride 8 or more",
            got=f"strides {', '.join(map(str, backbone.strides))}",
            hint="a detector of two stages, such as model=faster-rcnn, reads finer maps",
        )
    strides += [2 * strides[-1], 4 * strides[-1]]
    neck = Fpn(
        [backbone.widths[place] for place in used], c.width, extra=2, extra_from=c.extra_from, extra_relu=c.extra_relu
    )
    scaled = tuple(tuple(stride * length for length in lengths) for stride in strides)
    if c.integer_lengths:
        scaled = tuple(tuple(float(int(length)) for length in level) for level in scaled)
    anchors = Anchors(scaled, ratios, rounded=c.rounded_anchors)
    given = {"hidden": c.width, "depth": c.depth, "shared": False, "groups": c.groups, "prior": 0.01, **given}
    head = DenseHead(c.width, c.classes, anchors.per_cell, **given)
    return AnchorDetector(
        backbone, neck, Proposer(head, anchors, coder, strides, rule, fitted_strides=c.fitted_strides)
    )


def _coder(c: AnchorConfig, stds: tuple[float, float, float, float]) -> BoxCoder:
    return BoxCoder(stds, c.clamp_below)


def _rule(c: AnchorConfig, nms_threshold: float) -> Selection:
    """Return the selection of the detections."""
    return Selection(c.max_detections, nms_threshold, score_threshold=0.05)


_CASCADE = RcnnConfig(stages=3, convolutions=4, layers=1)
_ATSS = OneStageConfig(groups=32, extra_from="output")

ANCHOR_DETECTORS: Mapping[str, DetectorFamily] = {
    "faster-rcnn": DetectorFamily(
        "Faster R-CNN", "arXiv:1506.01497", RcnnConfig(masks=False), build_rcnn, 41_753_056, 206_330_352_640
    ),
    "mask-rcnn": DetectorFamily(
        "Mask R-CNN", "arXiv:1703.06870", RcnnConfig(), build_rcnn, 44_396_336, 259_316_208_640
    ),
    "cascade-mask-rcnn": DetectorFamily(
        "Cascade Mask R-CNN", "arXiv:1712.00726", _CASCADE, build_rcnn, 82_231_538, 737_567_216_640
    ),
    "retinanet": DetectorFamily(
        "RetinaNet", "arXiv:1708.02002", OneStageConfig(), build_retinanet, 37_968_692, 238_536_058_880
    ),
    "atss": DetectorFamily("ATSS", "arXiv:1912.02424", _ATSS, build_atss, 32_295_322, 204_486_740_480),
}
