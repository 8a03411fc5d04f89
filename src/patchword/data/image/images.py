"""Labelled pictures. Pixels are uint8 until the batch is on the device."""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.core.grid import Size, sides
from patchword.data.image.decoding import check_images, decode, map_images
from patchword.data.progress import Progress
from patchword.data.randomness import order

MEMORY = 2 * 2**30  # decoded pictures are kept in memory up to this many bytes
WHOLE = 200_000  # pictures that are read whole before training even if they cannot be kept


class Pixels(Protocol):
    """Where the pixels of a set are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """channels, height and width of a picture"""
        ...

    def take(self, index: Tensor) -> Tensor:
        """(batch, channels, height, width), uint8"""
        ...

    def subset(self, index: Tensor) -> "Pixels": ...

    def order(self, seed: int, epoch: int) -> Tensor:
        """every sample once, in an order that follows from (seed, epoch) and that this place hands out well"""
        ...

    def arrangement(self) -> bytes:
        """what the order follows from besides the number of samples"""
        ...


@dataclass(frozen=True)
class Held:
    """In memory, on any device."""

    pixels: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.pixels.shape[1:])

    def take(self, index: Tensor) -> Tensor:
        return self.pixels[index.to(self.pixels.device)]

    def subset(self, index: Tensor) -> "Held":
        return Held(self.take(index))

    def order(self, seed: int, epoch: int) -> Tensor:
        return order(seed, epoch, len(self.pixels))

    def arrangement(self) -> bytes:
        return b""


@dataclass(frozen=True)
class OnDisk:
    """In picture files, decoded when a batch asks for them."""

    paths: tuple[Path, ...]
    size: Size
    channels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.channels, *sides(self.size)

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
        return decode(self.paths[position], self.size, self.channels)


@dataclass(frozen=True)
class Images:
    """Pictures, the class of each, the classes' names, and where all this came from."""

    name: str
    origin: str
    pixels: Pixels
    labels: Tensor  # (count,) int64
    classes: tuple[str, ...]
    keys: Tensor  # (count,) int64: what a sample is known by, whatever its place in the set

    def __post_init__(self) -> None:
        wrong = ((self.labels < 0) | (self.labels >= len(self.classes))).nonzero()
        if len(wrong):
            row = int(wrong[0])
            samples = ", ".join(str(int(sample)) for sample in wrong[:20]) + (", ..." if len(wrong) > 20 else "")
            raise UserError(
                f"the label of sample {row} of {self.name} is out of range",
                expected=f"0 to {len(self.classes) - 1} ({len(self.classes)} classes)",
                got=int(self.labels[row]),
                hint=f"{len(wrong)} labels are out of range, of the samples {samples}; the set is {self.origin}",
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: Tensor) -> "Images":
        return replace(self, pixels=self.pixels.subset(index), labels=self.labels[index], keys=self.keys[index])

    def fingerprint(self) -> str:
        """Differs when samples, their order, their labels or the classes differ."""
        digest = hashlib.sha256(repr(self.classes).encode() + self.pixels.arrangement())
        for part in (self.labels, self.keys):
            digest.update(part.cpu().numpy().tobytes())
        return digest.hexdigest()

    def with_classes(self, classes: Sequence[str]) -> "Images":
        """The same pictures under a model's own list of classes."""
        for name in self.classes:
            if name not in classes:
                hint = nearest(name, classes)
                raise UserError(f"the model does not know class {name!r} of {self.name}", hint=hint)
        renumbered = torch.tensor([list(classes).index(name) for name in self.classes])
        return replace(self, labels=renumbered[self.labels], classes=tuple(classes))


def load_pixels(paths: Sequence[Path], size: Size, channels: int, progress: Progress | None = None) -> Pixels:
    """Reads every picture once, so that a corrupt one is named before any training; keeps them if they fit.

    Of a set that does not fit and has more than `WHOLE` pictures the headers alone are read: decoding it would take as
    long as an epoch. A picture with a broken end is then an error with its name when a batch asks for it.
    """
    height, width = sides(size)
    if len(paths) * channels * height * width > MEMORY:
        check_images(paths, progress, whole=len(paths) <= WHOLE)
        return OnDisk(tuple(paths), size, channels)
    found = torch.zeros(len(paths), channels, height, width, dtype=torch.uint8)
    for row, pixels in enumerate(map_images(paths, lambda path: decode(path, size, channels), progress)):
        if pixels is not None:
            found[row] = pixels
    return Held(found)


@dataclass(frozen=True)
class Resized:
    """In memory at another size, brought to the wanted one when a batch asks."""

    pixels: Tensor
    size: Size
    channels: int

    @property
    def shape(self) -> tuple[int, ...]:
        return self.channels, *sides(self.size)

    def take(self, index: Tensor) -> Tensor:
        return fitted(self.pixels[index.to(self.pixels.device)], self.size, self.channels)

    def subset(self, index: Tensor) -> "Resized":
        return replace(self, pixels=self.pixels[index])

    def order(self, seed: int, epoch: int) -> Tensor:
        return order(seed, epoch, len(self.pixels))

    def arrangement(self) -> bytes:
        return b""


def in_memory(pixels: Tensor, size: Size, channels: int) -> Pixels:
    """Pixels at the wanted size, in memory if they fit there, else resized batch by batch."""
    height, width = sides(size)
    fitted(pixels[:1], size, channels)  # what cannot be brought to these channels is said now
    if len(pixels) * channels * height * width > MEMORY:
        return Resized(pixels, size, channels)
    return Held(torch.cat([fitted(part, size, channels) for part in pixels.split(4096)]))


def fitted(pixels: Tensor, size: Size, channels: int) -> Tensor:
    """(count, channels, height, width) uint8, brought to another size and number of channels"""
    if pixels.shape[1] != channels:
        if pixels.shape[1] == 1 and channels == 3:
            pixels = pixels.expand(-1, 3, -1, -1)
        elif pixels.shape[1] == 3 and channels == 1:
            weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
            pixels = (pixels * weights).sum(1, keepdim=True).round().to(torch.uint8)
        else:
            raise UserError(
                "the pictures do not have the model's channels",
                expected=channels,
                got=pixels.shape[1],
                hint=f"set model.channels={pixels.shape[1]}",
            )
    if tuple(pixels.shape[2:]) == sides(size):
        return pixels
    resized = F.interpolate(pixels.float(), size=sides(size), mode="bicubic", antialias=True)
    return resized.round().clamp(0, 255).to(torch.uint8)
