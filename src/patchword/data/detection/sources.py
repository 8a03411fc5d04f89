"""Detection data by name or path: generated scenes, or annotation files. Each gives samples by their index."""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from patchword.core.errors import UserError, nearest
from patchword.data.detection.reading import read_detection
from patchword.data.detection.records import DetectionDataset
from patchword.data.detection.samples import Sample, load_sample
from patchword.data.detection.scenes import Scene, SceneGenerator, SceneSettings
from patchword.data.image.idx import read_idx
from patchword.data.image.named_datasets import DATASETS, find_dataset, how_to_get
from patchword.data.image.splits import Split


class DetectionSource(Protocol):
    """One split of detection data."""

    @property
    def name(self) -> str: ...

    @property
    def classes(self) -> tuple[str, ...]: ...

    @property
    def has_masks(self) -> bool:
        """True if every object has a mask."""
        ...

    def __len__(self) -> int: ...

    def sample(self, index: int) -> Sample:
        """Return the image and the objects of an index."""
        ...

    def areas(self, index: int) -> NDArray[np.float64]:
        """Return the area of each object, as its annotation gives it."""
        ...

    def file(self, index: int) -> str:
        """Return the name of an image, for messages and results."""
        ...

    def fingerprint(self) -> str:
        """Return a hash of the annotations, which changes if an object or an image does."""
        ...


@dataclass(frozen=True, eq=False)
class FileSource:
    """Samples of annotation files."""

    dataset: DetectionDataset
    channels: int = 3
    masks: bool = True

    @property
    def name(self) -> str:
        return self.dataset.where.name

    @property
    def classes(self) -> tuple[str, ...]:
        return self.dataset.classes

    def __len__(self) -> int:
        return len(self.dataset.images)

    def sample(self, index: int) -> Sample:
        return load_sample(self.dataset.images[index], self.channels, self.masks)

    @property
    def has_masks(self) -> bool:
        return self.masks and self.dataset.has_masks

    def areas(self, index: int) -> NDArray[np.float64]:
        return self.dataset.images[index].areas

    def file(self, index: int) -> str:
        return str(self.dataset.images[index].image)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self.classes).encode())
        for image in self.dataset.images:
            digest.update(repr((image.image.name, image.height, image.width)).encode())
            for values in (image.boxes, image.labels, image.areas):
                digest.update(values.tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class SceneSource:
    """Generated scenes as samples."""

    name: str
    classes: tuple[str, ...]
    generator: SceneGenerator
    scenes: int
    channels: int = 1

    def __len__(self) -> int:
        return self.scenes

    def scene(self, index: int) -> Scene:
        """Return a scene with its semantic labels."""
        if not 0 <= index < self.scenes:
            raise IndexError(f"scene {index} of {self.scenes}")
        return self.generator.scene(index)

    def sample(self, index: int) -> Sample:
        found = self.scene(index).sample
        pixels = found.pixels.expand(self.channels, -1, -1).contiguous()
        return Sample(pixels, found.boxes, found.labels, found.crowd, found.masks, found.size)

    @property
    def has_masks(self) -> bool:
        return True

    def areas(self, index: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.scene(index).masks.sum(axis=(1, 2)).astype(np.float64)
        return found

    def file(self, index: int) -> str:
        return f"scene {index} of {self.name}"

    def fingerprint(self) -> str:
        made_of = repr((self.generator.seed, self.generator.stream, self.generator.settings, self.scenes))
        return hashlib.sha256(made_of.encode() + self.generator.garments.numpy().tobytes()).hexdigest()


@dataclass(frozen=True)
class NamedScenes:
    """A data set of generated scenes. garments: the named data set that they are made of."""

    about: str
    garments: str
    settings: SceneSettings = field(default_factory=SceneSettings)


SCENES = {
    "fashion-mnist-scenes": NamedScenes(
        "generated 128 x 128 scenes of 2 to 6 Fashion-MNIST garments, 10 classes, boxes, masks and semantic labels",
        "fashion-mnist",
    ),
}
SIZES: dict[Split, int] = {"train": 20_000, "validation": 1_000, "test": 2_000}
_HELD_OUT = 12  # one of so many garments of the training file makes the validation scenes


def open_scenes(name: str, split: Split, scenes: int | None = None, seed: int = 0, channels: int = 1) -> SceneSource:
    """Open a data set of generated scenes. scenes: their number, without it that of SIZES.

    Scenes for training and validation are made of different garments of the training file; those of the test split, of
    the garments of the test file.
    """
    if name not in SCENES:
        raise UserError(f"no data set of scenes is called {name!r}", hint=nearest(name, SCENES))
    known = SCENES[name]
    found = find_dataset(known.garments)
    if found is None:
        raise UserError(
            f"{name} is made of {known.garments}, which is not on this machine", hint=how_to_get(known.garments)
        )
    images, labels = (_idx(found[0], split == "test", kind) for kind in ("images-idx3", "labels-idx1"))
    if split != "test":
        chosen = (torch.arange(len(labels)) % _HELD_OUT == _HELD_OUT - 1) == (split == "validation")
        images, labels = images[chosen], labels[chosen]
    classes = DATASETS[known.garments].classes
    stream = list(SIZES).index(split)
    generator = SceneGenerator(images, labels.long(), len(classes), seed, stream, known.settings)
    return SceneSource(name, classes, generator, SIZES[split] if scenes is None else scenes, channels)


def _idx(folder: Path, test: bool, kind: str) -> torch.Tensor:
    name = f"{'t10k' if test else 'train'}-{kind}-ubyte"
    packed = folder / f"{name}.gz"
    return read_idx(packed if packed.is_file() else folder / name)


def open_detection(where: str, split: Split | None = None, channels: int = 3, format: str = "") -> DetectionSource:
    """Open generated scenes by their name, or annotation files by their path. split: None reads all images."""
    if where in SCENES:
        return open_scenes(where, split or "train", channels=channels)
    if not Path(where).exists():
        expected = f"a folder, an annotation file, or {' or '.join(SCENES)}"
        raise UserError(f"there is no detection data {where!r}", expected=expected, hint=nearest(where, SCENES))
    dataset = read_detection(Path(where), format)
    return FileSource(dataset if split is None else dataset.part(split), channels)
