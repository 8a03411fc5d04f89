"""The names of mmdet, and of Swin's detection repository, which is mmdet 2.11."""

from collections.abc import Container, Mapping
from functools import partial
from typing import Any

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
from patchword.weights.names.detection.mmdet_backbones import SWIN, SWIN_BUFFERS, swin_rows, swin_sizes
from patchword.weights.names.name_table import Layout, Row, Shapes, rows
from patchword.weights.names.vision import resnet

_STAGES, _LAYERS, _LEVELS = 3, 8, 5  # stages of a cascade; more layers than any head has; levels of a pyramid
_NECK = "neck.lateral_convs.0.conv.weight"


_RCNN = ("faster-rcnn", "mask-rcnn", "cascade-mask-rcnn")
# Conventions of mmdet's code, which its files do not state.
RULES = {"rounded_anchors": False, "fitted_strides": False, "clamp_below": True, "batch_norm_eps": None}
_RCNN_RULES = {**RULES, "aligned": True, "samples": "adaptive", "min_proposal_size": 0.0, "min_box_size": 0.0}
_DENSE_RULES = {**RULES, "extra_relu": False, "integer_lengths": False, "rank_pairs": False}


def _neck_rows() -> tuple[Row, ...]:
    return rows(
        ("neck.lateral.{i}.{p}", "neck.lateral_convs.{i}.conv.{p}"),
        ("neck.output.{i}.{p}", "neck.fpn_convs.{i}.conv.{p}"),
        ("neck.downsample.{i}.{p}", "neck.extra_convs.{i}.conv.{p}"),
    )


def _dense_rows(name: str) -> tuple[Row, ...]:
    """Return the rows of the head of RetinaNet ("retina") or ATSS ("atss")."""
    head = "proposer.head."
    found = rows(
        (head + "class_output.{p}", f"bbox_head.{name}_cls.{{p}}"),
        (head + "box_output.{p}", f"bbox_head.{name}_reg.{{p}}"),
        (head + "centerness_output.{p}", "bbox_head.atss_centerness.{p}"),
        (head + "scales", tuple(f"bbox_head.scales.{level}.scale" for level in range(_LEVELS))),
    )
    for ours, theirs in (("class_tower", "cls_convs"), ("box_tower", "reg_convs")):
        for layer in range(_LAYERS):
            found += tower_rows(f"{head}{ours}.", f"bbox_head.{theirs}.{layer}.", "conv", "gn", layer)
    return found


def _rcnn_rows() -> tuple[Row, ...]:
    head, roi = "proposer.head.", "roi_head."
    found = rows(
        (head + "class_tower.0.{p}", "rpn_head.rpn_conv.{p}"),
        (head + "class_output.{p}", "rpn_head.rpn_cls.{p}"),
        (head + "box_output.{p}", "rpn_head.rpn_reg.{p}"),
    )
    for stage in range(_STAGES):
        boxes, masks = f"{roi}bbox_head.{stage}.", f"{roi}mask_head.{stage}."
        found += rows(
            (f"stages.{stage}.convolutions.{{i}}.0.{{p}}", boxes + "shared_convs.{i}.conv.{p}"),
            (f"stages.{stage}.convolutions.{{i}}.1.{{p}}", boxes + "shared_convs.{i}.bn.{p}"),
            (f"stages.{stage}.class_output.{{p}}", boxes + "fc_cls.{p}"),
            (f"stages.{stage}.box_output.{{p}}", boxes + "fc_reg.{p}"),
            (f"masks.{stage}.upsample.{{p}}", masks + "upsample.{p}"),
            (f"masks.{stage}.output.{{p}}", masks + "conv_logits.{p}"),
        )
        for layer in range(_LAYERS):
            found += rows((f"stages.{stage}.linear.{2 * layer}.{{p}}", f"{boxes}shared_fcs.{layer}.{{p}}"))
            found += rows((f"masks.{stage}.convolutions.{2 * layer}.{{p}}", f"{masks}convs.{layer}.conv.{{p}}"))
    return found


def prepare(tensors: Their) -> Tensors:
    """Number the heads of a single stage, name the extra convolutions of the neck, and make the scales vectors."""
    levels = sum(name.startswith("neck.lateral_convs.") and name.endswith(".weight") for name in tensors)
    found = renamed(tensors, r"roi_head\.(bbox|mask)_head\.(?!\d)", r"roi_head.\1_head.0.")
    for extra in range(_LEVELS - levels):
        found = renamed(found, rf"neck\.fpn_convs\.{levels + extra}\.", f"neck.extra_convs.{extra}.")
    return {name: tensor.reshape(1) if name.endswith(".scale") else tensor for name, tensor in found.items()}


def _finish(tensors: Tensors) -> Tensors:
    """Invert `prepare`."""
    levels = sum(name.startswith("neck.lateral_convs.") and name.endswith(".weight") for name in tensors)
    found: Tensors = dict(tensors)
    if not any(name.startswith("roi_head.bbox_head.1.") for name in found):
        found = renamed(found, r"roi_head\.(bbox|mask)_head\.0\.", r"roi_head.\1_head.")
    found = renamed(found, r"neck\.extra_convs\.(\d+)\.", lambda one: f"neck.fpn_convs.{levels + int(one[1])}.")
    return {name: tensor.reshape(()) if name.endswith(".scale") else tensor for name, tensor in found.items()}


def _detector(names: Container[str]) -> str:
    if "bbox_head.retina_cls.weight" in names:
        return "retinanet"
    if "bbox_head.atss_cls.weight" in names:
        return "atss"
    if "roi_head.bbox_head.0.fc_cls.weight" in names:
        return "cascade-mask-rcnn"
    return "mask-rcnn" if "roi_head.mask_head.conv_logits.weight" in names else "faster-rcnn"


def _resnet_sizes(shapes: Shapes) -> dict[str, Any]:
    return detector_sizes(shapes, backbone_sizes("resnet", shapes, "backbone.", resnet.sizes))


def _swin_sizes(shapes: Shapes) -> dict[str, Any]:
    return detector_sizes(shapes, swin_sizes(shapes))


HEADS = DetectionLayout(
    "mmdet",
    "",
    _neck_rows() + _rcnn_rows() + _dense_rows("retina") + _dense_rows("atss"),
    (_NECK,),
    lambda shapes: {},
    prepare=prepare,
)


def _layouts(
    head: tuple[Row, ...], found_by: str, names: tuple[str, ...], rules: Mapping[str, Any]
) -> tuple[Layout, ...]:
    """Return the layouts of some detectors on ResNet and on Swin. found_by: one of the tensors of their heads."""
    layout = partial(
        DetectionLayout,
        "mmdet",
        "",
        detector=_detector,
        prepare=prepare,
        finish=_finish,
        also_for=names,
        write_config=partial(write_config, "mmdet"),
    )
    return (
        layout(
            with_prefix(resnet.timm_rows(), "backbone.", "backbone.") + _neck_rows() + head,
            ("backbone.layer1.0.conv1.weight", _NECK, found_by),
            _resnet_sizes,
            backbone="resnet",
            needs=rules,
        ),
        layout(
            swin_rows() + _neck_rows() + head,
            (SWIN, _NECK, found_by),
            _swin_sizes,
            {"window_padding": "attended"},
            backbone="swin",
            dropped=SWIN_BUFFERS,
            needs={**rules, "window_padding": "attended"},
        ),
    )


LAYOUTS = (
    refused(
        "mmdet's own Swin (from mmdet 2.16 on)",
        "a patch merging with channels in another order; Swin's detection repository has other names",
        "backbone.stages.0.blocks.0.attn.w_msa.relative_position_bias_table",
    ),
    *_layouts(_rcnn_rows(), "rpn_head.rpn_cls.weight", _RCNN, _RCNN_RULES),
    *_layouts(_dense_rows("retina"), "bbox_head.retina_cls.weight", ("retinanet",), _DENSE_RULES),
    *_layouts(_dense_rows("atss"), "bbox_head.atss_cls.weight", ("atss",), _DENSE_RULES),
)
