"""What the pyramids of attention (Swin, CSWin, Pale, CvT, PVT) share: the config's common fields and the stage loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from pydantic import PositiveFloat, PositiveInt
from torch import nn

from patchword.core.grid import Grid, sides
from patchword.layers import (
    Block,
    ClassHead,
    FeedForward,
    ImagePosition,
    Pyramid,
    Stage,
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
    patch: PositiveInt = 4  # stride of the stem; the later stages halve their map
    norm_eps: PositiveFloat = 1e-5
    dropout: Probability = 0.0
    attention_dropout: Probability = 0.0


@dataclass(frozen=True)
class StageInput:
    """The sizes from which a family builds one stage.

    map: the height and width of the feature map that enters; channels: its channels. drop_path: one rate per block.
    """

    index: int
    is_last: bool
    map: Grid
    channels: int
    width: int
    heads: int
    drop_path: Sequence[float]

    def grid(self, stem: Stem) -> Grid:
        """Return the grid of the tokens that `stem` makes of the feature map."""
        return stem.grid(self.map.height, self.map.width)


def doubled(width: int, stages: int) -> tuple[int, ...]:
    """Return the widths of a pyramid in which each stage is twice as wide as the one before."""
    return tuple(width * 2**stage for stage in range(stages))


def build_pyramid(
    c: PyramidConfig, widths: Sequence[int], build_stage: Callable[[StageInput], Stage], pool: Pool = first_token
) -> Pyramid:
    """Build the stages one after the other, then the last norm and the head, and initialize the weights."""
    check_stages(**{field.name: getattr(c, field.name) for field in fields(c) if field.type is PerStage})
    rates = drop_path_rates(c.drop_path, c.depths)
    feature_map, channels, stages = Grid(*sides(c.image)), c.channels, list[Stage]()
    for index, width in enumerate(widths):
        is_last = index == len(widths) - 1
        given = StageInput(index, is_last, feature_map, channels, width, c.heads[index], rates[index])
        stages.append(build_stage(given))
        feature_map, channels = given.grid(stages[-1].stem), width
    model = Pyramid(stages, nn.LayerNorm(width, c.norm_eps), ClassHead(width, c.classes, pool))
    truncated_matrices(model)
    return model


def attention_block(
    c: PyramidConfig,
    width: int,
    attention: nn.Module,
    feed_forward: FeedForward,
    position: ImagePosition,
    drop_path: float,
) -> Block:
    """A pre-norm block with the config's epsilon and dropout, after the residual of the position encoding, if any."""
    return pre_norm_block(
        width,
        attention,
        feed_forward,
        eps=c.norm_eps,
        dropout=c.dropout,
        drop_path=drop_path,
        before=position.in_block(width),
    )
