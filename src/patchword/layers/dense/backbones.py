"""Backbones made ready for detection and segmentation: norms of the maps, no [CLS], frozen parts, a simple pyramid."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, cast

import torch.nn.functional as F
from torch import Tensor, nn

from patchword.layers.embedding.absolute import LearnedPositions, NoPrefix, Prefix
from patchword.layers.pyramid import Backbone, Stage

BatchNorms = Literal["train", "evaluate", "buffers"]


class NormedMaps(nn.Module):
    """A backbone with a LayerNorm over the channels of each map, as in the dense code of Swin and CSWin."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.backbone, self.strides, self.widths = backbone, backbone.strides, backbone.widths
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in self.widths)

    def forward(self, images: Tensor) -> list[Tensor]:
        """(batch, channels, height, width) -> the normalized map of each stage"""
        maps = self.backbone(images)
        return [norm(each.movedim(1, -1)).movedim(-1, 1) for norm, each in zip(self.norms, maps, strict=True)]


class SimplePyramid(nn.Module):
    """Four maps of strides 4, 8, 16 and 32 from a single one of stride 16 (Li et al., 2022), e.g. of a ViT.

    multiple: pixels that divide height and width of images without padding in the patch embedding: the patch size.
    """

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        width, self.multiple = backbone.widths[-1], backbone.strides[-1]
        self.backbone, self.strides, self.widths = backbone, (4, 8, 16, 32), (width // 4, width // 2, width, width)
        self.upsample_4 = nn.Sequential(
            nn.ConvTranspose2d(width, width // 2, 2, stride=2),
            nn.GroupNorm(1, width // 2),
            nn.GELU(),
            nn.ConvTranspose2d(width // 2, width // 4, 2, stride=2),
        )
        self.upsample_2 = nn.ConvTranspose2d(width, width // 2, 2, stride=2)

    def forward(self, images: Tensor) -> list[Tensor]:
        """(batch, channels, height, width) -> four maps"""
        only = self.backbone(images)[-1]
        return [self.upsample_4(only), self.upsample_2(only), only, F.max_pool2d(only, 2, ceil_mode=True)]


class FixedBatchNorm2d(nn.BatchNorm2d):
    """A batch norm with fixed statistics, in training, too. buffers: weight and bias are not parameters."""

    def __init__(self, norm: nn.BatchNorm2d, buffers: bool) -> None:
        super().__init__(norm.num_features, norm.eps, norm.momentum)
        self.load_state_dict(norm.state_dict())
        self.to(norm.weight.device)
        if buffers:
            for name in ("weight", "bias"):
                value = getattr(self, name).detach()
                delattr(self, name)
                self.register_buffer(name, value)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize with the stored mean and variance."""
        return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


def fix_batch_norms(module: nn.Module, kind: BatchNorms) -> None:
    """Replace the batch norms inside a module by fixed ones, unless kind is "train"."""
    if kind == "train":
        return
    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, FixedBatchNorm2d(child, buffers=kind == "buffers"))
        else:
            fix_batch_norms(child, kind)


def set_batch_norm_eps(module: nn.Module, eps: float | None) -> None:
    """Set the eps of the batch norms inside a module, unless it is None."""
    for norm in module.modules():
        if isinstance(norm, nn.BatchNorm2d) and eps is not None:
            norm.eps = eps


def freeze_stages(backbone: Backbone, count: int) -> None:
    """Exclude the first stages, with their stems, from training."""
    for stage in backbone.stages[:count]:
        stage.requires_grad_(False)


def drop_prefix(backbone: Backbone) -> None:
    """Remove the leading tokens of all stages, with their rows of the position tables (PVT's [CLS])."""
    for stage in cast(Sequence[Stage], backbone.stages):
        prefix = getattr(stage, "prefix", None)
        if not isinstance(prefix, Prefix):
            continue
        stage.prefix = NoPrefix()
        if isinstance(stage.positions, LearnedPositions):
            count = prefix.tokens.shape[1]
            stage.positions.table = nn.Parameter(stage.positions.table.detach()[:, count:])
            stage.positions.grid = replace(stage.positions.grid, prefix=0)
