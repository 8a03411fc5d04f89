"""The runs of many masks in flat arrays, so that areas and intersections take no loop over masks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from patchword.core.masks.run_lengths import RunLengths

_MOST_RUNS = 1_000_000  # runs that one step compares; bounds the memory


@dataclass(frozen=True, eq=False)
class MaskBatch:
    """Masks of any sizes, one behind the other in one range of positions.

    sizes: (masks, 2) as height, width. offset: (masks,), position of the first pixel. first: (masks + 1,), index of the
    first run of ones of each mask, and the number of all runs. starts, ends: (runs,), positions of the first pixel and
    after the last one, column by column. Runs may be empty.
    """

    sizes: NDArray[np.int64]
    offset: NDArray[np.int64]
    first: NDArray[np.int64]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]

    @classmethod
    def join(cls, masks: Sequence[RunLengths]) -> "MaskBatch":
        """Join the runs of masks."""
        sizes = np.array([(mask.height, mask.width) for mask in masks], dtype=np.int64).reshape(-1, 2)
        pixels = sizes[:, 0] * sizes[:, 1]
        empty = np.zeros(1, dtype=np.int64)
        parts = [np.zeros(0, dtype=np.int64)]
        for mask in masks:
            parts.append(mask.counts)
            if len(mask.counts) % 2:  # the last run is of zeros
                parts.append(empty)
        counts = np.concatenate(parts)
        runs = np.array([(len(mask.counts) + 1) // 2 for mask in masks], dtype=np.int64)
        ends = np.cumsum(counts[0::2] + counts[1::2])
        return cls(
            sizes, np.cumsum(pixels) - pixels, np.concatenate((empty, np.cumsum(runs))), ends - counts[1::2], ends
        )

    def __len__(self) -> int:
        return len(self.offset)

    @cached_property
    def runs(self) -> NDArray[np.int64]:
        """Number of runs of each mask."""
        return np.diff(self.first)

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """Number of set pixels in all runs before each run, and in all runs, (runs + 1,)."""
        return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self.ends - self.starts)))

    @cached_property
    def areas(self) -> NDArray[np.int64]:
        """Number of set pixels of each mask."""
        return np.diff(self.before[self.first])

    @cached_property
    def columns(self) -> NDArray[np.int64]:
        """Columns (masks, 2) that can have set pixels: the first one, and the one after the last."""
        height = np.maximum(self.sizes[:, 0], 1)
        low, high = self.starts[self.first[:-1]] - self.offset, self.ends[self.first[1:] - 1] - self.offset
        return np.stack((low // height, -(-high // height)), axis=1)


def intersections(
    masks: MaskBatch, others: MaskBatch, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the number of common pixels of masks[first[i]] and others[second[i]] for each pair i of masks of one size.

    A run of one mask has as many common pixels as the other mask has set pixels before its end, less those before its
    start.
    """
    shared = np.zeros(len(first), dtype=np.int64)
    if not len(first):
        return shared
    work = np.cumsum(masks.runs[first])
    cuts = np.unique(np.searchsorted(work, np.arange(0, work[-1] + _MOST_RUNS, _MOST_RUNS)))
    for low, high in zip(cuts, np.append(cuts[1:], len(first)), strict=True):
        shared[low:high] = _intersections(masks, others, first[low:high], second[low:high])
    return shared


def _intersections(
    masks: MaskBatch, others: MaskBatch, first: NDArray[np.int64], second: NDArray[np.int64]
) -> NDArray[np.int64]:
    number = masks.runs[first]
    total = np.cumsum(number)
    run = np.arange(number.sum()) - np.repeat(total - number - masks.first[first], number)
    shift = np.repeat(others.offset[second] - masks.offset[first], number)
    lowest = np.repeat(others.first[second], number)
    sums = [_set_before(others, position[run] + shift, lowest) for position in (masks.starts, masks.ends)]
    common = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sums[1] - sums[0])))
    shared: NDArray[np.int64] = common[total] - common[total - number]
    return shared


def _set_before(masks: MaskBatch, position: NDArray[np.int64], lowest: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the set pixels of all masks before a position. lowest: the first run of the mask with this position."""
    run = np.searchsorted(masks.starts, position)  # runs that start before the position
    # The last of these runs may end behind the position. A run of an earlier mask does not.
    rest = np.maximum(masks.ends[run - 1] - position, 0)
    result: NDArray[np.int64] = masks.before[run] - np.where(run > lowest, rest, 0)
    return result
