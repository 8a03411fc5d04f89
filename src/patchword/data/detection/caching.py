"""Keeps the samples of a small data set in memory after their first read."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from patchword.data.detection.samples import Sample
from patchword.data.detection.sources import DetectionSource

MOST_BYTES = 2 << 30  # of all samples of a split that are kept
_PROBED = 16  # evenly spaced samples that the size of all is estimated from


@dataclass(frozen=True, eq=False)
class CachedSource:
    """Reads each image and fills each mask once."""

    source: DetectionSource
    samples: dict[int, Sample] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.source.classes

    @property
    def has_masks(self) -> bool:
        return self.source.has_masks

    def __len__(self) -> int:
        return len(self.source)

    def sample(self, index: int) -> Sample:
        found = self.samples.get(index)
        if found is None:
            found = self.samples[index] = self.source.sample(index)
        return found

    def areas(self, index: int) -> NDArray[np.float64]:
        return self.source.areas(index)

    def file(self, index: int) -> str:
        return self.source.file(index)

    def fingerprint(self) -> str:
        return self.source.fingerprint()


def cached(source: DetectionSource, most: int = MOST_BYTES) -> DetectionSource:
    """Return the source with its samples kept in memory, if all of them have at most `most` bytes."""
    probed = range(0, len(source), -(-len(source) // _PROBED))
    sizes = [_bytes(source.sample(index)) for index in probed]
    return CachedSource(source) if sum(sizes) / len(sizes) * len(source) <= most else source


def _bytes(sample: Sample) -> int:
    tensors = (sample.pixels, sample.boxes, sample.labels, sample.crowd, sample.masks)
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)
