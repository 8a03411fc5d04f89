"""The training, validation and test images of detection data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from patchword.core.errors import UserError, nearest
from patchword.data.detection.checking import read_usable_detection
from patchword.data.detection.records import AnnotatedImage, DetectionDataset
from patchword.data.detection.sources import SCENES, DetectionSource, FileSource, open_scenes
from patchword.data.faults import Fault
from patchword.data.image.splits import Part, Split, has_validation, held_out, in_split
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
    given = [image.split for image in dataset.images]
    labels, keys = torch.zeros(len(given), dtype=torch.long), _keys(dataset.images)

    def chosen(name: Part) -> Tensor:
        return in_split(str(dataset.where), name, given, labels, keys)

    if part == "test" or has_validation(given):
        kept = chosen(part)
    else:
        train = chosen("train").nonzero()[:, 0]
        aside = held_out(labels[train], keys[train], validation)
        kept = torch.zeros(len(given), dtype=torch.bool)
        kept[train] = aside if part == "validation" else ~aside
    return replace(dataset, images=tuple(dataset.images[index] for index in np.flatnonzero(kept.numpy())))


def _keys(images: Sequence[AnnotatedImage]) -> Tensor:
    """Return a number per image that depends on its file name alone, so that more images move no image."""
    return torch.tensor([crc32(image.image.name.encode()) for image in images])


_SPLITS: tuple[Split, ...] = ("train", "validation", "test")
