"""ViT (Dosovitskiy et al., 2020): an image is worth 16 x 16 words; a pre-norm encoder over patches and a [CLS] token.

Deviation: the authors' JAX code uses the tanh approximation of GELU; the exact form is the default here, as in the
PyTorch ports and their weights. activation="gelu-tanh" gives the authors' form.
"""

from dataclasses import dataclass, replace

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.card import Normalization
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
    LinearProjection,
    PatchEmbed,
    Pattern,
    Prefix,
    Pyramid,
    Stage,
    drop_path_rates,
    pre_norm_block,
)
from patchword.layers.convolution.stem import check_divisible
from patchword.layers.init import xavier
from patchword.models.registry import Family, Probability, Variant
from patchword.models.vision.config import ACTIVATIONS, ImageActivation, ImageConfig

HALVES = Normalization(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))


@dataclass(frozen=True, kw_only=True)
class VitConfig(ImageConfig):
    """Sizes of a ViT."""

    width: PositiveInt = 768
    depth: PositiveInt = 12
    heads: PositiveInt = 12
    hidden: PositiveInt = 3072  # width of the feed-forward
    patch: PositiveInt | tuple[PositiveInt, PositiveInt] = 16  # one side, or (height, width)
    position: ImagePositionName = "learned"
    activation: ImageActivation = "gelu"
    qkv_bias: bool = True  # of queries, keys and values
    norm_eps: PositiveFloat = 1e-6
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0


def build(c: VitConfig, position: ImagePosition | None = None) -> Pyramid:
    """Build the model. position: the position encoding, if not the one that c.position names."""
    model = Pyramid([stage(c, 1, position)], nn.LayerNorm(c.width, c.norm_eps), ClassHead(c.width, c.classes))
    xavier(model)
    return model


def stage(c: VitConfig, prefix: int, position: ImagePosition | None = None) -> Stage:
    """Build the only stage of a ViT, with `prefix` leading tokens."""
    position = position or POSITIONS[c.position]
    check_divisible(*sides(c.image), c.patch)
    patches = PatchEmbed(c.channels, c.width, c.patch)
    grid = replace(patches.grid(*sides(c.image)), prefix=prefix)
    return Stage(
        patches,
        Encoder(block(c, position, grid, rate) for rate in drop_path_rates(c.drop_path, [c.depth])[0]),
        prefix=Prefix(prefix, c.width),
        positions=position.on_tokens(c.width, grid),
        dropout=c.dropout,
    )


def block(c: VitConfig, position: ImagePosition, grid: Grid, drop_path: float) -> Block:
    pattern = Pattern(position=position.in_attention(c.width, c.heads, grid))
    projection = LinearProjection(c.width, c.qkv_bias)
    return pre_norm_block(
        c.width,
        Attention(c.width, c.heads, projection=projection, patterns=[pattern], dropout=c.attention_dropout),
        FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation](), c.dropout),
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(c.width),
    )


TINY = VitConfig(width=192, depth=12, heads=3, hidden=768)  # Touvron et al., table 1
SMALL = VitConfig(width=384, depth=12, heads=6, hidden=1536)
BASE = VitConfig(width=768, depth=12, heads=12, hidden=3072)  # Dosovitskiy et al., table 1
LARGE = VitConfig(width=1024, depth=24, heads=16, hidden=4096)
HUGE = VitConfig(width=1280, depth=32, heads=16, hidden=5120)
EXERCISE = VitConfig(width=64, depth=4, heads=4, hidden=256, patch=4, image=28, channels=1, classes=10)


FAMILY = Family(
    name="vit",
    title="ViT",
    paper="arXiv:2010.11929",
    build=build,
    normalization=HALVES,
    variants={
        "tiny-8": Variant(replace(TINY, patch=8), 5_719_720, 7_035_764_736),
        "tiny-14": Variant(replace(TINY, patch=14), 5_694_376, 1_697_710_080),
        "tiny-16": Variant(replace(TINY, patch=16), 5_717_416, 1_253_683_200),
        "tiny-32": Variant(replace(TINY, patch=32), 6_131_560, 306_034_176),
        "small-8": Variant(replace(SMALL, patch=8), 22_055_272, 22_405_742_592),
        "small-14": Variant(replace(SMALL, patch=14), 22_004_584, 6_123_945_984),
        "small-16": Variant(replace(SMALL, patch=16), 22_050_664, 4_598_882_304),
        "small-32": Variant(replace(SMALL, patch=32), 22_878_952, 1_142_909_952),
        "base-8": Variant(replace(BASE, patch=8), 86_576_872, 78_148_337_664),
        "base-14": Variant(replace(BASE, patch=14), 86_475_496, 23_161_995_264),
        "base-16": Variant(replace(BASE, patch=16), 86_567_656, 17_563_828_224),
        "base-32": Variant(replace(BASE, patch=32), 88_224_232, 4_409_186_304),
        "large-8": Variant(replace(LARGE, patch=8), 304_338_920, 267_505_917_952),
        "large-14": Variant(replace(LARGE, patch=14), 304_203_752, 81_013_006_336),
        "large-16": Variant(replace(LARGE, patch=16), 304_326_632, 61_554_712_576),
        "large-32": Variant(replace(LARGE, patch=32), 306_535_400, 15_377_539_072),
        "huge-8": Variant(replace(HUGE, patch=8), 632_214_760, 544_554_403_840),
        "huge-14": Variant(replace(HUGE, patch=14), 632_045_800, 167_295_109_120),
        "huge-16": Variant(replace(HUGE, patch=16), 632_199_400, 127_314_872_320),
        "huge-32": Variant(replace(HUGE, patch=32), 634_960_360, 31_856_035_840),
        "exercise": Variant(EXERCISE, 205_066, 11_161_216),
    },
)
