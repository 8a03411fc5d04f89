"""Intersections and IoU of masks in run lengths, for many pairs at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from patchword.core.masks.run_lengths import RunLengths, one_size

_MOST_RUNS = 4_000_000  # runs that one step compares; bounds the memory


def mask_iou(
    masks: Sequence[RunLengths], others: Sequence[RunLengths], crowd: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """Return the IoU of each pair, of shape (masks, others). All masks have one size.

    crowd: per mask of others; if True, the intersection is divided by the area of the mask instead of the union.
    """
    if not len(masks) or not len(others):
        return np.zeros((len(masks), len(others)))
    one_size([*masks, *others])
    first, second = (index.ravel() for index in np.indices((len(masks), len(others))))
    shared = intersections(masks, others, first, second).reshape(len(masks), len(others))
    areas, other_areas = (np.array([mask.area for mask in part], dtype=np.int64) for part in (masks, others))
    union = areas[:, None] + other_areas - shared
    if crowd is not None:
        union = np.where(crowd, areas[:, None], union)
    return shared / np.where(shared == 0, 1, union)


def intersections(
    masks: Sequence[RunLengths],
    others: Sequence[RunLengths],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the number of common pixels of masks[first[i]] and others[second[i]] for each pair i of masks of one size.

    A run of one mask has as many common pixels as the other mask has set pixels before its end, less those before its
    start.
    """
    shared = np.zeros(len(first), dtype=np.int64)
    if not len(first):
        return shared
    starts, ends, runs = _joined(masks)
    before = np.cumsum(runs) - runs
    counter = _SetPixels(others)
    work = np.cumsum(runs[first])
    cuts = np.unique(np.searchsorted(work, np.arange(0, work[-1] + _MOST_RUNS, _MOST_RUNS)))
    for low, high in zip(cuts, np.append(cuts[1:], len(first)), strict=True):
        number = runs[first[low:high]]
        pair = np.repeat(np.arange(low, high), number)
        run = np.arange(len(pair)) - np.repeat(np.cumsum(number) - number - before[first[low:high]], number)
        common = counter.before(second[pair], ends[run]) - counter.before(second[pair], starts[run])
        shared[low:high] = np.bincount(pair - low, weights=common, minlength=high - low).astype(np.int64)
    return shared


class _SetPixels:
    """Number of set pixels of a mask before a position, for many masks at once."""

    def __init__(self, masks: Sequence[RunLengths]) -> None:
        self.starts, self.ends, runs = _joined(masks)
        size = np.array([mask.height * mask.width + 1 for mask in masks], dtype=np.int64)
        self.offset = np.cumsum(size) - size
        self.starts += np.repeat(self.offset, runs)
        self.ends += np.repeat(self.offset, runs)
        self.first = np.cumsum(runs) - runs
        self.sums = np.concatenate(([0], np.cumsum(self.ends - self.starts)))

    def before(self, mask: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
        place = position + self.offset[mask]
        run = np.searchsorted(self.starts, place)  # runs that start before the place
        started = run > self.first[mask]
        # The last of these runs may end after the place.
        over = np.where(started, np.maximum(self.ends[np.maximum(run - 1, 0)] - place, 0), 0) if len(self.ends) else 0
        result: NDArray[np.int64] = self.sums[run] - self.sums[self.first[mask]] - over
        return result


def _joined(masks: Sequence[RunLengths]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and the ends of the runs of all masks, and the number of runs per mask."""
    runs = [mask.runs for mask in masks]
    number = np.array([len(starts) for starts, _ in runs], dtype=np.int64)
    return np.concatenate([run[0] for run in runs]), np.concatenate([run[1] for run in runs]), number
