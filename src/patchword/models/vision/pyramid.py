"""What the pyramids of attention (Swin, CSWin, Pale, CvT, PVT) share: the config's common fields and the stage loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.grid import Grid, sides
from patchword.layers import (
    POSITIONS,
    Attention,
    Block,
    ClassHead,
    FeedForward,
    ImagePosition,
    ImagePositionName,
    Interlaced,
    Pattern,
    Pyramid,
    Stage,
    Windows,
    drop_path_rates,
    first_token,
    pre_norm_block,
)
from patchword.layers.convolution.stem import Stem
from patchword.layers.heads.image import Pool
from patchword.layers.init import truncated_matrices
from patchword.models.registry import Probability
from patchword.models.vision.config import ImageConfig, PerStage, check_stages


@dataclass(frozen=True, kw_only=True)
class PyramidConfig(ImageConfig):
    """The fields that all pyramids share. A PerStage field has one entry per stage."""

    depths: PerStage
    heads: PerStage
    position: ImagePositionName
    patch: PositiveInt = 4  # stride of the stem; the later stages halve their map
    norm_eps: PositiveFloat = 1e-5
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0


@dataclass(frozen=True, kw_only=True)
class DoublingConfig(PyramidConfig):
    """The fields of pyramids in which each stage is twice as wide as the one before."""

    width: PositiveInt  # of the first stage
    mlp_ratio: PositiveFloat = 4  # hidden width of the feed-forward / width

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(self.width * 2**stage for stage in range(len(self.depths)))


@dataclass(frozen=True)
class StageInput:
    """What a family builds one stage from.

    map: the height and width of the feature map that enters; channels: its channels. drop_path: one rate per block.
    position: the position encoding of the model.
    """

    index: int
    is_last: bool
    map: Grid
    channels: int
    width: int
    heads: int
    drop_path: Sequence[float]
    position: ImagePosition

    def grid(self, stem: Stem) -> Grid:
        """Return the grid of the tokens that `stem` makes of the feature map."""
        return stem.grid(self.map.height, self.map.width)

    def positions(self, stem: Stem) -> nn.Module | None:
        """Return what the position encoding adds to the tokens of `stem`; only the first stage has it."""
        return None if self.index else self.position.on_tokens(self.width, self.grid(stem))


def build_pyramid(
    c: PyramidConfig,
    widths: Sequence[int],
    build_stage: Callable[[StageInput], Stage],
    position: ImagePosition | None = None,
    pool: Pool = first_token,
) -> Pyramid:
    """Build the stages one after the other, then the last norm and the head, and initialize the weights.

    position: the position encoding, if not the one that c.position names.
    """
    check_stages(**{field.name: getattr(c, field.name) for field in fields(c) if field.type is PerStage})
    rates, chosen = drop_path_rates(c.drop_path, c.depths), position or POSITIONS[c.position]
    feature_map, channels, stages = Grid(*sides(c.image)), c.channels, list[Stage]()
    for index, width in enumerate(widths):
        is_last = index == len(widths) - 1
        given = StageInput(index, is_last, feature_map, channels, width, c.heads[index], rates[index], chosen)
        stages.append(build_stage(given))
        feature_map, channels = given.grid(stages[-1].stem), width
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes, pool))
    truncated_matrices(model)
    return model


def grouped_attention(
    c: DoublingConfig,
    s: StageInput,
    grid: Grid,
    partitions: Sequence[Windows | Interlaced],
    projection: nn.Module | None = None,
) -> Attention:
    """Attention in which each partition has an equal group of the heads, with its channels."""
    width, heads = s.width // len(partitions), s.heads // len(partitions)
    patterns = [Pattern(each, s.position.in_attention(width, heads, each.inner(grid))) for each in partitions]
    return Attention(s.width, s.heads, projection=projection, patterns=patterns, dropout=c.attention_dropout)


def feed_forward(c: DoublingConfig, s: StageInput, activation: nn.Module | None = None) -> FeedForward:
    return FeedForward(s.width, int(c.mlp_ratio * s.width), activation, c.dropout)


def attention_block(c: PyramidConfig, s: StageInput, attention: nn.Module, mlp: FeedForward, drop_path: float) -> Block:
    """A pre-norm block with the config's epsilon and dropout, after the residual of the position encoding, if any."""
    return pre_norm_block(
        s.width,
        attention,
        mlp,
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=s.position.in_block(s.width),
    )
