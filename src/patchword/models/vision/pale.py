"""Pale (Wu et al., 2021): half of the heads attend in rows spread evenly over the map, half in such columns.

No code or weights were ever published, so this is a reconstruction from the paper; its counts agree with the paper's.
What the paper leaves open, and the choice made here:
- queries, keys and values: separable convolutions at full width, before the channels are split. Projecting after the
  split would give 19.3M parameters for the tiny one, where the paper reports 22M.
- their norm: a batch norm between the depthwise and the pointwise part, as in CvT, which the paper follows.
- heads: half of a stage's heads for the rows, half for the columns.
- a norm after each patch embedding and a last norm before the mean: yes, as in CSWin.
- the convolution of CPE adds to its input without a norm.
- a map that the pale does not divide is padded below and on the right; padding is masked.
"""

from dataclasses import dataclass, replace

from pydantic import PositiveFloat, PositiveInt

from patchword.core.grid import Grid
from patchword.layers import (
    POSITIONS,
    Attention,
    Block,
    Encoder,
    FeedForward,
    ImagePosition,
    ImagePositionName,
    Interlaced,
    Pattern,
    Pyramid,
    SeparableProjection,
    Stage,
    mean_of_patches,
    overlapping,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, PerStage
from patchword.models.vision.pyramid import PyramidConfig, StageInput, attention_block, build_pyramid, doubled


@dataclass(frozen=True, kw_only=True)
class PaleConfig(PyramidConfig):
    """Sizes of a Pale Transformer."""

    width: PositiveInt = 64  # of the first stage; each later stage doubles it
    depths: PerStage = (2, 2, 16, 2)
    heads: PerStage = (2, 4, 8, 16)
    pales: PerStage = (7, 7, 7, 7)  # rows and columns of one pale
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width
    position: ImagePositionName = "conditional"


def build(c: PaleConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: the position encoding, if not the one that c.position names."""
    position = position or POSITIONS[c.position]
    return build_pyramid(c, doubled(c.width, len(c.depths)), lambda s: _stage(c, position, s), mean_of_patches)


def _stage(c: PaleConfig, position: ImagePosition, s: StageInput) -> Stage:
    stem = overlapping(s.channels, s.width, 2 if s.index else c.patch)
    grid = s.grid(stem)
    blocks = [_block(c, position, s, grid, rate) for rate in s.drop_path]
    return Stage(stem, Encoder(blocks), positions=None if s.index else position.on_tokens(s.width, grid))


def _block(c: PaleConfig, position: ImagePosition, s: StageInput, grid: Grid, drop_path: float) -> Block:
    width, pale = s.width, c.pales[s.index]
    cuts = (Interlaced(pale, None), Interlaced(None, pale))
    patterns = [Pattern(cut, position.in_attention(width // 2, s.heads // 2, cut.inner(grid))) for cut in cuts]
    projection = SeparableProjection(width)
    attention = Attention(width, s.heads, projection=projection, patterns=patterns, dropout=c.attention_dropout)
    feed_forward = FeedForward(width, round(c.mlp_ratio * width), dropout=c.dropout)
    return attention_block(c, width, attention, feed_forward, position, drop_path)


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
