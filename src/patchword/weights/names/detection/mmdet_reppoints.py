"""The names of RepPoints v2 in Swin's detection repository."""

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

_ROUNDS = 8  # more than any neck has
_NECK = "neck.bi_fpn.0.lateral_combine.0.weights"
_HEAD = "bbox_head.reppoints_cls_conv.weight"


def _conv_norm(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of a convolution and its norm."""
    return rows((f"{ours}.0.{{p}}", f"{theirs}.conv.{{p}}"), (f"{ours}.1.{{p}}", f"{theirs}.gn.{{p}}"))


def _neck_rows() -> tuple[Row, ...]:
    found: tuple[Row, ...] = ()
    for number in range(_ROUNDS):
        ours, theirs = f"neck.rounds.{number}.", f"neck.bi_fpn.{number}."
        found += _conv_norm(f"{ours}lateral.{{i}}", f"{theirs}lateral_convs.{{i}}")
        for own, their in (("top_down", "lateral_combine"), ("bottom_up", "out_combine")):
            found += rows((f"{ours}{own}.{{i}}.weights", f"{theirs}{their}.{{i}}.weights"))
            found += _conv_norm(f"{ours}{own}.{{i}}.output", f"{theirs}{their}_conv.{{i}}")
    return found


def _head_rows() -> tuple[Row, ...]:
    head, box = "head.", "bbox_head."
    found = _conv_norm(f"{head}semantic_embedding", f"{box}reppoints_sem_embedding")
    for ours, theirs in (("class_tower", "cls_convs"), ("point_tower", "reg_convs"), ("shared_tower", "shared_convs")):
        found += _conv_norm(f"{head}{ours}.{{i}}", f"{box}{theirs}.{{i}}")
    for ours, theirs in (("upper_left", "hem_tl"), ("lower_right", "hem_br")):
        own, their = f"{head}{ours}.", f"{box}{theirs}."
        for layer, name in (("first", "p1_conv1"), ("second", "p2_conv1"), ("output", "conv2")):
            found += _conv_norm(f"{own}{layer}", f"{their}{name}")
        for layer, conv, norm in (("merge", "p_conv1", "p_gn1"), ("skip", "conv1", "gn1")):
            found += rows(
                (f"{own}{layer}.0.{{p}}", f"{their}{conv}.{{p}}"), (f"{own}{layer}.1.{{p}}", f"{their}{norm}.{{p}}")
            )
        for layer in ("score", "offset"):
            found += rows((f"{own}{layer}.{{p}}", f"{box}reppoints_{theirs}_{layer}_out.{{p}}"))
    return found + rows(
        (f"{head}semantic_output.{{p}}", f"{box}reppoints_sem_out.{{p}}"),
        (f"{head}first_conv.{{p}}", f"{box}reppoints_pts_init_conv.{{p}}"),
        (f"{head}first_output.{{p}}", f"{box}reppoints_pts_init_out.{{p}}"),
        (f"{head}class_conv.{{p}}", f"{box}reppoints_cls_conv.{{p}}"),
        (f"{head}class_output.{{p}}", f"{box}reppoints_cls_out.{{p}}"),
        (f"{head}refine_conv.{{p}}", f"{box}reppoints_pts_refine_conv.{{p}}"),
        (f"{head}refine_output.{{p}}", f"{box}reppoints_pts_refine_out.{{p}}"),
    )


def _sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the config, without the backbone. The number of groups cannot be seen; 32 is the authors'."""
    if "head.class_output.weight" not in shapes:
        return {}

    def count(pattern: str) -> int:
        return sum(re.fullmatch(pattern, name) is not None for name in shapes)

    classes, width = shapes["head.class_output.weight"][:2]
    return {
        "classes": classes,
        "width": width,
        "depth": count(r"head\.class_tower\.\d+\.0\.weight"),
        "shared_depth": count(r"head\.shared_tower\.\d+\.0\.weight"),
        "corner_width": shapes["head.upper_left.first.0.weight"][0],
        "rounds": count(r"neck\.rounds\.\d+\.top_down\.0\.weights"),
    }


def _resnet_sizes(shapes: Shapes) -> dict[str, Any]:
    return backbone_sizes("resnet", shapes, "backbone.", resnet.sizes) | _sizes(shapes)


def _swin_sizes(shapes: Shapes) -> dict[str, Any]:
    return swin_sizes(shapes) | _sizes(shapes)


_ROWS = _neck_rows() + _head_rows()
HEADS = DetectionLayout("mmdet", "", _ROWS, (_NECK,), lambda shapes: {})
_layout = partial(
    DetectionLayout,
    "mmdet",
    "",
    detector=lambda names: "reppoints-v2",
    also_for=("reppoints-v2",),
    write_config=partial(write_config, "mmdet"),
)
LAYOUTS = (
    _layout(
        with_prefix(resnet.timm_rows(), "backbone.", "backbone.") + _ROWS,
        ("backbone.layer1.0.conv1.weight", _NECK, _HEAD),
        _resnet_sizes,
        backbone="resnet",
        needs={"groups": 32, "corner_groups": None, "batch_norm_eps": None},
    ),
    _layout(
        swin_rows() + _ROWS,
        (SWIN, _NECK, _HEAD),
        _swin_sizes,
        {"window_padding": "attended"},
        backbone="swin",
        dropped=SWIN_BUFFERS,
        needs={"groups": 32, "corner_groups": None, "batch_norm_eps": None, "window_padding": "attended"},
    ),
)
