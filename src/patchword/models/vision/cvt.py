"""CvT (Wu et al., 2021): convolutions make the tokens, and the queries, keys and values; no positions at all.

As in the authors' code: QuickGELU in the feed-forward, scores scaled by the whole width and not by a head's, [CLS]
only in the last stage and past the convolutions, stochastic depth only in the last stage. (transformers runs the same
weights with the exact GELU; activation="gelu" gives its numbers.)
"""

from collections.abc import Callable
from dataclasses import dataclass
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
    Gelu,
    ImagePosition,
    Prefix,
    Pyramid,
    QuickGelu,
    SeparableProjection,
    Stage,
    drop_path_rates,
    overlapping,
    pre_norm_block,
)
from patchword.layers.init import truncated_matrices
from patchword.models.registry import Family, Share, Variant
from patchword.models.vision.config import IMAGENET, ImageConfig, PerStage, check_stages

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"quick-gelu": QuickGelu, "gelu": Gelu}


@dataclass(frozen=True, kw_only=True)
class CvtConfig(ImageConfig):
    """Sizes of a CvT."""

    widths: PerStage = (64, 192, 384)
    depths: PerStage = (1, 2, 10)
    heads: PerStage = (1, 3, 6)
    stride: PositiveInt = 2  # of the convolutions of keys and values
    patch: PositiveInt = 4  # stride of the first convolution
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width
    position: Literal["none", "learned", "sinusoidal", "conditional", "fourier", "floater"] = "none"
    activation: Literal["quick-gelu", "gelu"] = "quick-gelu"
    norm_eps: PositiveFloat = 1e-5
    dropout: Share = 0.0
    attention_dropout: Share = 0.0


def build(c: CvtConfig, position: ImagePosition | None = None) -> Pyramid:
    """position: how position enters, if not by the part that c.position names."""
    check_stages(widths=c.widths, depths=c.depths, heads=c.heads)
    position = position or POSITIONS[c.position]
    channels, grid, stages = c.channels, Grid(*sides(c.image)), []
    for index, width in enumerate(c.widths):
        last = index == len(c.widths) - 1
        entrance = overlapping(channels, width, 2 if index else c.patch, padding=1 if index else c.patch // 2)
        grid = entrance.grid(grid.height, grid.width)
        rates = drop_path_rates(c.drop_path if last else 0.0, c.depths[index : index + 1])[0]
        encoder = Encoder(block(c, position, index, rate) for rate in rates)
        positions = None if index else position.on_tokens(width, grid)
        stages.append(Stage(entrance, encoder, prefix=Prefix(1, width) if last else None, positions=positions))
        channels = width
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes))
    truncated_matrices(model)
    return model


def block(c: CvtConfig, position: ImagePosition, stage: int, drop_path: float) -> Block:
    width = c.widths[stage]
    projection = SeparableProjection(width, c.stride)
    return pre_norm_block(
        width,
        Attention(width, c.heads[stage], projection=projection, scale=width**-0.5, dropout=c.attention_dropout),
        FeedForward(width, round(c.mlp_ratio * width), ACTIVATIONS[c.activation](), c.dropout),
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(width),
    )


def _row(depths: tuple[int, ...], image: int = 224) -> CvtConfig:
    return CvtConfig(depths=depths, image=image)


def _wide(image: int) -> CvtConfig:
    return CvtConfig(widths=(192, 768, 1024), depths=(2, 2, 20), heads=(3, 12, 16), image=image)


MINI = CvtConfig(widths=(32, 64), depths=(2, 2), heads=(1, 2), patch=2, image=28, channels=1, classes=10)

FAMILY = Family(
    name="cvt",
    title="CvT",
    paper="arXiv:2103.15808",
    build=build,
    normalization=IMAGENET,
    variants={  # table 2 of the paper
        "13": Variant(_row((1, 2, 10)), 19_997_480, 4_566_089_216),
        "21": Variant(_row((1, 4, 16)), 31_622_696, 7_177_985_024),
        "w24": Variant(_wide(224), 277_196_392, 60_917_313_536),
        "13-384": Variant(_row((1, 2, 10), 384), 19_997_480, 16_269_359_616),
        "21-384": Variant(_row((1, 4, 16), 384), 31_622_696, 24_849_091_584),
        "w24-384": Variant(_wide(384), 277_196_392, 194_221_654_016),
        "mini": Variant(MINI, 151_562, 11_259_136),
    },
)
