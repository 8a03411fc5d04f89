"""RegNetY and RegNetX (Radosavovic et al., 2020): designed residual networks with grouped convolutions.

RegNetY is the teacher of DeiT. RegNetX is the same network without squeeze and excitation (squeeze_excite=False).

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
    group: PositiveInt = 112  # channels per group of the 3 x 3 convolutions; a narrower stage has one group
    squeeze_excite: bool = True  # False: RegNetX
    stem: PositiveInt = 32  # width of the first convolution


def build(c: RegnetConfig) -> Pyramid:
    check_stages(widths=c.widths, depths=c.depths)

    def block(stage: int, channels: int, is_first: bool, drop_path: float) -> ConvResidual:
        return residual(c, channels, c.widths[stage], 2 if is_first else 1, drop_path)

    def stem() -> ConvStem:
        return ConvStem(c.channels, c.stem, 3, 2)

    return build_convolutional(c, c.depths, c.widths, stem, block, channels=c.stem, stride=4)


def residual(c: RegnetConfig, channels: int, width: int, stride: int, drop_path: float) -> ConvResidual:
    groups = max(1, width // c.group)
    if width % groups:
        raise UserError("group does not divide a width", expected=f"widths that are multiples of {c.group}", got=width)
    weighing = {"weighing": SqueezeExcite(width, max(1, round(channels / 4)))} if c.squeeze_excite else {}
    branch = OrderedDict[str, nn.Module](
        first=ConvNorm(channels, width, 1),
        relu=nn.ReLU(),
        second=ConvNorm(width, width, 3, stride, groups=groups),
        relu_2=nn.ReLU(),
        **weighing,
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
