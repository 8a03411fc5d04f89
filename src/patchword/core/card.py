"""What a model knows of itself besides its tensors."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Normalization:
    """How pixels become the model's input: divided by 255, less `mean`, over `std`, one value a channel."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def over(self, channels: int) -> "Normalization":
        """The same for another number of channels: their average serves for all."""
        if len(self.mean) == channels:
            return self
        return Normalization((sum(self.mean) / len(self.mean),), (sum(self.std) / len(self.std),))


@dataclass(frozen=True)
class Card:
    """Written beside the weights, so that a folder can be loaded, asked and explained without anything else."""

    model: str
    config: dict[str, Any]
    labels: tuple[str, ...] = ()
    normalization: Normalization = field(default_factory=Normalization)
