"""GPT-2 (Radford et al., 2019): GPT with pre-norm blocks, and a norm after the last block.

The last matrix of each residual branch is initialized smaller, by the square root of the number of branches, so that
their sum does not grow with the depth.

Two fields change the scale of the scores of attention, 1 / sqrt(width of a head), as some later checkpoints do:
scaled=False leaves it out, scaled_by_block=True divides the scores of block k by k as well (Mistral, Stanford 2021).
"""

from dataclasses import dataclass

from pydantic import PositiveInt
from torch import nn

from patchword.layers import Encoder, Norm
from patchword.layers.text.model import TextModel
from patchword.models.registry import Family, Variant
from patchword.models.text.gpt import GptConfig, begin, block, embedding, head
from patchword.models.text.parts import norm


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(GptConfig):
    """Sizes of a GPT-2."""

    vocabulary: PositiveInt = 50257
    max_length: PositiveInt = 1024
    scaled: bool = True  # scores are divided by the square root of the width of a head
    scaled_by_block: bool = False  # scores are also divided by the number of the block


def build(c: Gpt2Config) -> TextModel:
    encoder = Encoder(block(c, Norm.PRE, _scale(c, number)) for number in range(1, c.depth + 1))
    model = TextModel(embedding(c, nn.Identity()), encoder, head(c), norm(c))
    begin(model, branches=2 * c.depth)
    return model


def _scale(c: Gpt2Config, number: int) -> float:
    """Return the scale of the scores of the block with this number, counted from 1."""
    return (float((c.width // c.heads) ** -0.5) if c.scaled else 1.0) / (number if c.scaled_by_block else 1)


def _row(depth: int, width: int, heads: int) -> Gpt2Config:
    return Gpt2Config(depth=depth, width=width, heads=heads, hidden=4 * width)


FAMILY = Family(
    name="gpt2",
    title="GPT-2",
    paper="Radford et al., 2019",
    build=build,
    variants={  # including the head "words"; MACs of 128 tokens
        "small": Variant(_row(12, 768, 12), 124_439_808, 16_114_089_984),
        "medium": Variant(_row(24, 1024, 16), 354_823_168, 46_047_297_536),
        "large": Variant(_row(36, 1280, 20), 774_030_080, 100_341_022_720),
        "xl": Variant(_row(48, 1600, 25), 1_557_611_200, 201_552_896_000),
    },
)
