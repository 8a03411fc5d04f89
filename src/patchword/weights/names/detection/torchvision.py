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
    tower_rows,
    with_prefix,
    write_config,
)
from patchword.weights.names.name_table import Layout, Row, Shapes, rows
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
            found += tower_rows(ours, f"{theirs}conv.{layer}.", "0", "1", layer)
    return found


def _prepare(tensors: Their) -> Tensors:
    """Use the current names, move the background from the first class to the last, and drop its boxes and masks."""
    found: Tensors = dict(tensors)
    for pattern, new in _OLDER:
        found = renamed(found, pattern, new)
    for name, change in _BACKGROUND.items():
        found |= {key: change(found[key]) for key in (f"{name}.weight", f"{name}.bias") if key in found}
    return found


def _finish(tensors: Tensors) -> Tensors:
    """Invert `_prepare`: the background is the first class, with boxes and masks of zeros."""
    found: Tensors = dict(tensors)
    for name, change in _WITH_BACKGROUND.items():
        found |= {key: change(found[key]) for key in (f"{name}.weight", f"{name}.bias") if key in found}
    return found


def _finish_frozen(tensors: Tensors) -> Tensors:
    """As `_finish`, for frozen batch norms, which count no batches."""
    return _finish({name: tensor for name, tensor in tensors.items() if not name.endswith("num_batches_tracked")})


def _zeros_before(tensor: Tensor, count: int) -> Tensor:
    return torch.cat([tensor.new_zeros(count, *tensor.shape[1:]), tensor])


_CLASSES, _BOXES = "roi_heads.box_predictor.cls_score", "roi_heads.box_predictor.bbox_pred"
_MASKS = "roi_heads.mask_predictor.mask_fcn_logits"
_Change = Callable[[Tensor], Tensor]
_BACKGROUND: dict[str, _Change] = {
    _CLASSES: lambda logits: logits.roll(-1, 0),
    _BOXES: lambda boxes: boxes[4:],
    _MASKS: lambda masks: masks[1:],
}
_WITH_BACKGROUND: dict[str, _Change] = {
    _CLASSES: lambda logits: logits.roll(1, 0),
    _BOXES: lambda boxes: _zeros_before(boxes, 4),
    _MASKS: lambda masks: _zeros_before(masks, 1),
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
    write_config=partial(write_config, "torchvision"),
    backbone="resnet",
)
_BACKBONE = with_prefix(resnet.timm_rows(), "backbone.", "backbone.body.") + _neck_rows()
_RCNN = {"max_detections": 100, "layers": 2, "convolutions": 0, "class_agnostic": False}
_NORMS: tuple[dict[str, Any], ...] = (  # frozen batch norms of a torchvision file are read with an eps of 0
    {"batch_norms": "buffers", "batch_norm_eps": 0.0},
    {"batch_norms": "evaluate", "batch_norm_eps": None},
    {"batch_norms": "train", "batch_norm_eps": None},
)


def _layouts(head: tuple[Row, ...], found_by: str, names: tuple[str, ...], needs: dict[str, Any]) -> list[Layout]:
    """Return the layouts of some detectors, one for each kind of batch norms that a file can have."""
    distinct = (_BODY, _STATISTICS, found_by)
    layout = partial(_layout, _BACKBONE + head, distinct, _sizes, also_for=names)
    return [
        layout(
            needs={**_RULES, **needs, **norms}, finish=_finish_frozen if norms["batch_norms"] == "buffers" else _finish
        )
        for norms in _NORMS
    ]


LAYOUTS = (
    refused(
        "torchvision's fasterrcnn_resnet50_fpn_v2 or maskrcnn_resnet50_fpn_v2",
        "batch norms in the feature pyramid",
        _BODY,
        "backbone.fpn.inner_blocks.0.1.running_mean",
    ),
    refused("torchvision's FCOS", "another head", _BODY, "head.regression_head.bbox_ctrness.weight"),
    refused("torchvision's Keypoint R-CNN", "keypoints", _BODY, "roi_heads.keypoint_predictor.kps_score_lowres.weight"),
    *_layouts(_rcnn_rows(), "rpn.head.cls_logits.weight", ("faster-rcnn", "mask-rcnn"), _RCNN),
    *_layouts(_dense_rows(), "head.classification_head.cls_logits.weight", ("retinanet",), {"max_detections": 300}),
)
