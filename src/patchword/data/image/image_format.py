"""The format in which a model reads images: size, channels, and how an image of another size is converted."""

from dataclasses import dataclass, field

from patchword.core.card import Card, Resize
from patchword.core.grid import Size, sides


@dataclass(frozen=True)
class ImageFormat:
    """Pixels of height, width and channels. resize: how image files of other sizes are converted."""

    size: Size
    channels: int
    resize: Resize = field(default_factory=Resize)

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width."""
        return sides(self.size)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.channels, *self.sides

    @classmethod
    def of(cls, card: Card) -> "ImageFormat":
        return cls(card.config["image"], card.config["channels"], card.resize)
