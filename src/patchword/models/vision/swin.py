"""Swin (Liu et al., 2021): attention inside windows of a pyramid, shifted by half a window in every second block.

Any image size: a map that the window does not divide is padded and the padding masked; on a side not longer than the
window there is one window and no shift (per side). The authors' detection code shifts there, too, and lets tokens
attend to padding, so its maps differ from their classifier's at such sizes; here both are one network. With
position="local", which no paper defines for shifted windows, the convolution crosses the border of the cyclic shift.
"""

from dataclasses import dataclass
from functools import partial

from pydantic import PositiveInt

from patchword.core.grid import Grid
from patchword.layers import (
    Block,
    Encoder,
    ImagePosition,
    ImagePositionName,
    LearnedPositions,
    LinearProjection,
    NormedStem,
    PatchEmbed,
    PatchMerge,
    Pyramid,
    Stage,
    Windows,
    mean_of_patches,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import ACTIVATIONS, IMAGENET, ImageActivation, PerStage
from patchword.models.vision.pyramid import (
    DoublingConfig,
    StageInput,
    attention_block,
    build_pyramid,
    feed_forward,
    grouped_attention,
)


@dataclass(frozen=True, kw_only=True)
class SwinConfig(DoublingConfig):
    """Sizes of a Swin."""

    width: PositiveInt = 96
    depths: PerStage = (2, 2, 6, 2)
    heads: PerStage = (3, 6, 12, 24)
    window: PositiveInt = 7
    position: ImagePositionName = "relative"
    absolute_positions: bool = False  # a learned table is added to the patches, whatever `position` is
    activation: ImageActivation = "gelu"
    qkv_bias: bool = True  # of queries, keys and values


def build(c: SwinConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    return build_pyramid(c, c.widths, partial(_stage, c), position, mean_of_patches)


def _stage(c: SwinConfig, s: StageInput) -> Stage:
    """The norms of the stem and of the patch merging have an epsilon of 1e-5, whatever that of the blocks is."""
    stem = PatchMerge(s.channels) if s.index else NormedStem(PatchEmbed(s.channels, s.width, c.patch))
    grid = s.grid(stem)
    positions = LearnedPositions(s.width, grid) if c.absolute_positions and not s.index else s.positions(stem)
    blocks = [_block(c, s, grid, number, rate) for number, rate in enumerate(s.drop_path)]
    return Stage(stem, Encoder(blocks), positions=positions, dropout=0.0 if s.index else c.dropout)


def _block(c: SwinConfig, s: StageInput, grid: Grid, number: int, drop_path: float) -> Block:
    windows = Windows(c.window, c.window, shift=c.window // 2 if number % 2 else 0)
    attention = grouped_attention(c, s, grid, [windows], LinearProjection(s.width, c.qkv_bias))
    return attention_block(c, s, attention, feed_forward(c, s, ACTIVATIONS[c.activation]()), drop_path)


def _row(width: int, depth: int, heads: int, image: int = 224) -> SwinConfig:
    """Table 7 of the paper: the variants differ in the width and in the depth of the third stage."""
    every = (heads, 2 * heads, 4 * heads, 8 * heads)
    return SwinConfig(width=width, depths=(2, 2, depth, 2), heads=every, image=image, window=image // 32)


MINI = SwinConfig(width=32, depths=(2, 2), heads=(2, 4), patch=2, image=28, channels=1, classes=10)

FAMILY = Family(
    name="swin",
    title="Swin",
    paper="arXiv:2103.14030",
    build=build,
    normalization=IMAGENET,
    normed_maps=True,
    variants={
        "tiny": Variant(_row(96, 6, 3), 28_288_354, 4_490_566_656),
        "small": Variant(_row(96, 18, 3), 49_606_258, 8_740_875_264),
        "base": Variant(_row(128, 18, 4), 87_768_224, 15_430_946_816),
        "large": Variant(_row(192, 18, 6), 196_532_476, 34_475_759_616),
        "tiny-384": Variant(_row(96, 6, 3, 384), 28_338_034, 13_993_752_576),
        "small-384": Variant(_row(96, 18, 3, 384), 49_707_778, 26_988_754_944),
        "base-384": Variant(_row(128, 18, 4, 384), 87_903_584, 47_083_134_976),
        "large-384": Variant(_row(192, 18, 6, 384), 196_735_516, 103_919_087_616),
        "mini": Variant(MINI, 136_854, 11_904_896),
    },
)
