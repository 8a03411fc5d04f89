"""Detection data that wraps other detection data: some of its images, or its samples kept in memory."""

import hashlib
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from patchword.data.detection.samples import Sample
from patchword.data.detection.sources import DetectionSource
from patchword.data.randomness import order

MOST_BYTES = 2 << 30  # of all samples of a split that are kept
_PROBED = 16  # evenly spaced samples that the size of all is estimated from


class NamedImages(Protocol):
    """What sources of detection and segmentation data have in common."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    def __len__(self) -> int: ...

    def file(self, index: int) -> str: ...

    def fingerprint(self) -> str: ...


def file_names(source: NamedImages) -> list[str]:
    """Return the name of every image."""
    return [source.file(index) for index in range(len(source))]


S = TypeVar("S", bound=NamedImages)


@dataclass(frozen=True, eq=False)
class Wrapped(Generic[S]):
    """The same images as another source; subclasses change some of it."""

    source: S

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    def __len__(self) -> int:
        return len(self.source)

    def file(self, index: int) -> str:
        return self.source.file(self._index(index))

    def fingerprint(self) -> str:
        return self.source.fingerprint()

    def _index(self, index: int) -> int:
        """Return the index of an image in the wrapped source."""
        return index


@dataclass(frozen=True, eq=False)
class WrappedSource(Wrapped[DetectionSource]):
    """The same images and objects as another source; subclasses change some of it."""

    @property
    def has_masks(self) -> bool:
        return self.source.has_masks

    def sample(self, index: int) -> Sample:
        return self.source.sample(self._index(index))

    def areas(self, index: int) -> NDArray[np.float64]:
        return self.source.areas(self._index(index))


@dataclass(frozen=True, eq=False)
class CachedSource(WrappedSource):
    """Reads each image and fills each mask once."""

    samples: dict[int, Sample] = field(default_factory=dict)

    def sample(self, index: int) -> Sample:
        found = self.samples.get(index)
        if found is None:
            found = self.samples[index] = self.source.sample(index)
        return found


@dataclass(frozen=True, eq=False)
class SubsetSource(WrappedSource):
    """Some images of a source. chosen: their indices, (images,)."""

    chosen: Tensor

    def __len__(self) -> int:
        return len(self.chosen)

    def fingerprint(self) -> str:
        return hashlib.sha256(self.source.fingerprint().encode() + self.chosen.numpy().tobytes()).hexdigest()

    def _index(self, index: int) -> int:
        return int(self.chosen[index])


def cached(source: DetectionSource, most: int = MOST_BYTES) -> DetectionSource:
    """Return the source with its samples kept in memory, if all of them have at most `most` bytes."""
    probed = range(0, len(source), -(-len(source) // _PROBED))
    sizes = [_bytes(source.sample(index)) for index in probed]
    return CachedSource(source) if sum(sizes) / len(sizes) * len(source) <= most else source


def drawn(source: DetectionSource, most: int) -> DetectionSource:
    """Return at most `most` images of the source, drawn at random but always the same; 0 returns all."""
    if not 0 < most < len(source):
        return source
    return SubsetSource(source, order(0, 0, len(source))[:most].sort().values)


def _bytes(sample: Sample) -> int:
    tensors = (sample.pixels, sample.boxes, sample.labels, sample.crowd, sample.masks)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
