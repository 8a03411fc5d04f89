"""Binary masks as run lengths (COCO's RLE): alternating lengths of runs of zeros and ones, column by column."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.compressed import compress, decompress


@dataclass(frozen=True, eq=False)
class RunLengths:
    """A mask of shape (height, width). counts: run lengths in column-major order; the first run is of zeros.

    The lengths sum up to height * width. The first one is 0 if the top-left pixel is set.
    """

    height: int
    width: int
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts, dtype=np.int64)
        object.__setattr__(self, "counts", counts)
        pixels = self.height * self.width
        if counts.ndim != 1 or counts.size == 0 or counts.min() < 0 or counts.sum() != pixels:
            raise UserError(
                f"the run lengths do not fit a mask of {self.height} x {self.width}",
                expected=f"lengths of at least 0 with the sum {pixels}",
                got=f"{counts.size} lengths with the sum {counts.sum()}",
            )

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_] | NDArray[np.uint8]) -> "RunLengths":
        """Encode a mask of shape (height, width); each non-zero value is set."""
        if mask.ndim != 2:
            raise UserError("a mask has two dimensions", expected="(height, width)", got=mask.shape)
        return cls.from_masks(mask[None])[0]

    @classmethod
    def from_masks(cls, masks: NDArray[np.bool_] | NDArray[np.uint8]) -> "list[RunLengths]":
        """Encode masks of shape (masks, height, width) together, which is faster than one by one."""
        count, height, width = masks.shape
        size = height * width
        pixels = np.ascontiguousarray((masks != 0).transpose(0, 2, 1)).reshape(count, size)
        # A column before the first and one after the last pixel make each mask start at 0 and end at its size.
        changed = np.ones((count, size + 2), dtype=bool)
        changed[:, 1:-1] = np.diff(pixels, axis=1, prepend=False)
        mask, place = np.nonzero(changed)
        position: NDArray[np.int64] = (place - 1).clip(0, size)
        lengths = position[1:] - position[:-1]
        ends = np.searchsorted(mask, np.arange(count + 1))
        return [cls(height, width, lengths[start : end - 1]) for start, end in itertools.pairwise(ends)]

    @classmethod
    def from_changes(cls, height: int, width: int, changes: NDArray[np.int64]) -> "RunLengths":
        """changes: sorted column-major positions, all below height * width, where the value of the mask changes."""
        return cls(height, width, np.diff(changes, prepend=0, append=height * width))

    @classmethod
    def from_text(cls, height: int, width: int, text: str | bytes) -> "RunLengths":
        """Decode COCO's compressed string, the `counts` of its result files."""
        return cls(height, width, decompress(text))

    def to_text(self) -> str:
        """Return COCO's compressed string."""
        return compress(self.counts)

    def to_mask(self) -> NDArray[np.bool_]:
        """Return the mask as an array of shape (height, width)."""
        values = np.arange(len(self.counts)) % 2 == 1
        return np.repeat(values, self.counts).reshape(self.width, self.height).T

    @cached_property
    def runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First positions of the runs of ones, and the positions after their last ones. Empty runs are left out."""
        ends = np.cumsum(self.counts)
        starts, ends = ends[0::2][: len(self.counts) // 2], ends[1::2]
        kept = ends > starts
        return (starts, ends) if kept.all() else (starts[kept], ends[kept])

    @cached_property
    def area(self) -> int:
        """Number of set pixels."""
        return int(self.counts[1::2].sum())

    @cached_property
    def box(self) -> tuple[int, int, int, int]:
        """Return the box (x1, y1, x2, y2) around the set pixels; x2 and y2 are exclusive. All 0 for an empty mask."""
        starts, ends = self.runs
        if not len(starts):
            return 0, 0, 0, 0
        first, last = starts // self.height, (ends - 1) // self.height
        top, bottom = int((starts % self.height).min()), int(((ends - 1) % self.height).max()) + 1
        if (first < last).any():  # a run that continues in the next column touches the bottom and the top
            top, bottom = 0, self.height
        return int(first[0]), top, int(last[-1]) + 1, bottom


def merge(masks: Sequence[RunLengths], intersect: bool = False) -> RunLengths:
    """Return the union of masks of one size, or their intersection."""
    height, width = one_size(masks)
    runs = [mask.runs for mask in masks]
    starts, ends = np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs])
    places, index = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    steps = np.zeros(len(places), dtype=np.int64)
    np.add.at(steps, index, np.repeat([1, -1], len(starts)))
    inside = np.cumsum(steps) >= (len(masks) if intersect else 1)
    changes = places[np.diff(inside, prepend=False)]
    return RunLengths.from_changes(height, width, changes[changes < height * width])


def one_size(masks: Sequence[RunLengths]) -> tuple[int, int]:
    """Return the height and the width that all masks have."""
    sizes = {(mask.height, mask.width) for mask in masks}
    if len(sizes) != 1:
        raise UserError("masks of one image have one size", expected="one (height, width)", got=sorted(sizes) or "none")
    return sizes.pop()
