"""Rows that compare models: published, counted and measured figures."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from patchword.analysis.published.image import PUBLISHED, Published
from patchword.analysis.speed import Speed
from patchword.core.errors import UserError
from patchword.core.grid import sides
from patchword.models import REGISTRY

NOTHING = Published(None, None, None, "", "")  # a model without published figures
APART = 0.03  # published and counted figures that differ by more are marked

# The models that the lectures compare, at 224 x 224.
LECTURES = (
    "vit-base-16",
    *(f"deit-{size}" for size in ("tiny", "small", "base")),
    *(f"swin-{size}" for size in ("tiny", "small", "base")),
    *(f"cvt-{depth}" for depth in (13, 21)),
    *(f"cswin-{size}" for size in ("tiny", "small", "base")),
    *(f"pale-{size}" for size in ("tiny", "small", "base")),
    *(f"pvt-{size}" for size in ("tiny", "small", "medium", "large")),
    "mixer-base-16",
    *(f"resnet-{depth}" for depth in (50, 101, 152)),
    "regnety-16gf",
)


@dataclass(frozen=True)
class Row:
    """One model. speed: None if it was not measured; failure: the reason, if measuring failed."""

    model: str
    family: str
    size: str  # the variant's name, without its family's
    image: tuple[int, int]
    parameters: int
    macs: int
    published: Published
    speed: Speed | None = None
    failure: str = ""

    def marks(self) -> dict[str, str]:
        """Return the published figures that differ from the counted ones by more than 3%, and by how much."""
        figures = {
            "parameters": (self.published.parameters, self.parameters / 1e6, "M"),
            "MACs": (self.published.macs, self.macs / 1e9, "G"),
        }
        return {what: text for what, figure in figures.items() if (text := apart(*figure))}

    def measured(self, setting: object, speed: Speed) -> "Row":
        return replace(self, speed=speed)

    def failed(self, setting: object, why: str) -> "Row":
        return replace(self, failure=why)

    @property
    def is_measured(self) -> bool:
        return self.speed is not None

    @property
    def has_failed(self) -> bool:
        return bool(self.failure)

    def remarks(self) -> list[str]:
        return [f"{self.model}, {what}: {text}" for what, text in self.marks().items()]

    def to_json(self) -> dict[str, Any]:
        speed = asdict(self.speed) | {"images_per_second": self.speed.rate} if self.speed else None
        return {
            "model": self.model,
            "family": self.family,
            "image": list(self.image),
            "published": asdict(self.published),
            "counted": {"parameters": self.parameters, "macs": self.macs},
            "measured": speed,
            "failure": self.failure,
            "remarks": self.remarks(),
        }


def apart(printed: float | None, counted: float, unit: str) -> str:
    """Return by how much a published figure differs from the counted one; empty if it is near or not published."""
    if printed is None or abs(printed / counted - 1) <= APART:
        return ""
    digits = len(f"{printed:g}".partition(".")[2])
    difference = f"{abs(printed / counted - 1):.1%} {'above' if printed > counted else 'below'} the count"
    rounded = ", by rounding" if round(counted, digits) == printed else ""
    return f"published {printed:g} {unit}, counted {counted:.2f} {unit}, {difference}{rounded}"


def row_of(name: str) -> Row:
    """Return a row without measurements; the counts are the registry's, which tests compare with the counter."""
    family, variant = REGISTRY.find(name)
    image, size = sides(variant.config.image), name.removeprefix(f"{family.name}-")
    return Row(name, family.title, size, image, variant.parameters, variant.macs, PUBLISHED.get(name, NOTHING))


def chosen(words: Iterable[str]) -> list[str]:
    """Return the image models that names and patterns match, each once; the lectures' choice if there are none."""
    return matching(list(words) or LECTURES, "images", REGISTRY.reads_images)


def matching(words: Iterable[str], read: str, belongs: Callable[[str], bool]) -> list[str]:
    """Return the models that names and patterns match, each once, of those that read images, or texts."""
    names: list[str] = []
    for word in words:
        is_pattern = any(letter in word for letter in "*?[")
        if not is_pattern and not (REGISTRY.find(word) and belongs(word)):
            raise UserError(f"{word!r} reads {REGISTRY.reads(word)}", expected=f"a model of {read}")
        found = [name for name in REGISTRY.names(word) if belongs(name)] if is_pattern else [word]
        if not found:
            raise UserError(f"no model of {read} matches {word!r}", hint="`patchword models` lists all")
        names += found
    return list(dict.fromkeys(names))
