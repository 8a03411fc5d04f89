"""The label map of one image, in the forms of every answer: a JSON record, rows of a table, cells for the terminal."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from patchword.core.errors import UserError
from patchword.core.files import whole_file
from patchword.core.masks.outlines import Region, trace_regions
from patchword.reports.detection.colors import Color
from patchword.reports.segmentation.overlay import SMALLEST, draw_labels, palette_image, with_legend

LabelArray: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8]]  # (height, width)
_SHOWN = 8  # classes in a table


@dataclass(frozen=True, eq=False)
class SegmentationAnswer:
    """The class of each pixel of one image.

    labels: (height, width) uint8, the number of a class. classes: the names of all classes. colors: one per class.
    """

    labels: LabelArray
    classes: tuple[str, ...]
    colors: tuple[Color, ...]

    @property
    def height(self) -> int:
        return int(self.labels.shape[0])

    @property
    def width(self) -> int:
        return int(self.labels.shape[1])

    @property
    def share(self) -> dict[str, float]:
        """The fraction of the pixels of each class that occurs, the largest first."""
        counts = np.bincount(self.labels.reshape(-1), minlength=len(self.classes))
        order = [int(label) for label in np.argsort(-counts, kind="stable") if counts[label]]
        return {self.classes[label]: float(counts[label] / self.labels.size) for label in order}

    def mask(self, name: str) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Return the pixels of a class: (height, width) of bool."""
        if name not in self.classes:
            raise UserError(f"there is no class {name!r}", expected=", ".join(self.classes))
        found: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = self.labels == self.classes.index(name)
        return found

    def regions(self) -> list[Region]:
        """Return the connected regions, each with its label and one polygon."""
        return trace_regions(self.labels)

    def save(self, path: str | Path) -> None:
        """Write the label map as a PNG with a palette; its values are the numbers of the classes."""
        target = Path(path)
        if target.suffix.lower() != ".png":
            raise UserError("a label map is a PNG file", expected="FILE.png", got=str(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target) as temporary:
            palette_image(self.labels, self.colors).save(temporary, "PNG", optimize=True)

    def draw(self, image: Image.Image, smallest: int = SMALLEST, largest: int | None = None) -> Image.Image:
        """Return a copy of the image with the colours of the classes and a legend below it."""
        drawn = draw_labels(image, self.labels, self.colors, smallest, largest)
        return with_legend(drawn, [self.labels], self.classes, self.colors)

    def record(self) -> dict[str, Any]:
        """Return width, height, and the share of each class."""
        return {"width": self.width, "height": self.height, "share": self.share}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per class that occurs: its name and share."""
        return [{"class": name, "share": f"{part:.6f}"} for name, part in self.share.items()]

    def cells(self) -> list[dict[str, str]]:
        """Return one row with the largest classes."""
        named = [f"{name} {part:.1%}" for name, part in list(self.share.items())[:_SHOWN]]
        more = len(self.share) - _SHOWN
        return [{"classes": ", ".join(named) + (f" and {more} more" if more > 0 else "")}]
