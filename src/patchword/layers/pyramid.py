"""Stages, one after the other; ViT is a pyramid of one stage."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from patchword.core.card import Card
from patchword.core.grid import Grid
from patchword.core.scope import Scope
from patchword.layers.embedding import NoPositions, NoPrefix


class Stage(nn.Module):
    """entrance, leading tokens, positions, blocks"""

    def __init__(
        self,
        entrance: nn.Module,
        encoder: nn.Module,
        *,
        prefix: nn.Module | None = None,
        positions: nn.Module | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.entrance = entrance
        self.prefix = prefix or NoPrefix()
        self.positions = positions or NoPositions()
        self.dropout = nn.Dropout(dropout)
        self.encoder = encoder

    def forward(self, feature_map: Tensor) -> tuple[Tensor, Grid]:
        """(batch, channels, height, width) -> (batch, tokens, width), grid"""
        tokens, grid = self.prefix(*self.entrance(feature_map))
        tokens = self.dropout(self.positions(tokens, grid))
        return self.encoder(tokens, Scope(grid=grid)), grid


class Pyramid(nn.Module):
    """Stages, a last norm, a head. Each stage reads the map of the one before."""

    card: Card  # set by the registry: the model's name and sizes

    def __init__(self, stages: Sequence[Stage], norm: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.stages, self.norm, self.head = nn.ModuleList(stages), norm, head

    def forward(self, images: Tensor) -> Tensor:
        """(batch, channels, height, width) -> (batch, classes)"""
        return cast(Tensor, self.head(*self.encode(images)))

    def encode(self, images: Tensor) -> tuple[Tensor, Grid]:
        """the last tokens, normed, and their grid"""
        tokens, grid = self._run(images)[-1]
        return self.norm(tokens), grid

    def maps(self, images: Tensor) -> list[Tensor]:
        """the feature map (batch, width, rows, columns) that leaves each stage"""
        return [grid.to_map(tokens)[1] for tokens, grid in self._run(images)]

    def _run(self, images: Tensor) -> list[tuple[Tensor, Grid]]:
        outputs: list[tuple[Tensor, Grid]] = []
        for stage in self.stages:
            feature_map = outputs[-1][1].to_map(outputs[-1][0])[1] if outputs else images
            outputs.append(stage(feature_map))
        return outputs
