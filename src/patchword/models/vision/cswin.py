"""CSWin (Dong et al., 2021): half of the heads attend in vertical stripes, half in horizontal ones; LePE for position.

Any image size: a map that the stripe does not divide is padded and the padding masked. The last stage attends over the
whole map, the others in two directions, for any image size; the authors' code also uses one direction where a stripe
covers the map, which changes the shapes of the weights.
"""

from dataclasses import dataclass, replace

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.grid import Grid
from patchword.layers import (
    POSITIONS,
    Attention,
    Block,
    Encoder,
    FeedForward,
    ImagePosition,
    ImagePositionName,
    Pattern,
    Pyramid,
    Residual,
    Stage,
    Windows,
    mean_of_patches,
    overlapping,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, PerStage
from patchword.models.vision.pyramid import PyramidConfig, StageInput, build_pyramid, doubled


@dataclass(frozen=True, kw_only=True)
class CswinConfig(PyramidConfig):
    """Sizes of a CSWin."""

    width: PositiveInt = 64  # of the first stage; each later stage doubles it
    depths: PerStage = (1, 2, 21, 1)
    heads: PerStage = (2, 4, 8, 16)
    stripes: PerStage = (1, 2, 7, 7)  # width of a stripe; the last stage is one stripe
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width
    position: ImagePositionName = "local"


def build(c: CswinConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: the position encoding, if not the one that c.position names."""
    position = position or POSITIONS[c.position]
    return build_pyramid(c, doubled(c.width, len(c.depths)), lambda s: _stage(c, position, s), mean_of_patches)


def _stage(c: CswinConfig, position: ImagePosition, s: StageInput) -> Stage:
    stem = overlapping(s.channels, s.width, 2 if s.index else c.patch, padding=1 if s.index else c.patch // 2)
    grid = s.grid(stem)
    blocks = [_block(c, position, s, grid, rate) for rate in s.drop_path]
    return Stage(stem, Encoder(blocks), positions=None if s.index else position.on_tokens(s.width, grid))


def _block(c: CswinConfig, position: ImagePosition, s: StageInput, grid: Grid, drop_path: float) -> Block:
    """Each direction, vertical, then horizontal, has its own group of heads and their channels."""
    width, stripe = s.width, c.stripes[s.index]
    cuts = [Windows(None, None)] if s.is_last else [Windows(None, stripe), Windows(stripe, None)]
    each = width // len(cuts), s.heads // len(cuts)
    patterns = [Pattern(cut, position.in_attention(*each, cut.inner(grid))) for cut in cuts]
    attention = Attention(width, s.heads, patterns=patterns, dropout=c.attention_dropout)
    feed_forward = FeedForward(width, round(c.mlp_ratio * width), dropout=c.dropout)

    def residual(sublayer: nn.Module, dropout: float) -> Residual:
        return Residual(sublayer, nn.LayerNorm(width, c.norm_eps), dropout=dropout, drop_path=drop_path)

    return Block(
        **position.in_block(width),
        attention=residual(attention, 0.0),  # the authors' block has no dropout after attention
        feed_forward=residual(feed_forward, c.dropout),
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
