"""UperNet and Semantic FPN, with the sizes of mmseg."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from patchword.core.card import Card, ConfigValue
from patchword.core.errors import UserError, nearest
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.layers.dense.segmentation.semantic_fpn import SemanticFpnHead
from patchword.layers.dense.segmentation.upernet import FcnHead, UperNetHead
from patchword.models.dense.backbones import pixel_normalization
from patchword.models.registry import configured
from patchword.models.segmentation.backbones import segmenter_backbone
from patchword.models.segmentation.config import SegmenterFamily, SemanticFpnConfig, UperNetConfig

SegmenterName = Literal["upernet", "semantic-fpn"]


def build_upernet(c: UperNetConfig) -> Segmenter:
    """Build an UperNet. A backbone with three maps, such as CvT, has a pyramid of three levels."""
    backbone = segmenter_backbone(c)
    head = UperNetHead(backbone.widths, c.width, c.classes, scales=c.scales, dropout=c.head_dropout)
    level = max(0, len(backbone.widths) - 2)
    auxiliary = (
        FcnHead(backbone.widths[level], c.auxiliary, c.classes, level=level, dropout=c.head_dropout)
        if c.auxiliary
        else None
    )
    return Segmenter(backbone, None, head, auxiliary)


def build_semantic_fpn(c: SemanticFpnConfig) -> Segmenter:
    """Build a Semantic FPN."""
    backbone = segmenter_backbone(c)
    neck = Fpn(backbone.widths, c.width, extra=0, extra_from="pool")
    head = SemanticFpnHead(backbone.strides, c.width, c.hidden, c.classes, dropout=c.head_dropout)
    return Segmenter(backbone, neck, head)


SEGMENTERS: Mapping[str, SegmenterFamily] = {  # the names above
    "upernet": SegmenterFamily(
        "UperNet", "arXiv:1807.10221", UperNetConfig(), build_upernet, 66_496_876, 236_606_980_096
    ),
    "semantic-fpn": SegmenterFamily(
        "Semantic FPN", "arXiv:1901.02446", SemanticFpnConfig(), build_semantic_fpn, 28_495_574, 44_291_850_240
    ),
}


def create_segmenter(name: str, /, **overrides: ConfigValue) -> Segmenter:
    """Create a segmenter with newly initialized weights.

    >>> create_segmenter("upernet", backbone="swin-tiny", classes=11)
    """
    if name not in SEGMENTERS:
        raise UserError(f"no segmenter is called {name!r}", hint=nearest(name, SEGMENTERS))
    config = configured(name, SEGMENTERS[name].config, overrides)
    segmenter = SEGMENTERS[name].build(config)
    segmenter.card = Card(name, asdict(config), normalization=pixel_normalization(config))
    return segmenter
