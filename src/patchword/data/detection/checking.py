"""Find every fault of a detection data set, by file and object. Nothing is written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from patchword.core.errors import UserError
from patchword.data.detection.formats.labelme import embedded_image
from patchword.data.detection.object_faults import object_faults
from patchword.data.detection.orientation import UPRIGHT, counts_stored_pixels, read_orientation, stored_size
from patchword.data.detection.reading import read_detection
from patchword.data.detection.records import AnnotatedImage, DetectionDataset
from patchword.data.faults import Fault, collect_faults, report_fault, skipping_report, warn
from patchword.data.image.decoding import UNREADABLE, map_images
from patchword.data.image.image_file import decode_image, read_image
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.progress import Progress
from patchword.data.skipping import FaultySamples, read_usable

STORED = "an image that EXIF data rotate: its boxes count the stored pixels and are rotated with the image"
SHOWN_UPRIGHT = "an image that EXIF data rotate: its boxes are taken as those of the upright image"
MISSING = "an image that is missing"
OTHER_SIZE = "the annotations give another size than the image file has"


def check_detection(path: Path, format: str = "", progress: Progress | None = None) -> tuple[str, Sequence[Fault]]:
    """Read a data set and decode its images. Return a summary and possible mistakes; raise one error of all faults."""
    summary = ""
    with collect_faults() as report:
        dataset = read_detection(path, format)
        check_dataset(dataset, progress)
        summary = dataset.summary
    return summary, report.doubts


def read_usable_detection(
    path: Path, format: str = "", progress: Progress | None = None, whole: bool = True
) -> tuple[DetectionDataset, Sequence[Fault]]:
    """Read a data set for training: without a few faulty objects and images, which are returned as skipped.

    Too many of them, and annotation files that cannot be read, raise one error of all faults. whole: decode all images,
    not only their headers.
    """
    return read_usable(lambda: check_dataset(read_detection(path, format), progress, whole))


def check_dataset(dataset: DetectionDataset, progress: Progress | None = None, whole: bool = True) -> DetectionDataset:
    """Report the faults of the records and of the image files. Return the data set without faulty objects and images.

    whole: decode all images, not only their headers.
    """
    if not dataset.images:
        report_fault(UserError(f"{dataset.where} has no images with readable annotations"))
    elif not dataset.objects:
        report_fault(UserError(f"{dataset.where} has no objects", expected="at least one in all images"))
    _warn_of_lists(dataset)
    images = _without_faulty_objects(dataset)
    return replace(dataset, images=tuple(_without_faulty_files(dataset.where, images, progress, whole)))


def _without_faulty_objects(dataset: DetectionDataset) -> list[AnnotatedImage]:
    faulty, images = FaultySamples(str(dataset.where), "objects", training=True), []
    for image in dataset.images:
        kept = np.ones(len(image), dtype=bool)
        for index, error, kind in object_faults(image):
            if kept[index] or skipping_report() is None:  # a skipped object counts once
                faulty.add(error, kind, dataset.classes[int(image.labels[index])])
            kept[index] = False
        images.append(image if kept.all() else image.select(kept))
    faulty.finish(dataset.classes[int(label)] for image in dataset.images for label in image.labels)
    return images


def _warn_of_lists(dataset: DetectionDataset) -> None:
    """Warn of classes without objects, of images that are listed twice or never, and of objects without outlines."""
    used = {int(label) for image in dataset.images for label in image.labels}
    for label, name in enumerate(dataset.classes):
        if label not in used:
            warn("a class without objects", f"{dataset.where}: {name}")
    for path, times in Counter(image.image for image in dataset.images).items():
        if times > 1:
            warn("an image that is listed several times", f"{path}: {times} times")
    for path in _left_out(dataset):
        warn("an image without annotations, which is left out", str(path))
    outlines = sum(outline is not None for image in dataset.images for outline in image.outlines)
    if 0 < outlines < dataset.objects:
        missing = dataset.objects - outlines
        warn("objects without an outline: masks cannot be trained", f"{dataset.where}: {missing:,} have a box only")


def _left_out(dataset: DetectionDataset) -> list[Path]:
    """Return the images in the folders of the data set that no annotation names."""
    if not dataset.where.is_dir():
        return []
    named = {image.image for image in dataset.images}
    folders = {path.parent for path in named if path.suffix.lower() != ".json" and path.parent.is_dir()}
    found = (path for folder in folders for path in folder.iterdir() if path.suffix.lower() in IMAGE_SUFFIXES)
    return sorted(path for path in found if path not in named and path.is_file())


# Image files


class _RealImage(NamedTuple):
    """Height and width of the stored pixels, and the EXIF orientation."""

    stored: tuple[int, int]
    orientation: int


def _without_faulty_files(
    where: Path, images: Sequence[AnnotatedImage], progress: Progress | None, whole: bool
) -> list[AnnotatedImage]:
    """Report images that are missing, unreadable or of another size than the annotations give; return the others."""
    faulty = FaultySamples(str(where), "images")
    real = _real_images([image for image in images if _exists(image, faulty)], faulty, progress, whole)
    kept = [image for image in images if image.image in real and _has_size(image, real[image.image], faulty)]
    faulty.finish("" for _ in images)
    return kept


def _real_images(
    images: Sequence[AnnotatedImage], faulty: FaultySamples, progress: Progress | None, whole: bool
) -> dict[Path, _RealImage]:
    """Read the images; return the size and the orientation of those that are readable."""
    files = sorted({image.image for image in images})
    plain = [path for path in files if path.suffix.lower() != ".json"]
    work = _decode if whole else _read_header
    unreadable = FaultySamples(faulty.where, "images")
    read = zip(plain, map_images([(path, "") for path in plain], work, unreadable, progress), strict=True)
    real = {path: found for path, found in read if found is not None}
    for path in files:
        if path.suffix.lower() == ".json":
            try:
                real[path] = _decode_embedded(path)
            except UserError as error:
                faulty.add(error, UNREADABLE)
    return real


def _exists(image: AnnotatedImage, faulty: FaultySamples) -> bool:
    if image.image.is_file():
        return True
    place = f", image {image.id}" if image.unit == "annotation" else ""
    what = f"{image.annotations}{place}: there is no image {image.image}"
    faulty.add(UserError(what, hint="add the image, or remove its annotations"), MISSING)
    return False


def _decode(path: Path) -> _RealImage:
    read_image(path, 3)
    return _read_header(path)


def _read_header(path: Path) -> _RealImage:
    return _RealImage(stored_size(path), read_orientation(path))


def _decode_embedded(path: Path) -> _RealImage:
    found = decode_image(embedded_image(path), path, 3)
    return _RealImage((found.height, found.width), UPRIGHT)


def _has_size(image: AnnotatedImage, real: _RealImage, faulty: FaultySamples) -> bool:
    annotated, (height, width) = (image.height, image.width), real.stored
    upright = (width, height) if real.orientation >= 5 else (height, width)
    is_stored = counts_stored_pixels(annotated, real.stored, real.orientation)
    if annotated != upright and not is_stored:
        what = f"{image.annotations}: the size of the image {image.image.name} is wrong"
        expected = f"{upright[1]} x {upright[0]}, as the image file"
        faulty.add(UserError(what, expected=expected, got=f"{image.width} x {image.height}"), OTHER_SIZE)
        return False
    if real.orientation != UPRIGHT:
        warn(STORED if is_stored else SHOWN_UPRIGHT, f"{image.image}: orientation {real.orientation}")
    return True
