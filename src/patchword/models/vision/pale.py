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
from functools import partial

from pydantic import PositiveInt

from patchword.core.grid import Grid
from patchword.layers import (
    Block,
    Encoder,
    ImagePosition,
    ImagePositionName,
    Interlaced,
    Pyramid,
    SeparableProjection,
    Stage,
    mean_of_patches,
    overlapping,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import IMAGENET, PerStage
from patchword.models.vision.pyramid import (
    DoublingConfig,
    StageInput,
    attention_block,
    build_pyramid,
    feed_forward,
    grouped_attention,
)


@dataclass(frozen=True, kw_only=True)
class PaleConfig(DoublingConfig):
    """Sizes of a Pale Transformer."""

    width: PositiveInt = 64
    depths: PerStage = (2, 2, 16, 2)
    heads: PerStage = (2, 4, 8, 16)
    pales: PerStage = (7, 7, 7, 7)  # rows and columns of one pale
    position: ImagePositionName = "conditional"


def build(c: PaleConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    return build_pyramid(c, c.widths, partial(_stage, c), position, mean_of_patches)


def _stage(c: PaleConfig, s: StageInput) -> Stage:
    stem = overlapping(s.channels, s.width, 2 if s.index else c.patch)
    grid = s.grid(stem)
    blocks = [_block(c, s, grid, rate) for rate in s.drop_path]
    return Stage(stem, Encoder(blocks), positions=s.positions(stem))


def _block(c: PaleConfig, s: StageInput, grid: Grid, drop_path: float) -> Block:
    pale = c.pales[s.index]
    rows_and_columns = (Interlaced(pale, None), Interlaced(None, pale))
    attention = grouped_attention(c, s, grid, rows_and_columns, SeparableProjection(s.width))
    return attention_block(c, s, attention, feed_forward(c, s), drop_path)


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
    normed_maps=True,
    variants={
        "tiny": Variant(TINY, 21_748_712, 4_202_551_296),
        "small": Variant(SMALL, 48_308_200, 8_977_204_224),
        "base": Variant(BASE, 85_324_776, 15_534_108_672),
        "mini": Variant(MINI, 153_418, 14_344_704),
    },
)
