"""Models of the registry as backbones of detectors and segmenters."""

from torch import nn

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.layers.convolution.blocks import ConvStage
from patchword.layers.dense.backbones import (
    NormedMaps,
    SimplePyramid,
    drop_prefix,
    fix_batch_norms,
    freeze_stages,
    set_batch_norm_eps,
)
from patchword.layers.dense.padded_windows import attend_to_padding, has_windows
from patchword.layers.pyramid import Backbone
from patchword.models import REGISTRY, backbone_of
from patchword.models.dense.config import DenseConfig

DenseBackbone = Backbone | NormedMaps | SimplePyramid


def dense_backbone(c: DenseConfig) -> DenseBackbone:
    """Return the backbone, with newly initialized weights."""
    REGISTRY.require_images(c.backbone)
    backbone = backbone_of(REGISTRY.create(c.backbone, **c.backbone_fields), c.backbone)
    prepare(backbone, c)
    if REGISTRY.find(c.backbone)[0].normed_maps:
        return NormedMaps(backbone)
    if len(backbone.widths) > 1:
        return backbone
    if backbone.strides[-1] != 16:
        raise UserError(
            f"{c.backbone!r} as the backbone of a detector",
            expected="several maps, or one of stride 16",
            got=f"one of stride {backbone.strides[-1]}",
        )
    return SimplePyramid(backbone)


def prepare(backbone: Backbone, c: DenseConfig) -> None:
    """Change the stages of a classifier to those of a detector: frozen parts, batch norms, no [CLS], window padding."""
    convolutional = all(isinstance(stage, ConvStage) for stage in backbone.stages)
    set_batch_norm_eps(backbone, c.batch_norm_eps)
    fix_batch_norms(backbone, c.batch_norms)
    freeze_stages(backbone, (1 if convolutional else 0) if c.frozen is None else c.frozen)  # with the new norms
    drop_prefix(backbone)
    if c.window_padding == "attended":
        if not has_windows(backbone):
            raise UserError(f"{c.backbone!r} has no window padding", expected="a Swin, or window_padding=masked")
        attend_to_padding(backbone)


def stages_of(backbone: DenseBackbone) -> Backbone:
    """Return the stages of the registry's model inside a backbone."""
    return backbone if isinstance(backbone, Backbone) else backbone.backbone


def image_channels(backbone: nn.Module) -> int:
    """Return the channels of the images: those of the first convolution, or of the patch embedding."""
    for module in backbone.modules():
        found = getattr(module, "channels", None) or getattr(module, "in_channels", None)
        if isinstance(found, int):
            return found
    raise AssertionError("a backbone reads images")


def pixel_normalization(c: DenseConfig) -> Normalization:
    """Return the input normalization of the backbone, which is that of the detector."""
    family = REGISTRY.find(c.backbone)[0]
    assert family.normalization is not None, "a backbone reads images"
    return family.normalization.over(REGISTRY.configure(c.backbone, c.backbone_fields).channels)
