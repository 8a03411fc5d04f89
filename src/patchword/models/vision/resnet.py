"""ResNet (He et al., 2015): residual blocks of convolutions, the baseline of every vision Transformer.

The stride of a bottleneck is on its 3 x 3 convolution ("v1.5", as in every current library), not on the first 1 x 1.
"x2" doubles every width, the stem's and the head's included (as in Chen et al., 2021, who compare ViT with it).
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from pydantic import PositiveInt
from torch import nn

from patchword.layers import ConvNorm, ConvResidual, ConvStem, Pyramid, shortcut
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages
from patchword.models.vision.convolutional import build_convolutional


@dataclass(frozen=True, kw_only=True)
class ResnetConfig(ImageConfig):
    """Sizes of a ResNet."""

    width: PositiveInt = 64  # of the stem, and inside the blocks of the first stage; doubles with every stage
    widths: PerStage | None = None  # of the outputs of the stages, if they do not double
    depths: PerStage = (3, 4, 6, 3)
    block: Literal["basic", "bottleneck"] = "bottleneck"
    patch: Literal[1, 4] = 4  # stride of the stem: 4 for photographs, 1 for images of about 32 pixels

    @property
    def stage_widths(self) -> tuple[int, ...]:
        """The widths of the outputs of the stages."""
        return self.widths or doubled_widths(self.width, len(self.depths), self.block)


def doubled_widths(width: int, stages: int, block: str) -> tuple[int, ...]:
    """Return the widths of the outputs of the stages if they double. width: of the stem"""
    return tuple(width * 2**stage * EXPANSION[block] for stage in range(stages))


def build(c: ResnetConfig) -> Pyramid:
    def block(stage: int, channels: int, is_first: bool, drop_path: float) -> ConvResidual:
        return residual(c.block, channels, c.stage_widths[stage], 2 if is_first and stage else 1, drop_path)

    check_stages(depths=c.depths, widths=c.stage_widths)
    return build_convolutional(c, c.depths, c.stage_widths, lambda: stem(c), block, channels=c.width, stride=c.patch)


EXPANSION = {"basic": 1, "bottleneck": 4}  # width of a block / width inside it


def residual(kind: str, channels: int, width: int, stride: int, drop_path: float) -> ConvResidual:
    inner = width // EXPANSION[kind]
    parts: dict[str, nn.Module]
    if kind == "basic":
        parts = {"first": ConvNorm(channels, inner, 3, stride), "relu": nn.ReLU(), "second": ConvNorm(inner, width, 3)}
    else:
        parts = {
            "first": ConvNorm(channels, inner, 1),
            "relu": nn.ReLU(),
            "second": ConvNorm(inner, inner, 3, stride),
            "relu_2": nn.ReLU(),
            "third": ConvNorm(inner, width, 1),
        }
    return ConvResidual(nn.Sequential(OrderedDict(parts)), shortcut(channels, width, stride), drop_path)


def stem(c: ResnetConfig) -> ConvStem:
    """The stem; for small images that of section 4.2 of the paper."""
    if c.patch == 1:
        return ConvStem(c.channels, c.width, 3)
    return ConvStem(c.channels, c.width, 7, 2, pool=nn.MaxPool2d(3, 2, 1))


def _row(block: Literal["basic", "bottleneck"], *depths: int, width: int = 64) -> ResnetConfig:
    return ResnetConfig(width=width, depths=depths, block=block)


MINI = ResnetConfig(width=16, depths=(2, 2, 2), block="basic", patch=1, image=28, channels=1, classes=10)

FAMILY = Family(
    name="resnet",
    title="ResNet",
    paper="arXiv:1512.03385",
    build=build,
    normalization=IMAGENET,
    variants={  # table 1 of the paper
        "18": Variant(_row("basic", 2, 2, 2, 2), 11_689_512, 1_814_073_344),
        "34": Variant(_row("basic", 3, 4, 6, 3), 21_797_672, 3_663_761_408),
        "50": Variant(_row("bottleneck", 3, 4, 6, 3), 25_557_032, 4_089_184_256),
        "101": Variant(_row("bottleneck", 3, 4, 23, 3), 44_549_160, 7_801_405_440),
        "152": Variant(_row("bottleneck", 3, 8, 36, 3), 60_192_808, 11_513_626_624),
        "50x2": Variant(_row("bottleneck", 3, 4, 6, 3, width=128), 98_004_072, 16_116_613_120),
        "101x2": Variant(_row("bottleneck", 3, 4, 23, 3, width=128), 173_868_136, 30_965_497_856),
        "152x2": Variant(_row("bottleneck", 3, 8, 36, 3, width=128), 236_350_568, 45_814_382_592),
        "mini": Variant(MINI, 174_970, 20_183_936),
    },
)
