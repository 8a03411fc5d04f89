"""PVT (Wang et al., 2021): a pyramid in which every token attends to a spatially reduced map.

The norms differ, as in the authors' code: 1e-6 in the blocks and at the end (norm_eps), 1e-5 after a patch embedding
and after a reduction (stem_eps). Sides that are not a multiple of a patch or of a reduction are padded (the authors'
convolutions drop the rest). A position table is compared with the grid of its own stage (theirs with the first
stage's, which fails at 448).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from pydantic import PositiveFloat

from patchword.layers import (
    Attention,
    Block,
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
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import ACTIVATIONS, IMAGENET, ImageActivation, PerStage
from patchword.models.vision.pyramid import PyramidConfig, StageInput, attention_block, build_pyramid


@dataclass(frozen=True, kw_only=True)
class PvtConfig(PyramidConfig):
    """Sizes of a PVT."""

    widths: PerStage = (64, 128, 320, 512)
    depths: PerStage = (2, 2, 2, 2)
    heads: PerStage = (1, 2, 5, 8)
    mlp_ratios: PerStage = (8, 8, 4, 4)  # hidden width of the feed-forward / width
    reductions: PerStage = (8, 4, 2, 1)  # side of the patches that become one key
    position: Literal["none", "learned", "sinusoidal", "conditional", "fourier", "floater"] = "learned"
    norm_eps: PositiveFloat = 1e-6
    stem_eps: PositiveFloat = 1e-5  # of the norms after a patch embedding and after a reduction
    activation: ImageActivation = "gelu"
    qkv_bias: bool = True  # of queries, keys and values


# The authors resize their tables with a bilinear filter, the other families with a bicubic one.
LEARNED = ImagePosition(on_tokens=lambda width, grid: LearnedPositions(width, grid, "bilinear"))


def build(c: PvtConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    position = position or (LEARNED if c.position == "learned" else None)
    return build_pyramid(c, c.widths, partial(_stage, c), position)


def _stage(c: PvtConfig, s: StageInput) -> Stage:
    """Every stage has positions of its own; the last one adds [CLS]."""
    prefix = Prefix(1, s.width) if s.is_last else None
    stem = NormedStem(PatchEmbed(s.channels, s.width, 2 if s.index else c.patch), c.stem_eps)
    blocks = [_block(c, s, rate) for rate in s.drop_path]
    positions = s.position.on_tokens(s.width, replace(s.grid(stem), prefix=1 if prefix else 0))
    return Stage(stem, Encoder(blocks), prefix=prefix, positions=positions, dropout=c.dropout)


def _block(c: PvtConfig, s: StageInput, drop_path: float) -> Block:
    width, reduction = s.width, c.reductions[s.index]
    projection = (
        ReducedProjection(width, reduction, c.stem_eps, c.qkv_bias)
        if reduction > 1
        else LinearProjection(width, c.qkv_bias)
    )
    attention = Attention(width, s.heads, projection=projection, dropout=c.attention_dropout)
    feed_forward = FeedForward(width, c.mlp_ratios[s.index] * width, ACTIVATIONS[c.activation](), c.dropout)
    return attention_block(c, s, attention, feed_forward, drop_path)


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
