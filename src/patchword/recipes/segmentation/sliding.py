"""Logits of an image from overlapping windows."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from patchword.layers.dense.segmentation.pixel_logits import PixelLogits, Size


@dataclass(frozen=True, eq=False)
class SlidingLogits:
    """The logits of windows at their places (top, left). Where windows overlap, their logits are averaged."""

    windows: tuple[tuple[int, int, PixelLogits], ...]
    size: Size

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the logits of rows start to stop: (batch, classes, stop - start, width)."""
        some = self.windows[0][2].coarse
        summed = some.new_zeros(*some.shape[:2], stop - start, self.size[1])
        counts = some.new_zeros(stop - start, self.size[1])
        for top, left, logits in self.windows:
            height, width = logits.size
            first, last = max(start, top), min(stop, top + height)
            if first < last:
                place = (..., slice(first - start, last - start), slice(left, left + width))
                summed[place] += logits.rows(first - top, last - top)
                counts[place] += 1
        return summed.div_(counts)


def slide(
    pixels: Tensor, window: int, stride: int, together: int, compute: Callable[[Tensor], PixelLogits]
) -> SlidingLogits:
    """Compute the logits of all windows of images (batch, channels, height, width).

    window, stride: side and distance of windows. together: windows that are computed at once.
    """
    height, width = int(pixels.shape[2]), int(pixels.shape[3])
    tops, lefts = window_places(height, window, stride), window_places(width, window, stride)
    places = [(top, left) for top in tops for left in lefts]
    found = []
    for start in range(0, len(places), together):
        some = places[start : start + together]
        logits = compute(torch.cat([pixels[:, :, top : top + window, left : left + window] for top, left in some]))
        parts = logits.coarse.split(len(pixels))
        found += [(*place, replace(logits, coarse=part)) for place, part in zip(some, parts, strict=True)]
    return SlidingLogits(tuple(found), (height, width))


def window_places(length: int, window: int, stride: int) -> list[int]:
    """Return where windows start along one axis; the last window ends with the image."""
    number = max(length - window + stride - 1, 0) // stride + 1
    return [max(0, min(place * stride, length - window)) for place in range(number)]
