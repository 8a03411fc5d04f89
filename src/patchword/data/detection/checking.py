"""Find every fault of a detection data set, by file and object. Nothing is written."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.formats.labelme import embedded_image
from patchword.data.detection.orientation import UPRIGHT, counts_stored_pixels, read_orientation, stored_size
from patchword.data.detection.reading import read_detection
from patchword.data.detection.records import AnnotatedImage, DetectionDataset, Polygons
from patchword.data.faults import Fault, attempt, collect_faults, report_fault, warn
from patchword.data.image.decoding import map_images
from patchword.data.image.image_file import decode_image, read_image
from patchword.data.image.sources import IMAGE_SUFFIXES
from patchword.data.progress import Progress
from patchword.data.skipping import FaultySamples

TOLERANCE = 0.5  # pixels that a box may exceed the image: annotation files hold rounded numbers
_TINY = 4  # pixels of a box below which its outline may cover no pixel
STORED = "an image that EXIF data rotate: its boxes count the stored pixels and are rotated with the image"
SHOWN_UPRIGHT = "an image that EXIF data rotate: its boxes are taken as those of the upright image"


def check_detection(path: Path, format: str = "", progress: Progress | None = None) -> tuple[str, Sequence[Fault]]:
    """Read a data set and decode its images. Return a summary and possible mistakes; raise one error of all faults."""
    summary = ""
    with collect_faults() as report:
        dataset = read_detection(path, format)
        check_dataset(dataset, progress)
        summary = dataset.summary
    return summary, report.doubts


def check_dataset(dataset: DetectionDataset, progress: Progress | None = None) -> None:
    """Report the faults of the records and of the image files."""
    if not dataset.images:
        report_fault(UserError(f"{dataset.where} has no images with readable annotations"))
    elif not dataset.objects:
        report_fault(UserError(f"{dataset.where} has no objects", expected="at least one in all images"))
    for image in dataset.images:
        check_objects(image)
    _warn_of_lists(dataset)
    check_files(dataset.images, progress)


def check_objects(image: AnnotatedImage) -> None:
    """Report the faulty boxes and outlines of one image."""
    seen: dict[object, int] = {}
    for index in range(len(image)):
        for error in _object_faults(image, index):
            report_fault(error)
        first = seen.setdefault(_identity(image, index), index)
        if first != index:
            what = f"{image.where(index)}: the object is a duplicate of {image.unit} {image.ids[first]}"
            report_fault(UserError(what, hint="remove one of them"), "an object that is annotated twice")


def _object_faults(image: AnnotatedImage, index: int) -> Iterator[UserError]:
    where, box = image.where(index), image.boxes[index]
    x1, y1, x2, y2 = box.tolist()
    shown = f"x {x1:g} to {x2:g}, y {y1:g} to {y2:g}"
    inside = f"x 0 to {image.width}, y 0 to {image.height}"
    if x2 < x1 or y2 < y1:
        yield UserError(f"{where}: the corners of the box are swapped", expected="x1 < x2 and y1 < y2", got=shown)
    elif x2 == x1 or y2 == y1 or max(x2 - x1, y2 - y1) <= 1:
        yield UserError(f"{where}: the box is empty or a single pixel", expected="x1 < x2 and y1 < y2", got=shown)
    if _is_outside(box.reshape(2, 2), image):
        yield UserError(f"{where}: the box is outside of the image", expected=inside, got=shown)
    outline = image.outlines[index]
    if isinstance(outline, RunLengths) and (outline.height, outline.width) != (image.height, image.width):
        yield UserError(
            f"{where}: the mask has another size than the image",
            expected=f"{image.width} x {image.height}",
            got=f"{outline.width} x {outline.height}",
        )
    elif isinstance(outline, Polygons) and any(_is_outside(part, image) for part in outline.parts):
        yield UserError(f"{where}: the polygon is outside of the image", expected=inside, got=_range(outline))
    elif outline is not None and (x2 - x1) * (y2 - y1) < _TINY and image.mask(index).area == 0:
        warn("an outline so small that it covers no pixel", where)


def _is_outside(corners: np.typing.NDArray[np.float64], image: AnnotatedImage) -> bool:
    limits = (image.width + TOLERANCE, image.height + TOLERANCE)
    return bool((corners < -TOLERANCE).any() or (corners > limits).any())


def _range(outline: Polygons) -> str:
    x1, y1, x2, y2 = outline.box
    return f"x {x1:g} to {x2:g}, y {y1:g} to {y2:g}"


def _identity(image: AnnotatedImage, index: int) -> object:
    """Return what two equal objects have in common: class, box and outline."""
    outline = image.outlines[index]
    content = b""
    if isinstance(outline, RunLengths):
        content = outline.counts.tobytes()
    elif outline is not None:
        content = b"".join(part.tobytes() for part in outline.parts)
    return int(image.labels[index]), image.boxes[index].round(3).tobytes(), content


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


def check_files(images: Sequence[AnnotatedImage], progress: Progress | None = None) -> None:
    """Report images that are missing, unreadable or of another size than the annotations give."""
    there = [image for image in images if _exists(image)]
    files = [image for image in there if image.image.suffix.lower() != ".json"]
    named = [(image.image, "") for image in files]
    found = map_images(named, _decode, FaultySamples("the data set", "images"), progress)
    for image, real in zip(files, found, strict=True):
        if real is not None:
            _compare_size(image, real)
    for image in there:
        if image.image.suffix.lower() == ".json" and (real := attempt(_decode_embedded, image.image)) is not None:
            _compare_size(image, real)


def _exists(image: AnnotatedImage) -> bool:
    if image.image.is_file():
        return True
    place = f", image {image.id}" if image.unit == "annotation" else ""
    what = f"{image.annotations}{place}: there is no image {image.image}"
    report_fault(UserError(what, hint="add the image, or remove its annotations"), "an image that is missing")
    return False


def _decode(path: Path) -> _RealImage:
    read_image(path, 3)
    return _RealImage(stored_size(path), read_orientation(path))


def _decode_embedded(path: Path) -> _RealImage:
    found = decode_image(embedded_image(path), path, 3)
    return _RealImage((found.height, found.width), UPRIGHT)


def _compare_size(image: AnnotatedImage, real: _RealImage) -> None:
    annotated, (height, width) = (image.height, image.width), real.stored
    upright = (width, height) if real.orientation >= 5 else (height, width)
    is_stored = counts_stored_pixels(annotated, real.stored, real.orientation)
    if annotated != upright and not is_stored:
        what = f"{image.annotations}: the size of the image {image.image.name} is wrong"
        shown = f"{upright[1]} x {upright[0]}, as the image file"
        error = UserError(what, expected=shown, got=f"{image.width} x {image.height}")
        report_fault(error, "the annotations give another size than the image file has")
    elif real.orientation != UPRIGHT:
        warn(STORED if is_stored else SHOWN_UPRIGHT, f"{image.image}: orientation {real.orientation}")
