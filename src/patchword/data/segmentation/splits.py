"""The training, validation and test images of segmentation data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from patchword.core.errors import UserError, nearest
from patchword.data.detection.sources import SCENES, open_scenes
from patchword.data.faults import Fault
from patchword.data.image.splits import Split, in_split_by_name
from patchword.data.progress import Progress
from patchword.data.segmentation.reading import Ignored, read_usable_segmentation
from patchword.data.segmentation.records import IGNORED, SegmentationDataset
from patchword.data.segmentation.sources import FileSource, SceneLabels, SegmentationSource

_SPLITS: tuple[Split, ...] = ("train", "validation", "test")


@dataclass(frozen=True)
class SegmentationSplits:
    """The three parts of a data set. skipped: faulty images that none of them contains. about: a summary."""

    train: SegmentationSource
    validation: SegmentationSource
    test: SegmentationSource
    skipped: Sequence[Fault] = ()
    about: str = ""


def open_splits(
    where: str,
    validation: float,
    format: str = "",
    ignored: Ignored = (IGNORED,),
    channels: int = 3,
    progress: Progress | None = None,
) -> SegmentationSplits:
    """Open generated scenes by their name, or label maps by their path.

    Folders or lists that are called train, val or test decide the splits. A single one of val and test is the test
    split. Without any, a tenth of the images is kept for the test. validation: fraction of the training images that is
    kept for validation if the files have none.
    """
    if where in SCENES:
        scenes = (SceneLabels(open_scenes(where, split, channels=channels)) for split in _SPLITS)
        train_scenes, held_scenes, test_scenes = scenes
        return SegmentationSplits(train_scenes, held_scenes, test_scenes, about="generated scenes")
    if not Path(where).exists():
        expected = f"a folder of images and label maps, or {' or '.join(SCENES)}"
        raise UserError(f"there is no segmentation data {where!r}", expected=expected, hint=nearest(where, SCENES))
    dataset, skipped = read_usable_segmentation(Path(where), format, ignored, progress)
    train, held, test = (FileSource(split_images(dataset, split, validation), channels) for split in _SPLITS)
    return SegmentationSplits(train, held, test, skipped, dataset.summary)


def split_images(dataset: SegmentationDataset, part: Split, validation: float) -> SegmentationDataset:
    """Return the images of one split, as `open_splits` defines it."""
    given, names = [one.split for one in dataset.images], [one.image.name for one in dataset.images]
    kept = in_split_by_name(str(dataset.where), part, given, names, validation)
    images = tuple(dataset.images[index] for index in np.flatnonzero(kept.numpy()))
    if not images:
        raise UserError(
            f"{dataset.where} has no {part} images", expected="images for each of training, validation and test"
        )
    return replace(dataset, images=images)
