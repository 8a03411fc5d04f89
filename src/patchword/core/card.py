"""The description of a model that is saved beside its weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

ConfigValue: TypeAlias = "bool | int | float | str | Sequence[ConfigValue] | None"
"""The value of a config field; a string is converted to the type of the field."""


@dataclass(frozen=True)
class Normalization:
    """Input normalization of pixels: (pixel / 255 - mean) / std, with one value per channel."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def over(self, channels: int) -> "Normalization":
        """Return the normalization for this number of channels; if it differs, all channels use the average."""
        if len(self.mean) == channels:
            return self
        return Normalization((sum(self.mean) / len(self.mean),), (sum(self.std) / len(self.std),))


@dataclass(frozen=True)
class Card:
    """Name, config, class labels and input normalization: all that is needed to load a saved model and use it."""

    model: str
    config: dict[str, Any]
    labels: tuple[str, ...] = ()
    normalization: Normalization = field(default_factory=Normalization)
