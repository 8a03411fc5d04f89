"""RegNetY (Radosavovic et al., 2020): a designed residual network with grouped convolutions; the teacher of DeiT.

The squeeze of a block is a quarter of the width that enters the block, not of its own width.
"""

from collections import OrderedDict
from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.core.errors import UserError
from patchword.layers import ConvNorm, ConvResidual, ConvStem, Pyramid, SqueezeExcite, shortcut
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages
from patchword.models.vision.convolutional import build_convolutional


@dataclass(frozen=True, kw_only=True)
class RegnetConfig(ImageConfig):
    """Sizes of a RegNetY."""

    widths: PerStage = (224, 448, 1232, 3024)
    depths: PerStage = (2, 4, 11, 1)
    group: PositiveInt = 112  # channels per group of the 3 x 3 convolutions
    stem: PositiveInt = 32  # width of the first convolution


def build(c: RegnetConfig) -> Pyramid:
    check_stages(widths=c.widths, depths=c.depths)

    def block(stage: int, channels: int, is_first: bool, drop_path: float) -> ConvResidual:
        return residual(channels, c.widths[stage], c.group, 2 if is_first else 1, drop_path)

    def stem() -> ConvStem:
        return ConvStem(c.channels, c.stem, 3, 2)

    return build_convolutional(c, c.depths, c.widths, stem, block, channels=c.stem, stride=4)


def residual(channels: int, width: int, group: int, stride: int, drop_path: float) -> ConvResidual:
    if width % group:
        raise UserError("group does not divide a width", expected=f"widths that are multiples of {group}", got=width)
    branch = OrderedDict(
        first=ConvNorm(channels, width, 1),
        relu=nn.ReLU(),
        second=ConvNorm(width, width, 3, stride, groups=width // group),
        relu_2=nn.ReLU(),
        weighing=SqueezeExcite(width, max(1, round(channels / 4))),
        third=ConvNorm(width, width, 1),
    )
    return ConvResidual(nn.Sequential(branch), shortcut(channels, width, stride), drop_path)


MINI = RegnetConfig(widths=(64, 96), depths=(3, 4), group=16, stem=32, image=28, channels=1, classes=10)

FAMILY = Family(
    name="regnety",
    title="RegNetY",
    paper="arXiv:2003.13678",
    build=build,
    normalization=IMAGENET,
    variants={  # table 6 of the paper
        "4gf": Variant(
            RegnetConfig(widths=(128, 192, 512, 1088), depths=(2, 6, 12, 2), group=64), 20_646_656, 3_973_288_448
        ),
        "8gf": Variant(
            RegnetConfig(widths=(168, 448, 896, 2016), depths=(2, 4, 10, 1), group=56), 39_180_068, 7_963_057_312
        ),
        "16gf": Variant(RegnetConfig(), 83_590_140, 15_911_510_272),
        "mini": Variant(MINI, 212_138, 5_255_744),
    },
)
