"""The names of Sparse R-CNN in mmdet, and in Swin's detection repository."""

import re
from functools import partial
from typing import Any

from patchword.weights.names.detection.detection_layout import (
    DetectionLayout,
    backbone_sizes,
    with_prefix,
    write_config,
)
from patchword.weights.names.detection.mmdet_backbones import SWIN, SWIN_BUFFERS, swin_rows, swin_sizes
from patchword.weights.names.name_table import Row, Shapes, rows
from patchword.weights.names.vision import resnet

_STAGES = 12  # more than any detector has
_BOXES = "rpn_head.init_proposal_bboxes.weight"


def _head_rows() -> tuple[Row, ...]:
    found = rows(
        ("neck.lateral.{i}.{p}", "neck.lateral_convs.{i}.conv.{p}"),
        ("neck.output.{i}.{p}", "neck.fpn_convs.{i}.conv.{p}"),
        ("boxes", _BOXES),
        ("queries", "rpn_head.init_proposal_features.weight"),
    )
    for stage in range(_STAGES):
        ours, theirs = f"stages.{stage}.", f"roi_head.bbox_head.{stage}."
        conv = f"{theirs}instance_interactive_conv"
        found += rows(
            (f"{ours}attention.sublayer.projection.joint.weight", f"{theirs}attention.attn.in_proj_weight"),
            (f"{ours}attention.sublayer.projection.joint.bias", f"{theirs}attention.attn.in_proj_bias"),
            (f"{ours}attention.sublayer.output.{{p}}", f"{theirs}attention.attn.out_proj.{{p}}"),
            (f"{ours}attention.norm.{{p}}", f"{theirs}attention_norm.{{p}}"),
            (f"{ours}dynamic.sublayer.weights.{{p}}", f"{conv}.dynamic_layer.{{p}}"),
            (f"{ours}dynamic.sublayer.norm_in.{{p}}", f"{conv}.norm_in.{{p}}"),
            (f"{ours}dynamic.sublayer.norm_out.{{p}}", f"{conv}.norm_out.{{p}}"),
            (f"{ours}dynamic.sublayer.output.{{p}}", f"{conv}.fc_layer.{{p}}"),
            (f"{ours}dynamic.sublayer.norm.{{p}}", f"{conv}.fc_norm.{{p}}"),
            (f"{ours}dynamic.norm.{{p}}", f"{conv}_norm.{{p}}"),
            (f"{ours}feed_forward.sublayer.up.{{p}}", f"{theirs}ffn.layers.0.0.{{p}}"),
            (f"{ours}feed_forward.sublayer.down.{{p}}", f"{theirs}ffn.layers.1.{{p}}"),
            (f"{ours}feed_forward.norm.{{p}}", f"{theirs}ffn_norm.{{p}}"),
            (f"{ours}class_tower.{{i}}.{{p}}", f"{theirs}cls_fcs.{{i}}.{{p}}"),
            (f"{ours}box_tower.{{i}}.{{p}}", f"{theirs}reg_fcs.{{i}}.{{p}}"),
            (f"{ours}class_output.{{p}}", f"{theirs}fc_cls.{{p}}"),
            (f"{ours}box_output.{{p}}", f"{theirs}fc_reg.{{p}}"),
        )
    return found


def _sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the config, without the backbone. The number of attention heads cannot be seen; 8 is the authors'."""
    stage = "stages.0."
    if f"{stage}class_output.weight" not in shapes or "queries" not in shapes:
        return {}

    def layers(tower: str) -> int:
        return sum(re.fullmatch(rf"stages\.0\.{tower}\.\d+\.bias", name) is not None for name in shapes)

    proposals, width = shapes["queries"]
    return {
        "classes": shapes[f"{stage}class_output.weight"][0],
        "width": width,
        "proposals": proposals,
        "stages": sum(re.fullmatch(r"stages\.\d+\.class_output\.weight", name) is not None for name in shapes),
        "hidden": shapes[f"{stage}feed_forward.sublayer.up.weight"][0],
        "inner": shapes[f"{stage}dynamic.sublayer.norm_in.weight"][0],
        "class_layers": layers("class_tower"),
        "box_layers": layers("box_tower"),
    }


def _resnet_sizes(shapes: Shapes) -> dict[str, Any]:
    return backbone_sizes("resnet", shapes, "backbone.", resnet.sizes) | _sizes(shapes)


def _swin_sizes(shapes: Shapes) -> dict[str, Any]:
    return swin_sizes(shapes) | _sizes(shapes)


_ROWS = _head_rows()
HEADS = DetectionLayout("mmdet", "", _ROWS, (_BOXES,), lambda shapes: {})
_layout = partial(
    DetectionLayout,
    "mmdet",
    "",
    detector=lambda names: "sparse-rcnn",
    also_for=("sparse-rcnn",),
    write_config=partial(write_config, "mmdet"),
)
LAYOUTS = (
    _layout(
        with_prefix(resnet.timm_rows(), "backbone.", "backbone.") + _ROWS,
        ("backbone.layer1.0.conv1.weight", _BOXES),
        _resnet_sizes,
        {"clipped": False},
        backbone="resnet",
        needs={"heads": 8, "batch_norm_eps": None, "clipped": False},
    ),
    _layout(
        swin_rows() + _ROWS,
        (SWIN, _BOXES),
        _swin_sizes,
        {"window_padding": "attended", "clipped": False},
        backbone="swin",
        dropped=SWIN_BUFFERS,
        needs={"heads": 8, "batch_norm_eps": None, "clipped": False, "window_padding": "attended"},
    ),
)
