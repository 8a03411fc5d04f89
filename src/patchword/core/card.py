"""The description of a model that is saved beside its weights."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from patchword.core.errors import UserError

ConfigValue: TypeAlias = "bool | int | float | str | Sequence[ConfigValue] | None"
"""The value of a config field; a string is converted to the type of the field."""


@dataclass(frozen=True)
class Normalization:
    """Input normalization of pixels: (pixel / 255 - mean) / std, with one value per channel."""

    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    def __post_init__(self) -> None:
        if not self.mean or len(self.mean) != len(self.std):
            found = f"{len(self.mean)} and {len(self.std)}"
            raise UserError("normalization of pixels", expected="one mean and one std per channel", got=found)
        if not all(map(isfinite, self.mean)):
            raise UserError("mean of the normalization", expected="finite numbers", got=_listed(self.mean))
        if not all(isfinite(value) and value > 0 for value in self.std):
            raise UserError("std of the normalization", expected="finite numbers above 0", got=_listed(self.std))

    def over(self, channels: int) -> "Normalization":
        """Return the normalization for this number of channels; if it differs, all channels use the average."""
        if len(self.mean) == channels:
            return self
        return Normalization((sum(self.mean) / len(self.mean),), (sum(self.std) / len(self.std),))


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True)
class Resize:
    """How an image of any size becomes one of the model's input size.

    mode: "fit" cuts the largest centred part with the input's aspect ratio and scales it; "crop" scales the shorter
        side, then cuts out the centre; "stretch" scales height and width separately, then cuts out the centre.
    crop: the input's side as a fraction of the scaled side, e.g. 224 / 256; not used by "fit".
    """

    mode: Literal["fit", "crop", "stretch"] = "fit"
    crop: float = 1.0
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bicubic"

    def __post_init__(self) -> None:
        for name in ("mode", "interpolation"):
            if (value := getattr(self, name)) not in (known := get_args(get_type_hints(Resize)[name])):
                raise ValueError(f"resize {name} {value!r} is not one of {', '.join(known)}")
        if not 0 < self.crop <= 1:
            raise ValueError(f"resize crop {self.crop!r} is not above 0 and at most 1")


@dataclass(frozen=True)
class Card:
    """Name, config, class labels and preprocessing: all that is needed to load a saved model and use it."""

    model: str
    config: dict[str, Any]
    labels: tuple[str, ...] = ()
    normalization: Normalization = field(default_factory=Normalization)
    resize: Resize = field(default_factory=Resize)


def with_classes(card: Card, classes: int) -> Card:
    """Return the card of the same model with a new head for this number of classes, which have no names yet."""
    return replace(card, config={**card.config, "classes": classes}, labels=())
