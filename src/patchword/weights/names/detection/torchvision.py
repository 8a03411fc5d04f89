"""The names of torchvision: Faster R-CNN, Mask R-CNN and RetinaNet on ResNet."""

import re
from collections.abc import Callable, Container
from functools import partial
from typing import Any

import torch
from torch import Tensor

from patchword.core.tensor_files import Tensors
from patchword.weights.names.detection.detection_layout import (
    DetectionLayout,
    Their,
    backbone_sizes,
    detector_sizes,
    refused,
    renamed,
    with_prefix,
)
from patchword.weights.names.name_table import Row, Shapes, rows
from patchword.weights.names.vision import resnet

_LAYERS = 8  # more than any head has
_BODY, _STATISTICS = "backbone.body.conv1.weight", "backbone.body.bn1.running_mean"
_COUNTER = "backbone.body.bn1.num_batches_tracked"  # FrozenBatchNorm2d has none
_RULES = {  # conventions that torchvision's code has and its files do not state
    "rounded_anchors": True,
    "fitted_strides": True,
    "clamp_below": False,
    "aligned": False,
    "samples": 2,
    "min_proposal_size": 1e-3,
    "min_box_size": 1e-2,
    "extra_relu": True,
    "integer_lengths": True,
    "rank_pairs": True,
}
_OLDER: tuple[
    tuple[str, str | Callable[[re.Match[str]], str]], ...
] = (  # names before torchvision 0.13, which the published files have
    (r"backbone\.fpn\.(inner|layer)_blocks\.(\d)\.(?=weight|bias)", r"backbone.fpn.\1_blocks.\2.0."),
    (r"rpn\.head\.conv\.(?=weight|bias)", "rpn.head.conv.0.0."),
    (r"roi_heads\.mask_head\.mask_fcn(\d)\.", lambda match: f"roi_heads.mask_head.{int(match[1]) - 1}.0."),
    (
        r"head\.(classification|regression)_head\.conv\.(\d)\.(?=weight|bias)",
        lambda match: f"head.{match[1]}_head.conv.{int(match[2]) // 2}.0.",
    ),
)


def _neck_rows() -> tuple[Row, ...]:
    return rows(
        ("neck.lateral.{i}.{p}", "backbone.fpn.inner_blocks.{i}.0.{p}"),
        ("neck.output.{i}.{p}", "backbone.fpn.layer_blocks.{i}.0.{p}"),
        ("neck.downsample.0.{p}", "backbone.fpn.extra_blocks.p6.{p}"),
        ("neck.downsample.1.{p}", "backbone.fpn.extra_blocks.p7.{p}"),
    )


def _rcnn_rows() -> tuple[Row, ...]:
    head, roi = "proposer.head.", "roi_heads."
    found = rows(
        (head + "class_tower.0.{p}", "rpn.head.conv.0.0.{p}"),
        (head + "class_output.{p}", "rpn.head.cls_logits.{p}"),
        (head + "box_output.{p}", "rpn.head.bbox_pred.{p}"),
        ("stages.0.linear.0.{p}", roi + "box_head.fc6.{p}"),
        ("stages.0.linear.2.{p}", roi + "box_head.fc7.{p}"),
        ("stages.0.class_output.{p}", roi + "box_predictor.cls_score.{p}"),
        ("stages.0.box_output.{p}", roi + "box_predictor.bbox_pred.{p}"),
        ("masks.0.upsample.{p}", roi + "mask_predictor.conv5_mask.{p}"),
        ("masks.0.output.{p}", roi + "mask_predictor.mask_fcn_logits.{p}"),
    )
    for layer in range(_LAYERS):
        found += rows((f"masks.0.convolutions.{2 * layer}.{{p}}", f"{roi}mask_head.{layer}.0.{{p}}"))
    return found


def _dense_rows() -> tuple[Row, ...]:
    head, classes, boxes = "proposer.head.", "head.classification_head.", "head.regression_head."
    found = rows(
        (head + "class_output.{p}", classes + "cls_logits.{p}"), (head + "box_output.{p}", boxes + "bbox_reg.{p}")
    )
    for ours, theirs in ((f"{head}class_tower.", classes), (f"{head}box_tower.", boxes)):
        for layer in range(_LAYERS):
            conv, norm = f"{theirs}conv.{layer}.0.", f"{theirs}conv.{layer}.1."
            found += (
                Row(
                    f"{ours}{3 * layer}.{{p}}",
                    (conv + "{p}",),
                    beside=(f"{ours}{3 * layer + 1}.weight", norm + "weight"),
                ),
                Row(f"{ours}{3 * layer + 1}.{{p}}", (norm + "{p}",)),
                Row(f"{ours}{2 * layer}.{{p}}", (conv + "{p}",)),
            )
    return found


def _prepare(tensors: Their) -> Tensors:
    """Use the current names, move the background from the first class to the last, and drop its boxes and masks."""
    found: Tensors = dict(tensors)
    for pattern, new in _OLDER:
        found = renamed(found, pattern, new)
    for name, change in _BACKGROUND.items():
        found |= {key: change(found[key]) for key in (f"{name}.weight", f"{name}.bias") if key in found}
    return found


def _last(logits: Tensor) -> Tensor:
    return torch.cat([logits[1:], logits[:1]])


_BACKGROUND: dict[str, Callable[[Tensor], Tensor]] = {
    "roi_heads.box_predictor.cls_score": _last,
    "roi_heads.box_predictor.bbox_pred": lambda boxes: boxes[4:],
    "roi_heads.mask_predictor.mask_fcn_logits": lambda masks: masks[1:],
}


def _sizes(shapes: Shapes) -> dict[str, Any]:
    return detector_sizes(shapes, backbone_sizes("resnet", shapes, "backbone.", resnet.sizes))


def _detector(names: Container[str]) -> str:
    if "head.classification_head.cls_logits.weight" in names:
        return "retinanet"
    return "mask-rcnn" if "roi_heads.mask_predictor.mask_fcn_logits.weight" in names else "faster-rcnn"


def _stated(tensors: Their) -> dict[str, Any]:
    """Return how the batch norms of the backbone work, and how many objects are found."""
    most = 300 if _detector(tensors) == "retinanet" else 100
    norms = {} if _COUNTER in tensors else {"batch_norms": "buffers", "batch_norm_eps": 0.0}
    return {"max_detections": most, **norms}


def _notes(tensors: Their) -> dict[str, str]:
    if _COUNTER in tensors:
        return {}
    note = (
        "the file does not state the eps of its frozen batch norms: 0 is used, as in torchvision's COCO_V1 weights; "
        "if only the backbone was pretrained, set batch_norm_eps=1e-5"
    )
    return {"batch_norm_eps": note}


_layout = partial(
    DetectionLayout,
    "torchvision",
    "",
    detector=_detector,
    prepare=_prepare,
    stated=_stated,
    notes=_notes,
    implied=_RULES,
)
_BACKBONE = with_prefix(resnet.timm_rows(), "backbone.", "backbone.body.") + _neck_rows()
LAYOUTS = (
    refused(
        "torchvision's fasterrcnn_resnet50_fpn_v2 or maskrcnn_resnet50_fpn_v2",
        "batch norms in the feature pyramid",
        _BODY,
        "backbone.fpn.inner_blocks.0.1.running_mean",
    ),
    refused("torchvision's FCOS", "another head", _BODY, "head.regression_head.bbox_ctrness.weight"),
    refused("torchvision's Keypoint R-CNN", "keypoints", _BODY, "roi_heads.keypoint_predictor.kps_score_lowres.weight"),
    _layout(_BACKBONE + _rcnn_rows(), (_BODY, _STATISTICS, "rpn.head.cls_logits.weight"), _sizes),
    _layout(_BACKBONE + _dense_rows(), (_BODY, _STATISTICS, "head.classification_head.cls_logits.weight"), _sizes),
)
