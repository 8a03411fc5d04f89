"""Parts of the name tables of segmenters that all libraries share."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from patchword.core.card import Card
from patchword.weights.names.detection.detection_layout import backbone_family
from patchword.weights.names.name_table import Layout, Row, Shapes, rows

Their = Mapping[str, Tensor]
SCALES = (1, 2, 3, 6)  # of the pyramid pooling; the tensors only give their number


@dataclass(frozen=True)
class SegmentationLayout(Layout):
    """The names of one library for segmenters on one family of backbones.

    segmenter: their tensors -> our name. backbone: the family of the backbones.
    stated: their tensors -> fields of the config that follow from them.
    """

    segmenter: Callable[[Container[str]], str] = lambda names: "upernet"
    backbone: str = ""
    stated: Callable[[Their], dict[str, Any]] = lambda tensors: {}

    def reading(self, tensors: Their) -> Layout:
        """Return the layout of the segmenter that has these tensors."""
        return replace(self, family=self.segmenter(tensors), implied={**self.implied, **self.stated(tensors)})

    def writes(self, family: str, card: Card) -> bool:
        """True if this library has the segmenter of the card, on its backbone."""
        return super().writes(family, card) and backbone_family(card) == self.backbone


def upernet_rows(norm: str, output: str) -> tuple[Row, ...]:
    """Return the rows of UperNet's heads. norm, output: their names of a batch norm and of the layer of the logits."""
    pairs = [
        ("head.pooling.pooled.{i}", "decode_head.psp_modules.{i}.1"),
        ("head.pooling.fuse", "decode_head.bottleneck"),
        ("head.lateral.{i}", "decode_head.lateral_convs.{i}"),
        ("head.output.{i}", "decode_head.fpn_convs.{i}"),
        ("head.fuse", "decode_head.fpn_bottleneck"),
        ("auxiliary.convolution", "auxiliary_head.convs.0"),
    ]
    found = [row for ours, theirs in pairs for row in conv_norm_rows(ours, theirs, norm)]
    return (
        *found,
        *rows(
            ("head.class_output.convolution.{p}", f"decode_head.{output}.{{p}}"),
            ("auxiliary.class_output.convolution.{p}", f"auxiliary_head.{output}.{{p}}"),
        ),
    )


def conv_norm_rows(ours: str, theirs: str, norm: str) -> tuple[Row, ...]:
    """Return the rows of a convolution and its batch norm. norm: their name of it."""
    return rows((f"{ours}.convolution.{{p}}", f"{theirs}.conv.{{p}}"), (f"{ours}.norm.{{p}}", f"{theirs}.{norm}.{{p}}"))


def segmenter_sizes(shapes: Shapes, backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Infer the config of a segmenter. backbone: its fields `backbone` and `backbone_fields`."""
    values = dict(backbone)
    if logits := shapes.get("head.class_output.convolution.weight"):
        values["classes"] = logits[0]
    if fuse := shapes.get("head.fuse.convolution.weight"):
        auxiliary = shapes.get("auxiliary.convolution.convolution.weight", (0,))
        return {**values, "width": fuse[0], "auxiliary": auxiliary[0]}
    neck, first = shapes.get("neck.lateral.0.weight"), shapes.get("head.scales.0.convolutions.0.convolution.weight")
    return values | ({"width": neck[0], "hidden": first[0]} if neck and first else {})
