"""CvT (Wu et al., 2021): convolutional token embedding and projections; no position encoding.

As in the authors' code: QuickGELU in the feed-forward, scores scaled by the full width and not by a head's, [CLS] only
in the last stage and not in the convolutions, stochastic depth only in the last stage. (transformers runs the same
weights with the exact GELU; activation="gelu" gives its outputs.)
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from patchword.layers import (
    Attention,
    Block,
    Encoder,
    FeedForward,
    ImagePosition,
    NormedStem,
    OverlapEmbed,
    Prefix,
    Pyramid,
    SeparableProjection,
    Stage,
    drop_path_rates,
)
from patchword.models.registry import Family, Variant
from patchword.models.vision.config import ACTIVATIONS, IMAGENET, ImageActivation, PerStage, check_stages, per_stage
from patchword.models.vision.pyramid import PyramidConfig, StageInput, attention_block, build_pyramid


@dataclass(frozen=True, kw_only=True)
class CvtConfig(PyramidConfig):
    """Sizes of a CvT."""

    widths: PerStage = (64, 192, 384)
    depths: PerStage = (1, 2, 10)
    heads: PerStage = (1, 3, 6)
    stems: tuple[tuple[PositiveInt, PositiveInt, NonNegativeInt], ...] | None = None  # kernel, stride, padding of each
    stride: PositiveInt | PerStage = 2  # of the convolutions of keys and values; one number, or one per stage
    mlp_ratio: PositiveFloat | tuple[PositiveFloat, ...] = 4  # hidden width of the feed-forward / width
    qkv_bias: bool | tuple[bool, ...] = True  # of queries, keys and values
    position: Literal["none", "learned", "sinusoidal", "conditional", "fourier", "floater"] = "none"
    activation: ImageActivation = "quick-gelu"

    @property
    def stage_stems(self) -> tuple[tuple[int, int, int], ...]:
        """Kernel, stride and padding of the stem of each stage; by default those of the paper."""
        later = [(3, 2, 1)] * (len(self.depths) - 1)
        return self.stems or ((2 * self.patch - 1, self.patch, self.patch // 2), *later)


def build(c: CvtConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    check_stages(depths=c.depths, stems=c.stage_stems)
    return build_pyramid(c, c.widths, partial(_stage, c), position)


def _stage(c: CvtConfig, s: StageInput) -> Stage:
    stem = NormedStem(OverlapEmbed(s.channels, s.width, *c.stage_stems[s.index]))
    rates = drop_path_rates(c.drop_path if s.is_last else 0.0, [len(s.drop_path)])[0]
    encoder = Encoder(_block(c, s, rate) for rate in rates)
    positions = s.positions(stem)
    return Stage(stem, encoder, prefix=Prefix(1, s.width) if s.is_last else None, positions=positions)


def _block(c: CvtConfig, s: StageInput, drop_path: float) -> Block:
    stride, mlp_ratio, bias = (
        per_stage(field, len(c.depths))[s.index] for field in (c.stride, c.mlp_ratio, c.qkv_bias)
    )
    projection, scale = SeparableProjection(s.width, int(stride), bool(bias)), s.width**-0.5
    attention = Attention(s.width, s.heads, projection=projection, scale=scale, dropout=c.attention_dropout)
    feed_forward = FeedForward(s.width, int(mlp_ratio * s.width), ACTIVATIONS[c.activation](), c.dropout)
    return attention_block(c, s, attention, feed_forward, drop_path)


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
