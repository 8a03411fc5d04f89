"""Labelled images. Pixels are uint8 until the batch is on the device."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.core.grid import Size, sides
from patchword.data.image.decoding import LabelledFile, check_images, decode, map_images
from patchword.data.image.image_format import ImageFormat
from patchword.data.image.near_duplicates import Thumbnails
from patchword.data.progress import Progress
from patchword.data.randomness import order
from patchword.data.skipping import FaultySamples

MEMORY = 2 * 2**30  # maximum bytes of decoded images in memory
WHOLE = 200_000  # maximum images that are fully checked before training if they do not fit in memory

_NAMED = 10  # unknown classes


class Pixels(Protocol):
    """The storage of the pixels of a data set."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Return channels, height and width of an image."""
        ...

    def take(self, index: Tensor) -> Tensor:
        """Return (batch, channels, height, width), uint8."""
        ...

    def subset(self, index: Tensor) -> "Pixels": ...

    def order(self, seed: int, epoch: int) -> Tensor:
        """Return a permutation that depends on (seed, epoch) and that this storage reads efficiently."""
        ...

    def arrangement(self) -> bytes:
        """Return what the order depends on besides the number of samples."""
        ...


@dataclass(frozen=True)
class InMemory:
    """Pixels in memory, on any device."""

    pixels: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape[1:])

    def take(self, index: Tensor) -> Tensor:
        return self.pixels[index.to(self.pixels.device)]

    def subset(self, index: Tensor) -> "InMemory":
        return InMemory(self.take(index))

    def order(self, seed: int, epoch: int) -> Tensor:
        return order(seed, epoch, len(self.pixels))

    def arrangement(self) -> bytes:
        return b""


@dataclass(frozen=True)
class OnDisk:
    """Pixels in image files, which are decoded per batch."""

    paths: tuple[Path, ...]
    format: ImageFormat

    @property
    def shape(self) -> tuple[int, ...]:
        return self.format.shape

    def take(self, index: Tensor) -> Tensor:
        with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
            return torch.stack(list(pool.map(self._decode, index.tolist())))

    def subset(self, index: Tensor) -> "OnDisk":
        return replace(self, paths=tuple(self.paths[i] for i in index.tolist()))

    def order(self, seed: int, epoch: int) -> Tensor:
        return order(seed, epoch, len(self.paths))

    def arrangement(self) -> bytes:
        return b""

    def _decode(self, position: int) -> Tensor:
        return decode(self.paths[position], self.format)


@dataclass(frozen=True)
class Images:
    """Images with their labels, the class names and the origin of the data."""

    name: str
    origin: str
    pixels: Pixels
    labels: Tensor  # (count,) int64
    classes: tuple[str, ...]
    keys: Tensor  # (count,) int64: identifies a sample independently of its index

    def __post_init__(self) -> None:
        wrong = ((self.labels < 0) | (self.labels >= len(self.classes))).nonzero()
        if len(wrong):
            row = int(wrong[0])
            samples = ", ".join(str(int(sample)) for sample in wrong[:20]) + (", ..." if len(wrong) > 20 else "")
            raise UserError(
                f"the label of sample {row} of {self.name} is out of range",
                expected=f"0 to {len(self.classes) - 1} ({len(self.classes)} classes)",
                got=int(self.labels[row]),
                hint=f"{len(wrong)} labels are out of range, samples {samples}; the data set is {self.origin}",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> "Images":
        return replace(self, pixels=self.pixels.subset(index), labels=self.labels[index], keys=self.keys[index])

    def counts(self) -> dict[str, int]:
        """Return the number of images of each class."""
        return dict(zip(self.classes, self.labels.bincount(minlength=len(self.classes)).tolist(), strict=True))

    def fingerprint(self) -> str:
        """Return a hash that changes with samples, order, labels or classes."""
        digest = hashlib.sha256(repr(self.classes).encode() + self.pixels.arrangement())
        for part in (self.labels, self.keys):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def with_classes(self, classes: Sequence[str]) -> "Images":
        """Return the images with labels in a model's list of classes."""
        unknown = [name for name in self.classes if name not in classes]
        if unknown:
            more = [f"and {len(unknown) - 1:,} more: {', '.join(unknown[1:_NAMED])}"] if unknown[1:] else []
            hint = "\n".join(filter(None, [*more, nearest(unknown[0], classes)]))
            raise UserError(f"the model does not know class {unknown[0]!r} of {self.name}", hint=hint)
        renumbered = torch.tensor([list(classes).index(name) for name in self.classes])
        return replace(self, labels=renumbered[self.labels], classes=tuple(classes))


def load_pixels(
    files: Sequence[LabelledFile],
    format: ImageFormat,
    faulty: FaultySamples,
    progress: Progress | None = None,
    thumbnails: Thumbnails | None = None,
) -> tuple[Pixels, Tensor]:
    """Read every image once, so that corrupt ones are reported before training; keep them in memory if they fit.

    Return the pixels of the readable images, and the indices of those.
    If they do not fit and there are more than `WHOLE`, only the headers are read, since decoding would take as long as
    an epoch. A truncated image is then an error when a batch reads it.
    """
    if len(files) * prod(format.shape) > MEMORY:
        readable = check_images(files, faulty, progress, whole=len(files) <= WHOLE, thumbnails=thumbnails)
        good = torch.tensor(readable).nonzero()[:, 0]
        return OnDisk(tuple(files[row][0] for row in good.tolist()), format), good
    found = torch.zeros(len(files), *format.shape, dtype=torch.uint8)
    read = torch.zeros(len(files), dtype=torch.bool)
    for row, pixels in enumerate(map_images(files, lambda path: decode(path, format, thumbnails), faulty, progress)):
        if pixels is not None:
            found[row], read[row] = pixels, True
    return InMemory(found if read.all() else found[read]), read.nonzero()[:, 0]


@dataclass(frozen=True)
class Resized:
    """Pixels in memory at another size, which are resized per batch."""

    pixels: Tensor
    format: ImageFormat

    @property
    def shape(self) -> tuple[int, ...]:
        return self.format.shape

    def take(self, index: Tensor) -> Tensor:
        return resize(self.pixels[index.to(self.pixels.device)], self.format.size, self.format.channels)

    def subset(self, index: Tensor) -> "Resized":
        return replace(self, pixels=self.pixels[index])

    def order(self, seed: int, epoch: int) -> Tensor:
        return order(seed, epoch, len(self.pixels))

    def arrangement(self) -> bytes:
        return b""


def in_memory(pixels: Tensor, format: ImageFormat) -> Pixels:
    """Resize pixels now if the result fits in memory, else per batch. Pixels that are no files are always stretched."""
    resize(pixels[:1], format.size, format.channels)  # raises now if the channels cannot be converted
    if len(pixels) * prod(format.shape) > MEMORY:
        return Resized(pixels, format)
    return InMemory(torch.cat([resize(part, format.size, format.channels) for part in pixels.split(4096)]))


def resize(pixels: Tensor, size: Size, channels: int) -> Tensor:
    """Convert (count, channels, height, width) uint8 to another size and number of channels."""
    if pixels.shape[1] != channels:
        if pixels.shape[1] == 1 and channels == 3:
            pixels = pixels.expand(-1, 3, -1, -1)
        elif pixels.shape[1] == 3 and channels == 1:
            weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
            pixels = (pixels * weights).sum(1, keepdim=True).round().to(torch.uint8)
        else:
            raise UserError(
                "the images do not have the model's number of channels",
                expected=channels,
                got=pixels.shape[1],
                hint=f"set model.channels={pixels.shape[1]}",
            )
    if tuple(pixels.shape[2:]) == sides(size):
        return pixels
    resized = F.interpolate(pixels.float(), size=sides(size), mode="bicubic", antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8)
