"""Logits of a segmenter, enlarged to pixels in strips of rows, so that the memory does not grow with the image."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.layers.dense.segmentation.blocks import enlarge

Size = tuple[int, int]  # height, width
_LARGEST = 2**26  # most values of a strip


class LogitRows(Protocol):
    """Logits of images, computed for some rows at a time. size: height and width."""

    @property
    def size(self) -> Size: ...

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the logits of rows start to stop: (batch, classes, stop - start, width)."""
        ...


@dataclass(frozen=True, eq=False)
class PixelLogits:
    """Logits of images, to be enlarged to their pixels.

    coarse: (batch, classes, rows, columns) of the padded images. padded, size: height and width with and without the
    padding, which is at the right and at the bottom.
    """

    coarse: Tensor
    padded: Size
    size: Size

    def enlarged(self) -> Tensor:
        """Return the logits of all pixels at once: (batch, classes, height, width)."""
        return enlarge(self.coarse, self.padded)[:, :, : self.size[0], : self.size[1]]

    def rows(self, start: int, stop: int) -> Tensor:
        """Return the logits of rows start to stop of pixels; they equal those of `enlarged` up to rounding."""

        def read(first: int, last: int) -> Tensor:
            return self.coarse[:, :, first:last]

        return enlarge_rows(read, int(self.coarse.shape[2]), self.padded, start, stop)[..., : self.size[1]]


@dataclass(frozen=True, eq=False)
class ResizedLogits:
    """Logits of images, enlarged or reduced bilinearly to another size."""

    source: LogitRows
    size: Size

    def rows(self, start: int, stop: int) -> Tensor:
        if self.source.size == self.size:
            return self.source.rows(start, stop)
        return enlarge_rows(self.source.rows, self.source.size[0], self.size, start, stop)


def enlarge_rows(read: Callable[[int, int], Tensor], height: int, size: Size, start: int, stop: int) -> Tensor:
    """Return rows start to stop of maps that are enlarged bilinearly to a size.

    read: returns some rows (batch, channels, last - first, columns) of the maps. height: all rows of them.
    No row depends on the others of its strip, so that strips equal the whole bit by bit.
    """
    if height == size[0]:
        return enlarge(read(start, stop), (stop - start, size[1]))
    places = ((torch.arange(start, stop, dtype=torch.float64) + 0.5) * (height / size[0]) - 0.5).clamp(min=0)
    upper = places.long().clamp(max=height - 1)
    lower = (upper + 1).clamp(max=height - 1)
    first, last = int(upper[0]), int(lower[-1]) + 1
    wide = enlarge(read(first, last).contiguous(), (last - first, size[1]))
    part = (places - upper).to(wide.dtype).view(-1, 1).to(wide.device)
    above, below = (wide.index_select(2, (each - first).to(wide.device)) for each in (upper, lower))
    return below.sub_(above).mul_(part).add_(above)  # three rounded steps: a fused one may depend on the place


def strips(height: int, values: int) -> Iterator[tuple[int, int]]:
    """Yield start and stop of strips of rows. values: of one row; a strip has a limited number of them."""
    step = max(1, _LARGEST // values)
    for start in range(0, height, step):
        yield start, min(height, start + step)


def class_map(logits: PixelLogits, size: Sequence[int]) -> Tensor:
    """Return the class of each pixel of images that are enlarged to a size: (batch, *size)."""
    if torch.compiler.is_compiling():
        return enlarge(logits.enlarged(), size).argmax(dim=1)
    resized = ResizedLogits(logits, (size[0], size[1]))
    values = logits.coarse.shape[0] * logits.coarse.shape[1] * max(size[1], logits.padded[1])
    return torch.cat([resized.rows(*strip).argmax(dim=1) for strip in strips(size[0], values)], dim=1)


def pad_to_multiple(images: Tensor, multiple: int) -> Tensor:
    """Pad images (..., height, width) with zeros at the right and at the bottom to multiples in pixels."""
    height, width = images.shape[-2:]
    return images if multiple == 1 else F.pad(images, (0, -width % multiple, 0, -height % multiple))
