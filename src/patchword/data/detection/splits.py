"""The training, validation and test images of detection data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from patchword.core.errors import UserError, nearest
from patchword.data.detection.checking import read_usable_detection
from patchword.data.detection.records import DetectionDataset
from patchword.data.detection.sources import SCENES, DetectionSource, FileSource, open_scenes
from patchword.data.faults import Fault
from patchword.data.image.splits import Split, in_split_by_name
from patchword.data.progress import Progress


@dataclass(frozen=True)
class DetectionSplits:
    """The three parts of a data set. skipped: faulty objects and images that none of them contains."""

    train: DetectionSource
    validation: DetectionSource
    test: DetectionSource
    skipped: Sequence[Fault] = ()


def open_splits(
    where: str, validation: float, format: str = "", channels: int = 3, progress: Progress | None = None
) -> DetectionSplits:
    """Open generated scenes by their name, or annotation files by their path.

    Files decide the splits: folders, files or lists that are called train, val or test. A single one of val and test is
    the test split. Without any, a tenth of the images is kept for the test. validation: fraction of the training images
    that is kept for validation if the files have none.
    """
    if where in SCENES:
        train, held, test = (open_scenes(where, split, channels=channels) for split in _SPLITS)
        return DetectionSplits(train, held, test)
    if not Path(where).exists():
        expected = f"a folder, an annotation file, or {' or '.join(SCENES)}"
        raise UserError(f"there is no detection data {where!r}", expected=expected, hint=nearest(where, SCENES))
    dataset, skipped = read_usable_detection(Path(where), format, progress, whole=False)
    parts = {split: split_images(dataset, split, validation) for split in _SPLITS}
    for split, part in parts.items():
        if not any(len(image) for image in part.images):
            raise UserError(
                f"the {len(part.images)} {split} images of {where} have no objects",
                expected="at least one object in each of training, validation and test",
            )
    sources = {split: FileSource(part, channels) for split, part in parts.items()}
    return DetectionSplits(sources["train"], sources["validation"], sources["test"], skipped)


def split_images(dataset: DetectionDataset, part: Split, validation: float) -> DetectionDataset:
    """Return the images of one split, as `open_splits` defines it."""
    given, names = [image.split for image in dataset.images], [image.image.name for image in dataset.images]
    kept = in_split_by_name(str(dataset.where), part, given, names, validation)
    return replace(dataset, images=tuple(dataset.images[index] for index in np.flatnonzero(kept.numpy())))


_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
