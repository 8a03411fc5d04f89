"""Find images of different splits that look the same, such as a copy that was saved again in another format.

Each image is known by its thumbnail and a difference hash of it. Only images of equal brightness are compared, first
by their hashes, then by their thumbnails, strictly: an image is a copy only if no place of it differs visibly.
"""

from collections.abc import Collection, Iterator
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from patchword.data.faults import warn

KIND = "an image that looks like one of another split"
MOST = 200_000  # images that are compared
_SIDE = 16
_HASH_BITS = 10  # of 64 that may differ
_MEAN, _LARGEST = 1.0, 16  # levels of 255 by which thumbnails may differ: their mean, and any place
_BITS = np.array([bin(value).count("1") for value in range(256)], np.uint8)


class Thumbnails:
    """The thumbnails of the images that were decoded."""

    def __init__(self) -> None:
        self._found: dict[Path, bytes] = {}
        self._lock = Lock()

    def add(self, path: Path, image: Image.Image) -> None:
        """Keep the thumbnail of an image, unless there are too many."""
        if len(self._found) <= MOST:
            small = image.convert("L").resize((_SIDE, _SIDE), Image.Resampling.BOX).tobytes()
            with self._lock:
                self._found[path] = small

    def of(self, paths: Collection[Path]) -> tuple[list[Path], NDArray[np.uint8]]:
        """Return those of the paths that were decoded, and their thumbnails (images, places)."""
        known = [path for path in paths if path in self._found]
        pixels = np.frombuffer(b"".join(self._found[path] for path in known), np.uint8)
        return known, pixels.reshape(len(known), _SIDE * _SIDE)


def warn_near_duplicates(thumbnails: Thumbnails, splits: dict[str, list[Path]], known: Collection[Path]) -> None:
    """Warn of validation and test images that look like one of an earlier split. known: copies that are named already.

    splits: the images of training, validation and test, in this order.
    """
    if sum(map(len, splits.values())) > MOST:
        warn("images of different splits are not compared by their looks", f"there are more than {MOST:,}")
        return
    earlier: list[tuple[str, Path]] = []
    for split, paths in splits.items():
        asked, pixels = thumbnails.of([path for path in paths if path not in known])
        others, their_pixels = thumbnails.of([path for _, path in earlier])
        split_of = {path: name for name, path in earlier}
        for mine, theirs in near_pairs(pixels, their_pixels):
            warn(KIND, f"{asked[mine]} ({split}) is like {others[theirs]} ({split_of[others[theirs]]})")
        earlier += [(split, path) for path in paths]


def near_pairs(asked: NDArray[np.uint8], others: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Yield for each thumbnail (images, places) that has a copy among others its index and that of the nearest one."""
    if not len(asked) or not len(others):
        return
    order = np.argsort(others.mean(1), kind="stable")
    sorted_others, hashes = others[order], difference_hashes(others[order])
    levels, own_levels = sorted_others.mean(1), asked.mean(1)
    first = np.searchsorted(levels, own_levels - _MEAN, "left")
    last = np.searchsorted(levels, own_levels + _MEAN, "right")
    for index, own in enumerate(difference_hashes(asked)):
        distances = _BITS[hashes[first[index] : last[index]] ^ own].sum(1, dtype=np.uint8)
        close = np.flatnonzero(distances <= _HASH_BITS) + first[index]
        differences = np.abs(sorted_others[close].astype(np.int16) - asked[index])
        means = differences.mean(1)
        means[differences.max(1) > _LARGEST] = np.inf
        if len(close) and means.min() <= _MEAN:
            yield index, int(order[close[means.argmin()]])


def difference_hashes(thumbnails: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return (images, 8) bytes: of 8 x 8 places, whether each is brighter than the next one to its right."""
    blocks = thumbnails.reshape(-1, 8, 2, _SIDE).sum(2, dtype=np.int16)
    left, right = blocks[:, :, 0::2], np.concatenate([blocks[:, :, 2::2], blocks[:, :, 1:2]], 2)
    return np.packbits((left > right + 2).reshape(len(thumbnails), 64), axis=1)
