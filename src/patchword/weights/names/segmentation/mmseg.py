"""The names of mmseg, and of Swin's segmentation repository, which is mmseg 0.11."""

from collections.abc import Container
from functools import partial
from typing import Any

from patchword.weights.names.detection.detection_layout import backbone_sizes, refused, with_prefix, write_config
from patchword.weights.names.detection.mmdet_backbones import swin_rows, swin_sizes
from patchword.weights.names.name_table import Row, Shapes, rows
from patchword.weights.names.segmentation.segmentation_layout import (
    SCALES,
    SegmentationLayout,
    Their,
    conv_norm_rows,
    segmenter_sizes,
    upernet_rows,
)
from patchword.weights.names.vision import resnet
from patchword.weights.names.vision.convolutions import conv_norm
from patchword.weights.names.vision.swin import buffers

_LEVELS, _STEPS = 6, 6  # more levels of a pyramid, and more convolutions on one of them, than any segmenter has
_LOGITS, _UPERNET, _FPN = (
    f"decode_head.{name}.weight" for name in ("conv_seg", "fpn_bottleneck.conv", "scale_heads.0.0.conv")
)
_DEEP = "backbone.stem.0.weight"  # ResNetV1c


def _head_rows() -> tuple[Row, ...]:
    found = upernet_rows("bn", "conv_seg") + rows(
        ("neck.lateral.{i}.{p}", "neck.lateral_convs.{i}.conv.{p}"),
        ("neck.output.{i}.{p}", "neck.fpn_convs.{i}.conv.{p}"),
    )
    for level in range(_LEVELS):
        for step in range(_STEPS):  # an enlargement, which has no weights, follows each convolution
            ours, theirs = f"head.scales.{level}.convolutions.{step}", f"decode_head.scale_heads.{level}.{2 * step}"
            found += conv_norm_rows(ours, theirs, "bn")
    return found


def _resnet_rows() -> tuple[Row, ...]:
    """Return the rows of ResNet, and those of the stem of ResNetV1c, whose tensors are numbered."""
    stem, beside = "backbone.stages.0.stem.", ("backbone.stages.0.stem.second.convolution.weight", _DEEP)
    deep: tuple[Row, ...] = ()
    for number, name in enumerate(("first", "second", "third")):
        theirs = f"backbone.stem.{3 * number}", f"backbone.stem.{3 * number + 1}"
        deep += tuple(Row(row.ours, row.theirs, beside=beside) for row in conv_norm(stem + name, *theirs))
    return deep + with_prefix(resnet.timm_rows(), "backbone.", "backbone.")


def _resnet_sizes(shapes: Shapes) -> dict[str, Any]:
    """Infer the sizes. The width of a deep stem is that of its last convolution."""
    shapes, last = dict(shapes), "backbone.stages.0.stem.third.convolution.weight"
    first = "backbone.stages.0.stem.first.convolution.weight"
    if last in shapes and first in shapes:
        shapes[first] = (shapes[last][0], shapes[first][1], 7, 7)
    return segmenter_sizes(shapes, backbone_sizes("resnet", shapes, "backbone.", resnet.sizes))


def _swin_sizes(shapes: Shapes) -> dict[str, Any]:
    return segmenter_sizes(shapes, swin_sizes(shapes))


def _segmenter(names: Container[str]) -> str:
    return "semantic-fpn" if _FPN in names else "upernet"


def _stem(tensors: Their) -> dict[str, Any]:
    return {"deep_stem": _DEEP in tensors}


_layout = partial(
    SegmentationLayout,
    "mmseg",
    "",
    segmenter=_segmenter,
    also_for=("upernet", "semantic-fpn"),
    write_config=partial(write_config, "mmseg"),
)
HEADS = _layout(_head_rows(), (_LOGITS,), lambda shapes: {})


def _layouts(head: str) -> tuple[SegmentationLayout, ...]:
    """Return the layouts of a segmenter, which is recognised by one of its tensors."""
    return (
        _layout(
            _resnet_rows() + _head_rows(),
            (_LOGITS, head, "backbone.layer1.0.conv1.weight"),
            _resnet_sizes,
            backbone="resnet",
            stated=_stem,
            needs={"scales": SCALES},
        ),
        _layout(
            swin_rows() + _head_rows(),
            (_LOGITS, head, "backbone.layers.0.blocks.0.attn.relative_position_bias_table"),
            _swin_sizes,
            {"window_padding": "attended"},
            backbone="swin",
            dropped=buffers("backbone.layers", "attn_mask", "attn.relative_position_index"),
            needs={"scales": SCALES, "window_padding": "attended"},
        ),
    )


LAYOUTS = (
    refused(
        "mmseg's own Swin (from mmseg 0.18 on)",
        "a patch merging with channels in another order; Swin's segmentation repository has other names",
        "backbone.stages.0.blocks.0.attn.w_msa.relative_position_bias_table",
        _LOGITS,
    ),
    *_layouts(_UPERNET),
    *_layouts(_FPN),
    refused(
        "an mmseg segmenter",
        "another head than those of UperNet and Semantic FPN, or another backbone than ResNet and Swin",
        _LOGITS,
    ),
)
