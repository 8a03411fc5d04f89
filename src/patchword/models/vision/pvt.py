"""PVT (Wang et al., 2021): a pyramid in which every token reads a reduced copy of the map.

The norms differ, as in the authors' code: 1e-6 in the blocks and at the end, 1e-5 behind a patch embedding and behind a
reduction. Sides that are not a multiple of a patch or of a reduction are padded (the authors' convolutions cut off the
rest). A position table is compared with its own stage's grid (theirs with the first stage's, which fails at 448).
"""

from dataclasses import dataclass, replace
from typing import Literal

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
    LearnedPositions,
    LinearProjection,
    NormedStem,
    PatchEmbed,
    Prefix,
    Pyramid,
    ReducedProjection,
    Stage,
    drop_path_rates,
    pre_norm_block,
)
from patchword.layers.init import truncated_matrices
from patchword.models.registry import Family, Share, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages


@dataclass(frozen=True, kw_only=True)
class PvtConfig(ImageConfig):
    """Sizes of a PVT."""

    widths: PerStage = (64, 128, 320, 512)
    depths: PerStage = (2, 2, 2, 2)
    heads: PerStage = (1, 2, 5, 8)
    mlp_ratios: PerStage = (8, 8, 4, 4)  # hidden width of the feed-forward / width
    reductions: PerStage = (8, 4, 2, 1)  # side of the patches that become one key
    patch: PositiveInt = 4  # of the first stage; 2 in the others
    position: Literal["none", "learned", "sinusoidal", "conditional", "fourier", "floater"] = "learned"
    norm_eps: PositiveFloat = 1e-6
    dropout: Share = 0.0
    attention_dropout: Share = 0.0


# The authors resize their tables with a bilinear filter, the other families with a bicubic one.
LEARNED = ImagePosition(on_tokens=lambda width, grid: LearnedPositions(width, grid, "bilinear"))


def build(c: PvtConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: how position enters, if not by the part that c.position names."""
    check_stages(widths=c.widths, depths=c.depths, heads=c.heads, mlp_ratios=c.mlp_ratios, reductions=c.reductions)
    position = position or (LEARNED if c.position == "learned" else POSITIONS[c.position])
    rates = drop_path_rates(c.drop_path, c.depths)
    channels, grid, stages = c.channels, Grid(*sides(c.image)), []
    for index, width in enumerate(c.widths):
        prefix = Prefix(1, width) if index == len(c.widths) - 1 else None  # [CLS] joins in the last stage
        entrance = NormedStem(PatchEmbed(channels, width, 2 if index else c.patch))
        grid = replace(entrance.grid(grid.height, grid.width), prefix=1 if prefix else 0)
        blocks = [block(c, position, index, rate) for rate in rates[index]]
        positions = position.on_tokens(width, grid)
        stages.append(Stage(entrance, Encoder(blocks), prefix=prefix, positions=positions, dropout=c.dropout))
        channels = width
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes))
    truncated_matrices(model)
    return model


def block(c: PvtConfig, position: ImagePosition, stage: int, drop_path: float) -> Block:
    width, reduction = c.widths[stage], c.reductions[stage]
    projection = ReducedProjection(width, reduction) if reduction > 1 else LinearProjection(width)
    return pre_norm_block(
        width,
        Attention(width, c.heads[stage], projection=projection, dropout=c.attention_dropout),
        FeedForward(width, c.mlp_ratios[stage] * width, dropout=c.dropout),
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(width),
    )


MINI = PvtConfig(
    widths=(32, 64),
    depths=(2, 2),
    heads=(1, 2),
    mlp_ratios=(4, 4),
    reductions=(2, 1),
    patch=2,
    image=28,
    channels=1,
    classes=10,
)

FAMILY = Family(
    name="pvt",
    title="PVT",
    paper="arXiv:2102.12122",
    build=build,
    normalization=IMAGENET,
    variants={  # table 1 of the paper
        "tiny": Variant(PvtConfig(), 13_229_288, 1_932_911_616),
        "small": Variant(PvtConfig(depths=(3, 4, 6, 3)), 24_485_864, 3_815_701_504),
        "medium": Variant(PvtConfig(depths=(3, 4, 18, 3)), 44_208_104, 6_659_175_424),
        "large": Variant(PvtConfig(depths=(3, 8, 27, 3)), 61_369_320, 9_813_765_632),
        "mini": Variant(MINI, 152_682, 11_827_840),
    },
)
