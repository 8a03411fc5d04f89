"""Segmentation data by name or path: generated scenes, or label maps. Each gives samples by their index."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from patchword.data.detection.sources import SceneSource
from patchword.data.detection.wrapping import Wrapped
from patchword.data.randomness import order
from patchword.data.segmentation.records import Color, SegmentationDataset
from patchword.data.segmentation.samples import LabelledSample, load_sample

BACKGROUND = "background"
"""The class of the pixels of a scene without a garment."""
MOST_BYTES = 2 << 30  # of all samples of a split that are kept in memory
_PROBED = 16  # evenly spaced samples that the size of all is estimated from


class SegmentationSource(Protocol):
    """One split of segmentation data."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def colors(self) -> tuple[Color, ...]:
        """The colour of each class in the files; empty if they have none."""
        ...

    def __len__(self) -> int: ...

    def sample(self, index: int) -> LabelledSample:
        """Return the image and the label map of an index."""
        ...

    def file(self, index: int) -> str:
        """Return the name of an image, for messages and results."""
        ...

    def fingerprint(self) -> str:
        """Return a hash of the label maps, which changes if one of them does."""
        ...


@dataclass(frozen=True, eq=False)
class FileSource:
    """Samples of label map files."""

    dataset: SegmentationDataset
    channels: int = 3

    @property
    def name(self) -> str:
        return self.dataset.where.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.dataset.table.names

    @property
    def colors(self) -> tuple[Color, ...]:
        return self.dataset.table.colors

    def __len__(self) -> int:
        return len(self.dataset.images)

    def sample(self, index: int) -> LabelledSample:
        return load_sample(self.dataset.images[index], self.dataset.table, self.channels)

    def file(self, index: int) -> str:
        return str(self.dataset.images[index].image)

    def fingerprint(self) -> str:
        table = self.dataset.table
        digest = hashlib.sha256(repr((table.names, table.values, table.ignored)).encode())
        for one in self.dataset.images:
            digest.update(repr((one.image.name, one.size, one.digest)).encode())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class SceneLabels(Wrapped[SceneSource]):
    """Generated scenes with their semantic labels; the background is the last class."""

    @property
    def classes(self) -> tuple[str, ...]:
        return (*self.source.classes, BACKGROUND)

    @property
    def colors(self) -> tuple[Color, ...]:
        return ()

    def sample(self, index: int) -> LabelledSample:
        scene = self.source.scene(index)
        pixels = torch.from_numpy(scene.pixels)[None].expand(self.source.channels, -1, -1).contiguous()
        return LabelledSample(pixels, torch.from_numpy(scene.semantic).to(torch.uint8))


@dataclass(frozen=True, eq=False)
class SubsetSource(Wrapped[SegmentationSource]):
    """Some images of a source. chosen: their indices."""

    chosen: Sequence[int]

    @property
    def colors(self) -> tuple[Color, ...]:
        return self.source.colors

    def __len__(self) -> int:
        return len(self.chosen)

    def sample(self, index: int) -> LabelledSample:
        return self.source.sample(self._index(index))

    def fingerprint(self) -> str:
        return hashlib.sha256((self.source.fingerprint() + repr(tuple(self.chosen))).encode()).hexdigest()

    def _index(self, index: int) -> int:
        return self.chosen[index]


class CachedSource(SubsetSource):
    """All images of a source; each is read once."""

    def __init__(self, source: SegmentationSource) -> None:
        super().__init__(source, range(len(source)))
        self._samples: dict[int, LabelledSample] = {}

    def sample(self, index: int) -> LabelledSample:
        found = self._samples.get(index)
        if found is None:
            found = self._samples[index] = self.source.sample(index)
        return found

    def fingerprint(self) -> str:
        return self.source.fingerprint()


def cached(source: SegmentationSource, most: int = MOST_BYTES) -> SegmentationSource:
    """Return the source with its samples kept in memory, if all of them have at most `most` bytes."""
    probed = range(0, len(source), -(-len(source) // _PROBED))
    sizes = [one.pixels.nbytes + one.labels.nbytes for one in map(source.sample, probed)]
    return CachedSource(source) if sum(sizes) / len(sizes) * len(source) <= most else source


def drawn(source: SegmentationSource, most: int) -> SegmentationSource:
    """Return at most `most` images of the source, drawn at random but always the same; 0 returns all."""
    if not 0 < most < len(source):
        return source
    chosen: Tensor = order(0, 0, len(source))[:most].sort().values
    return SubsetSource(source, chosen.tolist())
