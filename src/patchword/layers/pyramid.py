"""Stages, one after the other; ViT is a pyramid of one stage."""

from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, cast

from torch import Tensor, nn

from patchword.core.card import Card
from patchword.core.errors import UserError
from patchword.core.grid import Grid, sides
from patchword.core.scope import Scope
from patchword.layers.convolution.blocks import ConvStage
from patchword.layers.convolution.stem import Stem
from patchword.layers.dropout import Dropout
from patchword.layers.embedding.absolute import NoPositions, NoPrefix
from patchword.layers.encoder import Encoder
from patchword.layers.model import Model


class Stage(nn.Module):
    """stem, prefix tokens, positions, blocks"""

    def __init__(
        self,
        stem: Stem,
        encoder: nn.Module,
        *,
        prefix: nn.Module | None = None,
        positions: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stride, self.width = stem.stride, stem.width
        self.stem = stem
        self.prefix = prefix or NoPrefix()
        self.positions = positions or NoPositions()
        self.dropout = Dropout(dropout)
        self.encoder = encoder

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        return self.encode(*self.stem(feature_map))

    def encode(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        """Everything after the stem: (batch, patches, width), grid -> (batch, tokens, width), grid"""
        tokens, grid = self._embedded(tokens, grid)
        return self.encoder(tokens, Scope(grid=grid)), grid

    @property
    def depth(self) -> int:
        """The number of blocks that run."""
        return len(cast(Encoder, self.encoder).order)

    def states(self, feature_map: Tensor) -> list[tuple[Tensor, Grid]]:
        """Return the input of the first block and the output of every block, with their grid."""
        tokens, grid = self._embedded(*self.stem(feature_map))
        return [(state, grid) for state in cast(Encoder, self.encoder).states(tokens, Scope(grid=grid))]

    def _embedded(self, tokens: Tensor, grid: Grid) -> tuple[Tensor, Grid]:
        tokens, grid = self.prefix(tokens, grid)
        return self.dropout(self.positions(tokens, grid)), grid


class Backbone(nn.Module):
    """Stages without norm and head: a feature map per stage, for detection or segmentation.

    strides: pixels of the image per pixel of each map. widths: channels of each map
    """

    card: Card  # set by the registry: the model's name and sizes

    if TYPE_CHECKING:

        def __call__(self, images: Tensor) -> list[Tensor]:
            """Call `forward` and the hooks."""

    def __init__(self, stages: Sequence[Stage | ConvStage]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.strides = tuple(accumulate((stage.stride for stage in stages), mul))
        self.widths = tuple(stage.width for stage in stages)

    def forward(self, images: Tensor) -> list[Tensor]:
        """(batch, channels, height, width) -> the map (batch, width, rows, columns) of each stage"""
        return [grid.to_map(tokens)[1] for tokens, grid in run_stages(self.stages, images)]


class Pyramid(Model):
    """Stages, a final norm, a head. The input of each stage is the map of the stage before."""

    def __init__(self, stages: Sequence[Stage | ConvStage], norm: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.stages, self.norm, self.head = nn.ModuleList(stages), norm, head

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, classes)"""
        return cast(Tensor, self.head(*self.encode(images)))

    def encode(self, images: Tensor) -> tuple[Tensor, Grid]:
        """the tokens of the last stage after the final norm, and their grid"""
        tokens, grid = run_stages(self.stages, images)[-1]
        return self.norm(tokens), grid

    @property
    def depth(self) -> int:
        """The number of blocks of all stages."""
        return sum(cast(Stage | ConvStage, stage).depth for stage in self.stages)

    def states(self, images: Tensor) -> list[tuple[Tensor, Grid]]:
        """Return the input of the first block and the output of every block of all stages; the last one is normalized.

        Each has its grid: stages differ in their number of tokens and in their width.
        """
        found: list[tuple[Tensor, Grid]] = []
        for stage in self.stages:
            feature_map = found[-1][1].to_map(found[-1][0])[1] if found else images
            states = cast(Stage | ConvStage, stage).states(feature_map)
            found += states[1:] if found else states
        tokens, grid = found[-1]
        return [*found[:-1], (self.norm(tokens), grid)]

    def backbone(self) -> Backbone:
        """The same stages, with the same weights, without norm and head."""
        patch = getattr(self.stages[0].stem, "patch", 1)
        if len(set(sides(patch))) > 1:
            raise UserError("the maps of a backbone have one stride", expected="a square patch", got=f"patch {patch}")
        backbone = Backbone(cast(Sequence[Stage | ConvStage], list(self.stages)))
        if hasattr(self, "card"):  # a model that was not created by the registry has none
            backbone.card = self.card
        return backbone


def run_stages(stages: nn.ModuleList, images: Tensor) -> list[tuple[Tensor, Grid]]:
    """the output tokens and the grid of each stage"""
    outputs: list[tuple[Tensor, Grid]] = []
    for stage in stages:
        feature_map = outputs[-1][1].to_map(outputs[-1][0])[1] if outputs else images
        outputs.append(stage(feature_map))
    return outputs
