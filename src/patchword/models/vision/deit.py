"""DeiT (Touvron et al., 2020): ViT trained on ImageNet alone, distilled from a convolutional network.

Differences from ViT: a distillation token beside [CLS] with its own head, and another weight initialization.
"""

from dataclasses import dataclass

from torch import nn

from patchword.layers import ClassHead, DistilledHead, ImagePosition, Pyramid
from patchword.layers.init import truncated
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET
from patchword.models.vision.vit import VitConfig, stage


@dataclass(frozen=True, kw_only=True)
class DeitConfig(VitConfig):
    """Sizes of a DeiT."""

    distilled: bool = False  # with a distillation token
    distilled_head: bool = True  # False: that token has no head, only [CLS] is classified


def build(c: DeitConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    head = DistilledHead(c.width, c.classes) if c.distilled and c.distilled_head else ClassHead(c.width, c.classes)
    model = Pyramid([stage(c, 2 if c.distilled else 1, position)], nn.LayerNorm(c.width, c.norm_eps), head)
    truncated(model)
    return model


def _row(width: int, heads: int, distilled: bool) -> DeitConfig:
    return DeitConfig(width=width, depth=12, heads=heads, hidden=4 * width, distilled=distilled)


def _mini(distilled: bool) -> DeitConfig:
    return DeitConfig(
        width=64, depth=4, heads=4, hidden=256, patch=4, image=28, channels=1, classes=10, distilled=distilled
    )


FAMILY = Family(
    name="deit",
    title="DeiT",
    paper="arXiv:2012.12877",
    build=build,
    normalization=IMAGENET,
    variants={  # table 1 of the paper
        "tiny": Variant(_row(192, 3, False), 5_717_416, 1_253_683_200),
        "tiny-distilled": Variant(_row(192, 3, True), 5_910_800, 1_261_003_776),
        "small": Variant(_row(384, 6, False), 22_050_664, 4_598_882_304),
        "small-distilled": Variant(_row(384, 6, True), 22_436_432, 4_624_140_288),
        "base": Variant(_row(768, 12, False), 86_567_656, 17_563_828_224),
        "base-distilled": Variant(_row(768, 12, True), 87_338_192, 17_656_811_520),
        "mini": Variant(_mini(False), 205_066, 11_161_216),
        "mini-distilled": Variant(_mini(True), 205_844, 11_410_176),
    },
)
