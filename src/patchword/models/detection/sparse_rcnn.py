"""Sparse R-CNN with the sizes of Swin's tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, PositiveInt

from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.fpn import Fpn
from patchword.layers.dense.queries.sparse_detector import SparseDetector
from patchword.layers.dense.queries.sparse_head import SparseHead
from patchword.layers.dense.roi_heads import RoiPool
from patchword.models.dense.backbones import dense_backbone
from patchword.models.detection.config import DetectorConfig
from patchword.models.detection.family import DetectorFamily


@dataclass(frozen=True, kw_only=True)
class SparseRcnnConfig(DetectorConfig):
    """Sizes of Sparse R-CNN.

    proposals: learned boxes, each with a query. stages: heads that refine them one after the other.
    heads, hidden: of attention and feed-forward. inner: channels inside the dynamic convolution.
    class_layers, box_layers: linear layers before the outputs. dropout: of the heads.
    clipped: detections are clipped to the image (the authors' code), or not (mmdet).
    """

    proposals: PositiveInt = 300
    stages: PositiveInt = 6
    heads: PositiveInt = 8
    hidden: PositiveInt = 2048
    inner: PositiveInt = 64
    class_layers: PositiveInt = 1
    box_layers: PositiveInt = 3
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clipped: bool = True


def build_sparse_rcnn(c: SparseRcnnConfig) -> SparseDetector:
    """Build a Sparse R-CNN on all maps of the backbone."""
    backbone = dense_backbone(c)
    neck = Fpn(backbone.widths, c.width, extra=0, extra_from="pool")
    pool, coder = RoiPool(backbone.strides, 7, samples=2), BoxCoder((0.5, 0.5, 1.0, 1.0), clamp_below=True)
    stages = [
        SparseHead(
            pool,
            coder,
            c.width,
            c.classes,
            heads=c.heads,
            hidden=c.hidden,
            inner=c.inner,
            class_layers=c.class_layers,
            box_layers=c.box_layers,
            dropout=c.dropout,
        )
        for _ in range(c.stages)
    ]
    return SparseDetector(backbone, neck, stages, c.proposals, c.width, c.max_detections, c.clipped)


SPARSE_DETECTORS: Mapping[str, DetectorFamily] = {
    "sparse-rcnn": DetectorFamily(
        "Sparse R-CNN", "arXiv:2011.12450", SparseRcnnConfig(), build_sparse_rcnn, 106_342_888, 168_326_553_600
    ),
}
