"""Pale (Wu et al., 2021): half of the heads attend in rows spread evenly over the map, half in such columns.

No code or weights were ever published, so this is a reconstruction from the paper; its counts agree with the paper's.
What the paper leaves open, and what is done here:
- queries, keys and values: separable convolutions at full width, before the channels are split. Projecting after the
  split would give 19.3M parameters for the tiny one, where the paper says 22M.
- their norm: a batch norm between the depthwise and the pointwise part, as in CvT, which the paper says it follows.
- heads: half of a stage's heads for the rows, half for the columns.
- a norm behind each patch embedding and a last norm before the mean: yes, as in CSWin.
- the convolution of CPE adds to its input without a norm.
- a map that the pale does not divide is padded below and on the right; padding is masked.
"""

from dataclasses import dataclass, replace

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
    Interlaced,
    Pattern,
    Pyramid,
    SeparableProjection,
    Stage,
    drop_path_rates,
    mean_of_patches,
    overlapping,
    pre_norm_block,
)
from patchword.layers.init import truncated_matrices
from patchword.models.registry import Family, Share, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages


@dataclass(frozen=True, kw_only=True)
class PaleConfig(ImageConfig):
    """Sizes of a Pale Transformer."""

    width: PositiveInt = 64  # of the first stage; each later one has twice the width
    depths: PerStage = (2, 2, 16, 2)
    heads: PerStage = (2, 4, 8, 16)
    pales: PerStage = (7, 7, 7, 7)  # rows and columns of one pale
    patch: PositiveInt = 4  # stride of the first convolution
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width
    position: ImagePositionName = "conditional"
    norm_eps: PositiveFloat = 1e-5
    dropout: Share = 0.0
    attention_dropout: Share = 0.0


def build(c: PaleConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: how position enters, if not by the part that c.position names."""
    check_stages(depths=c.depths, heads=c.heads, pales=c.pales)
    position = position or POSITIONS[c.position]
    rates = drop_path_rates(c.drop_path, c.depths)
    channels, grid, stages = c.channels, Grid(*sides(c.image)), []
    for index, (heads, pale) in enumerate(zip(c.heads, c.pales, strict=True)):
        width = c.width * 2**index
        entrance = overlapping(channels, width, 2 if index else c.patch)
        grid = entrance.grid(grid.height, grid.width)
        blocks = [block(c, position, width, heads, pale, grid, rate) for rate in rates[index]]
        positions = None if index else position.on_tokens(width, grid)
        stages.append(Stage(entrance, Encoder(blocks), positions=positions))
        channels = width
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes, mean_of_patches))
    truncated_matrices(model)
    return model


def block(
    c: PaleConfig, position: ImagePosition, width: int, heads: int, pale: int, grid: Grid, drop_path: float
) -> Block:
    cuts = (Interlaced(pale, None), Interlaced(None, pale))
    patterns = [Pattern(cut, position.in_attention(width // 2, heads // 2, cut.inner(grid))) for cut in cuts]
    projection = SeparableProjection(width)
    return pre_norm_block(
        width,
        Attention(width, heads, projection=projection, patterns=patterns, dropout=c.attention_dropout),
        FeedForward(width, round(c.mlp_ratio * width), dropout=c.dropout),
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(width),
    )


TINY = PaleConfig()  # table 1 of the paper
SMALL = PaleConfig(width=96)
BASE = PaleConfig(width=128, heads=(4, 8, 16, 32))
MINI = replace(TINY, width=32, depths=(2, 2), heads=(2, 4), pales=(7, 7), patch=2, image=28, channels=1, classes=10)

FAMILY = Family(
    name="pale",
    title="Pale",
    paper="arXiv:2112.14000",
    build=build,
    normalization=IMAGENET,
    variants={
        "tiny": Variant(TINY, 21_748_712, 4_202_551_296),
        "small": Variant(SMALL, 48_308_200, 8_977_204_224),
        "base": Variant(BASE, 85_324_776, 15_534_108_672),
        "mini": Variant(MINI, 153_418, 14_344_704),
    },
)
