"""Swin (Liu et al., 2021): attention inside windows of a pyramid, shifted by half a window in every second block.

Any image size: a map that the window does not divide is padded and the padding masked; on a side not longer than the
window there is one window and no shift (each side for itself). The authors' detection code shifts there, too, and lets
tokens read their padding, so its maps differ from their own classifier's at such sizes; here both are one network.
With position="local", which no paper defines for shifted windows, the convolution goes over the seam of the roll.
"""

from dataclasses import dataclass

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.grid import Grid, sides
from patchword.layers import (
    POSITIONS,
    Attention,
    Block,
    ClassHead,
    Encoder,
    FeedForward,
    ImagePosition,
    ImagePositionName,
    NormedStem,
    PatchEmbed,
    PatchMerge,
    Pattern,
    Pyramid,
    Stage,
    Windows,
    drop_path_rates,
    mean_of_patches,
    pre_norm_block,
)
from patchword.layers.init import truncated_matrices
from patchword.models.registry import Family, Share, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages


@dataclass(frozen=True, kw_only=True)
class SwinConfig(ImageConfig):
    """Sizes of a Swin."""

    width: PositiveInt = 96  # of the first stage; each later one has twice the width
    depths: PerStage = (2, 2, 6, 2)
    heads: PerStage = (3, 6, 12, 24)
    window: PositiveInt = 7
    patch: PositiveInt = 4
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width
    position: ImagePositionName = "relative"
    norm_eps: PositiveFloat = 1e-5
    dropout: Share = 0.0
    attention_dropout: Share = 0.0


def build(c: SwinConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: how position enters, if not by the part that c.position names."""
    check_stages(depths=c.depths, heads=c.heads)
    position = position or POSITIONS[c.position]
    rates = drop_path_rates(c.drop_path, c.depths)
    width, grid, stages = c.width, Grid(*sides(c.image)), []
    for index, heads in enumerate(c.heads):
        patches = PatchMerge(width) if index else NormedStem(PatchEmbed(c.channels, width, c.patch), c.norm_eps)
        width, grid = patches.width, patches.grid(grid.height, grid.width)
        blocks = [block(c, position, width, heads, grid, number, rate) for number, rate in enumerate(rates[index])]
        positions = None if index else position.on_tokens(width, grid)
        stages.append(Stage(patches, Encoder(blocks), positions=positions, dropout=0.0 if index else c.dropout))
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes, mean_of_patches))
    truncated_matrices(model)
    return model


def block(
    c: SwinConfig, position: ImagePosition, width: int, heads: int, grid: Grid, number: int, drop_path: float
) -> Block:
    windows = Windows(c.window, c.window, shift=c.window // 2 if number % 2 else 0)
    pattern = Pattern(windows, position.in_attention(width, heads, windows.inner(grid)))
    return pre_norm_block(
        width,
        Attention(width, heads, patterns=[pattern], dropout=c.attention_dropout),
        FeedForward(width, round(c.mlp_ratio * width), dropout=c.dropout),
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(width),
    )


def _row(width: int, depth: int, heads: int, image: int = 224) -> SwinConfig:
    """table 7 of the paper: sizes differ in the width and in the depth of the third stage"""
    every = (heads, 2 * heads, 4 * heads, 8 * heads)
    return SwinConfig(width=width, depths=(2, 2, depth, 2), heads=every, image=image, window=image // 32)


MINI = SwinConfig(width=32, depths=(2, 2), heads=(2, 4), patch=2, image=28, channels=1, classes=10)

FAMILY = Family(
    name="swin",
    title="Swin",
    paper="arXiv:2103.14030",
    build=build,
    normalization=IMAGENET,
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
