"""Backbones of segmenters: those of detectors, or a ResNet with mmseg's stem."""

from typing import cast

from patchword.core.errors import UserError
from patchword.layers.convolution.blocks import ConvStage, ConvStem
from patchword.layers.dense.backbones import fix_batch_norms, set_batch_norm_eps
from patchword.layers.dense.segmentation.deep_stem import DeepStem
from patchword.layers.init import kaiming
from patchword.models.dense.backbones import DenseBackbone, dense_backbone, stages_of
from patchword.models.segmentation.config import SegmenterConfig


def segmenter_backbone(c: SegmenterConfig) -> DenseBackbone:
    """Return the backbone, with newly initialized weights."""
    backbone = dense_backbone(c)
    if c.deep_stem:
        _use_deep_stem(cast(ConvStage, stages_of(backbone).stages[0]), c)
    return backbone


def _use_deep_stem(stage: ConvStage, c: SegmenterConfig) -> None:
    """Replace the stem of a ResNet. It is frozen together with its stage."""
    old = stage.stem
    if not isinstance(old, ConvStem) or not c.backbone.startswith("resnet") or stage.stride != 4:
        raise UserError(
            f"{c.backbone!r} has no stem that deep_stem can replace",
            expected="a ResNet whose stem has a stride of 4, or deep_stem=False",
        )
    stage.stem = DeepStem(old.channels, old.first.width)
    kaiming(stage.stem)
    set_batch_norm_eps(stage.stem, c.batch_norm_eps)
    fix_batch_norms(stage.stem, c.batch_norms)
    stage.stem.requires_grad_(old.first.convolution.weight.requires_grad)  # after new norms have been made
