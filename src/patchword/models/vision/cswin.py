"""CSWin (Dong et al., 2021): half of the heads attend in vertical stripes, half in horizontal ones; LePE for position.

Any image size: a map that the stripe does not divide is padded and the padding masked. The last stage attends over the
whole map, the others in two directions, for any image size; the authors' code also uses one direction where a stripe
covers the map, which changes the shapes of the weights.
"""

from dataclasses import dataclass, replace
from functools import partial

from pydantic import PositiveInt
from torch import nn

from patchword.core.grid import Grid
from patchword.layers import (
    Block,
    Encoder,
    ImagePosition,
    ImagePositionName,
    Pyramid,
    Residual,
    Stage,
    Windows,
    mean_of_patches,
    overlapping,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, PerStage
from patchword.models.vision.pyramid import DoublingConfig, StageInput, build_pyramid, feed_forward, grouped_attention


@dataclass(frozen=True, kw_only=True)
class CswinConfig(DoublingConfig):
    """Sizes of a CSWin."""

    width: PositiveInt = 64
    depths: PerStage = (1, 2, 21, 1)
    heads: PerStage = (2, 4, 8, 16)
    stripes: PerStage = (1, 2, 7, 7)  # width of a stripe; the last stage is one stripe
    position: ImagePositionName = "local"


def build(c: CswinConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    return build_pyramid(c, c.widths, partial(_stage, c), position, mean_of_patches)


def _stage(c: CswinConfig, s: StageInput) -> Stage:
    stem = overlapping(s.channels, s.width, 2 if s.index else c.patch, padding=1 if s.index else c.patch // 2)
    grid = s.grid(stem)
    blocks = [_block(c, s, grid, rate) for rate in s.drop_path]
    return Stage(stem, Encoder(blocks), positions=s.positions(stem))


def _block(c: CswinConfig, s: StageInput, grid: Grid, drop_path: float) -> Block:
    """Each direction, vertical, then horizontal, has its own group of heads and their channels."""
    stripe = c.stripes[s.index]
    stripes = [Windows(None, None)] if s.is_last else [Windows(None, stripe), Windows(stripe, None)]

    def residual(sublayer: nn.Module, dropout: float) -> Residual:
        return Residual(sublayer, nn.LayerNorm(s.width, c.norm_eps), dropout=dropout, drop_path=drop_path)

    return Block(
        **s.position.in_block(s.width),
        attention=residual(grouped_attention(c, s, grid, stripes), 0.0),  # no dropout there in the authors' block
        feed_forward=residual(feed_forward(c, s), c.dropout),
    )


TINY = CswinConfig()  # table 1 of the paper
SMALL = CswinConfig(depths=(2, 4, 32, 2))
BASE = CswinConfig(width=96, depths=(2, 4, 32, 2), heads=(4, 8, 16, 32))
LARGE = CswinConfig(width=144, depths=(2, 4, 32, 2), heads=(6, 12, 24, 24))
MINI = CswinConfig(width=32, depths=(2, 2), heads=(2, 4), stripes=(2, 7), patch=2, image=28, channels=1, classes=10)


def _larger(c: CswinConfig) -> CswinConfig:
    return replace(c, image=384, stripes=(1, 2, 12, 12))


FAMILY = Family(
    name="cswin",
    title="CSWin",
    paper="arXiv:2107.00652",
    build=build,
    normalization=IMAGENET,
    normed_maps=True,
    variants={
        "tiny": Variant(TINY, 22_320_552, 4_324_203_008),
        "small": Variant(SMALL, 34_643_304, 6_800_714_752),
        "base": Variant(BASE, 77_382_184, 14_955_348_480),
        "large": Variant(LARGE, 173_262_664, 33_130_144_512),
        "tiny-384": Variant(_larger(TINY), 22_320_552, 13_991_948_288),
        "small-384": Variant(_larger(SMALL), 34_643_304, 21_994_606_592),
        "base-384": Variant(_larger(BASE), 77_382_184, 46_963_660_800),
        "large-384": Variant(_larger(LARGE), 173_262_664, 101_881_930_752),
        "mini": Variant(MINI, 147_082, 12_080_512),
    },
)
