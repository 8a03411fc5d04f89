"""The config base of all image families."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from patchword.core.card import Normalization
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.layers import Gelu, QuickGelu
from patchword.models.registry import Probability

T = TypeVar("T")

PerStage = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]  # one number per stage

Side = Annotated[int, Field(gt=0, le=16384)]  # pixels

ImageActivation = Literal["gelu", "gelu-tanh", "quick-gelu", "relu", "silu"]
"""The names of the activations of a feed-forward of images."""

ACTIVATIONS: dict[ImageActivation, Callable[[], nn.Module]] = {
    "gelu": Gelu,
    "gelu-tanh": lambda: nn.GELU(approximate="tanh"),
    "quick-gelu": QuickGelu,
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}

IMAGENET = Normalization(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


@dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """The fields that all image configs share."""

    image: Side | tuple[Side, Side] = 224  # one side, or (height, width)
    channels: PositiveInt = 3
    classes: PositiveInt = 1000
    drop_path: Probability = 0.0  # stochastic depth of the last block; grows linearly from 0

    def example(self) -> Tensor:
        """Return an example image of the config's size, to count costs and draw figures."""
        return torch.empty(1, self.channels, *sides(self.image))


def per_stage(value: T | tuple[T, ...], stages: int) -> tuple[T, ...]:
    """Return one value per stage of a field that takes one for all, or one for each."""
    if not isinstance(value, tuple):
        return (value,) * stages
    check_stages(depths=range(stages), values=value)
    return value


def check_stages(**fields: Sequence[object]) -> None:
    """Raise a UserError if fields with one entry per stage differ in length."""
    if len({len(values) for values in fields.values()}) > 1:
        raise UserError(
            "the fields of the stages differ in length",
            expected="one number for each stage",
            got=", ".join(f"{name} {len(values)}" for name, values in fields.items()),
        )
