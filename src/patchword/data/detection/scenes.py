"""Generated scenes: small grey images, such as garments, pasted on noise and clutter, with exact boxes and masks.

A scene depends on its index, the seed and the set of garments only. Scenes can be made in any order and any number.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from patchword.core.errors import UserError
from patchword.data.detection.samples import Sample
from patchword.data.randomness import uniform

_NUMBERS, _NOISE = 600, 601  # purposes of random numbers; a value never changes its meaning
_PER_GARMENT = 8  # most random numbers of a garment or a piece of one
Map = NDArray[np.float32]


@dataclass(frozen=True)
class SceneSettings:
    """How scenes are made.

    side: pixels of the square canvas. fewest, most: number of garments. smallest, largest: factors of their size.
    threshold: a pixel of a garment brighter than this (0 to 1) covers what is below; it belongs to the mask. visible:
    objects of which a smaller share can be seen are dropped. clutter: most pieces of garments that are no objects.
    cells: number of random values per side of the background. brightness: its maximum.
    """

    side: int = 128
    fewest: int = 2
    most: int = 6
    smallest: float = 0.7
    largest: float = 2.0
    threshold: float = 0.12
    visible: float = 0.4
    clutter: int = 8
    cells: int = 6
    brightness: float = 0.4


@dataclass(frozen=True, eq=False)
class Scene:
    """pixels: (side, side) uint8. boxes: (objects, 4) as x1, y1, x2, y2. masks: (objects, side, side), visible pixels.

    semantic: (side, side) int64, the class of each pixel; the number of classes for the background. It also has the
    pixels of garments that are dropped because others cover them.
    """

    pixels: NDArray[np.uint8]
    boxes: NDArray[np.float32]
    labels: NDArray[np.int64]
    masks: NDArray[np.bool_]
    semantic: NDArray[np.int64]

    @property
    def sample(self) -> Sample:
        """The scene as a sample with one channel."""
        return Sample(
            torch.from_numpy(self.pixels)[None],
            torch.from_numpy(self.boxes),
            torch.from_numpy(self.labels),
            torch.zeros(len(self.labels), dtype=torch.bool),
            torch.from_numpy(self.masks),
            (self.pixels.shape[0], self.pixels.shape[1]),
        )


@dataclass(frozen=True, eq=False)
class SceneGenerator:
    """Makes scenes. garments: (images, height, width) uint8 on black. labels: (images,). classes: number of labels.

    stream: scenes of another stream have other random numbers, e.g. those of the test split.
    """

    garments: Tensor
    labels: Tensor
    classes: int
    seed: int = 0
    stream: int = 0
    settings: SceneSettings = field(default_factory=SceneSettings)

    def __post_init__(self) -> None:
        if self.garments.ndim != 3 or len(self.garments) != len(self.labels) or not len(self.labels):
            raise UserError(
                "scenes need garments with one label each",
                expected="(images, height, width) and (images,)",
                got=f"{tuple(self.garments.shape)} and {tuple(self.labels.shape)}",
            )
        largest = max(round(side * self.settings.largest) for side in self.garments.shape[1:])
        if largest > self.settings.side:
            raise UserError(
                "the garments are larger than the canvas", expected=f"at most {self.settings.side} pixels", got=largest
            )

    def scene(self, index: int) -> Scene:
        """Return the scene of an index; other indices do not change it."""
        settings = self.settings
        count = _PER_GARMENT * (settings.clutter + settings.most) + 2
        numbers = _Numbers(uniform(self.seed, index, torch.arange(count), _NUMBERS + 10 * self.stream))
        canvas = self._background(index)
        for _ in range(numbers.integer(0, settings.clutter)):
            self._add_clutter(canvas, numbers)
        owner = np.full(canvas.shape, -1)  # number of the garment that is on top
        labels, areas = [], []
        for place in range(numbers.integer(settings.fewest, settings.most)):
            chosen, values = self._garment(numbers)
            top, left = self._position(values, numbers)
            covers = values > settings.threshold
            window = slice(top, top + values.shape[0]), slice(left, left + values.shape[1])
            canvas[window][covers], owner[window][covers] = values[covers], place
            labels.append(int(self.labels[chosen]))
            areas.append(int(covers.sum()))
        return self._finish(canvas, owner, np.array(labels), np.array(areas))

    def _finish(
        self, canvas: Map, owner: NDArray[np.int64], labels: NDArray[np.int64], areas: NDArray[np.int64]
    ) -> Scene:
        masks = owner == np.arange(len(labels))[:, None, None]
        seen = masks.sum(axis=(1, 2))
        kept = (seen > 0) & (seen >= self.settings.visible * areas)
        boxes = np.array([_box(mask) for mask in masks[kept]], dtype=np.float32).reshape(-1, 4)
        semantic = np.append(labels, self.classes)[owner]  # the owner -1 is the last entry
        pixels = (canvas * 255).round().astype(np.uint8)
        return Scene(pixels, boxes, labels[kept].astype(np.int64), masks[kept], semantic.astype(np.int64))

    def _background(self, index: int) -> Map:
        """Smooth noise: random values, bicubic between them."""
        cells, side = self.settings.cells, self.settings.side
        values = uniform(self.seed, index, torch.arange(cells * cells), _NOISE + 10 * self.stream)
        field = F.interpolate(values.view(1, 1, cells, cells), (side, side), mode="bicubic", align_corners=False)
        smooth: Map = field[0, 0].clamp(0, 1).mul(self.settings.brightness).numpy()
        return smooth

    def _garment(self, numbers: "_Numbers") -> tuple[int, Map]:
        """Return the index of a garment and its values (0 to 1) at a random size."""
        chosen = numbers.integer(0, len(self.labels) - 1)
        scale = self.settings.smallest + numbers.next() * (self.settings.largest - self.settings.smallest)
        image = self.garments[chosen].float().div(255)[None, None]
        size = [max(1, round(side * scale)) for side in image.shape[2:]]
        values: Map = F.interpolate(image, size, mode="bilinear", antialias=True)[0, 0].clamp(0, 1).numpy()
        return chosen, values

    def _position(self, values: Map, numbers: "_Numbers") -> tuple[int, int]:
        """Return top and left of a place where the values are inside of the canvas."""
        top, left = (numbers.integer(0, self.settings.side - side) for side in values.shape)
        return top, left

    def _add_clutter(self, canvas: Map, numbers: "_Numbers") -> None:
        """Paste a rectangle that is cut out of a garment: a quarter to a half of its height and width."""
        _, values = self._garment(numbers)
        height, width = (max(1, int(side * (0.25 + 0.25 * numbers.next()))) for side in values.shape)
        y, x = (numbers.integer(0, side - part) for side, part in zip(values.shape, (height, width), strict=True))
        piece = values[y : y + height, x : x + width]
        top, left = self._position(piece, numbers)
        covers = piece > self.settings.threshold
        canvas[top : top + height, left : left + width][covers] = piece[covers]


class _Numbers:
    """The random numbers of one scene, one after another."""

    def __init__(self, numbers: Tensor) -> None:
        self._left: Iterator[float] = iter(numbers.tolist())

    def next(self) -> float:
        """Return a number in [0, 1)."""
        return next(self._left)

    def integer(self, low: int, high: int) -> int:
        """Return a whole number in [low, high]."""
        return min(low + int(self.next() * (high - low + 1)), high)


def _box(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
