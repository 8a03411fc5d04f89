"""Position encodings of image models, interchangeable between families.

An encoding may act in three places: on the input tokens, as a residual of its own in every block, and inside attention.
A family uses all three; another encoding is another `ImagePosition`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import nn

from patchword.core.grid import Grid
from patchword.layers.attention.position import LocalEnhancement, Position, RelativeTable
from patchword.layers.attention.relative_vectors import RelativeVectors
from patchword.layers.block import Residual
from patchword.layers.convolution.blocks import ConditionalPosition
from patchword.layers.embedding.absolute import LearnedPositions, NoPositions, SinusoidalPositions
from patchword.layers.embedding.floater import FloaterPositions
from patchword.layers.embedding.fourier import FourierPositions


@dataclass(frozen=True)
class ImagePosition:
    """A position encoding of images, as three functions that build its parts; by default each does nothing.

    on_tokens(width, grid): a module applied to the input tokens. in_block(width): residuals that begin every block.
    in_attention(width, heads, group): a `Position` inside attention, for the grid of one window or group.
    """

    on_tokens: Callable[[int, Grid], nn.Module] = lambda width, grid: NoPositions()
    in_block: Callable[[int], dict[str, Residual]] = lambda width: {}
    in_attention: Callable[[int, int, Grid], Position] = lambda width, heads, group: Position()


def _conditional(width: int) -> dict[str, Residual]:
    return {"position": Residual(ConditionalPosition(width), nn.Identity())}


ImagePositionName = Literal[
    "none", "learned", "sinusoidal", "relative", "conditional", "local", "shaw", "fourier", "floater"
]
"""The names of the position encodings of image models."""

POSITIONS: dict[ImagePositionName, ImagePosition] = {
    "none": ImagePosition(),
    "learned": ImagePosition(on_tokens=LearnedPositions),  # a table, as ViT
    "sinusoidal": ImagePosition(on_tokens=lambda width, grid: SinusoidalPositions(width)),
    "relative": ImagePosition(in_attention=lambda width, heads, group: RelativeTable(heads, group)),  # as Swin
    "conditional": ImagePosition(in_block=_conditional),  # CPE, as Pale
    "local": ImagePosition(in_attention=lambda width, heads, group: LocalEnhancement(width)),  # LePE, as CSWin
    "shaw": ImagePosition(in_attention=lambda width, heads, group: RelativeVectors(width // heads, 4, dimensions=2)),
    "fourier": ImagePosition(on_tokens=lambda width, grid: FourierPositions(width)),
    "floater": ImagePosition(on_tokens=lambda width, grid: FloaterPositions(width)),
}
"""The position encoding of image models for each name."""
