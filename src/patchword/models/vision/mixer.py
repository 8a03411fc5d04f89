"""Mixer (Tolstikhin et al., 2021): MLPs along the tokens and along the channels, in turn; no attention.

The token-mixing weights are for one number of patches, so a Mixer accepts images of one size only.
Deviation: the authors' JAX code uses the tanh form of GELU; the exact form is the default here, as in the PyTorch ports
and their published weights. activation="gelu-tanh" gives the authors' one.
"""

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.grid import sides
from patchword.layers import (
    Block,
    ClassHead,
    Encoder,
    FeedForward,
    PatchEmbed,
    Pyramid,
    Residual,
    Stage,
    TokenMixing,
    drop_path_rates,
    mean_of_patches,
)
from patchword.layers.convolution.stem import check_divisible
from patchword.layers.init import lecun
from patchword.models.registry import Family, Probability, Variant
from patchword.models.vision.config import ACTIVATIONS, ImageConfig
from patchword.models.vision.vit import HALVES


@dataclass(frozen=True, kw_only=True)
class MixerConfig(ImageConfig):
    """Sizes of a Mixer."""

    width: PositiveInt = 768
    depth: PositiveInt = 12
    token_hidden: PositiveInt = 384  # width of the feed-forward along tokens
    hidden: PositiveInt = 3072  # width of the feed-forward along channels
    patch: PositiveInt = 16
    activation: Literal["gelu", "gelu-tanh"] = "gelu"
    norm_eps: PositiveFloat = 1e-6
    dropout: Probability = 0.0


def build(c: MixerConfig) -> Pyramid:
    height, width = sides(c.image)
    check_divisible(height, width, c.patch)
    stem = PatchEmbed(c.channels, c.width, c.patch)
    tokens = stem.grid(height, width).tokens
    rates = drop_path_rates(c.drop_path, [c.depth])[0]
    stage = Stage(stem, Encoder(block(c, tokens, rate) for rate in rates))
    model = Pyramid([stage], nn.LayerNorm(c.width, c.norm_eps), ClassHead(c.width, c.classes, mean_of_patches))
    lecun(model)
    return model


def block(c: MixerConfig, tokens: int, drop_path: float) -> Block:
    def residual(sublayer: nn.Module) -> Residual:
        return Residual(sublayer, nn.LayerNorm(c.width, c.norm_eps), dropout=c.dropout, drop_path=drop_path)

    return Block(
        token_mixing=residual(TokenMixing(tokens, c.token_hidden, ACTIVATIONS[c.activation]())),
        feed_forward=residual(FeedForward(c.width, c.hidden, ACTIVATIONS[c.activation](), c.dropout)),
    )


SMALL = MixerConfig(width=512, depth=8, token_hidden=256, hidden=2048)  # table 1 of the paper
BASE = MixerConfig(width=768, depth=12, token_hidden=384, hidden=3072)
LARGE = MixerConfig(width=1024, depth=24, token_hidden=512, hidden=4096)
MINI = MixerConfig(width=64, depth=4, token_hidden=128, hidden=256, patch=4, image=28, channels=1, classes=10)

FAMILY = Family(
    name="mixer",
    title="Mixer",
    paper="arXiv:2105.01601",
    build=build,
    normalization=HALVES,
    variants={
        "small-8": Variant(replace(SMALL, patch=8), 20_646_504, 14_875_086_848),
        "small-16": Variant(replace(SMALL, patch=16), 18_528_264, 3_776_958_464),
        "small-32": Variant(replace(SMALL, patch=32), 19_104_624, 1_002_426_368),
        "base-8": Variant(replace(BASE, patch=8), 64_864_168, 50_057_951_232),
        "base-16": Variant(replace(BASE, patch=16), 59_880_472, 12_601_767_936),
        "base-32": Variant(replace(BASE, patch=32), 60_293_428, 3_237_722_112),
        "large-8": Variant(replace(LARGE, patch=8), 222_071_144, 177_725_218_816),
        "large-16": Variant(replace(LARGE, patch=16), 208_196_168, 44_547_678_208),
        "large-32": Variant(replace(LARGE, patch=32), 206_939_264, 11_253_293_056),
        "mini": Variant(MINI, 186_126, 9_684_608),
    },
)
