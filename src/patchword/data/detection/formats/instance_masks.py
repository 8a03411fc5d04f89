"""Instance masks as PNG files, one per image: each object has an own pixel value, 0 is the background.

A folder has `JPEGImages` and `SegmentationObject` as in Pascal VOC, or `images` and `instances` or `masks`. With
`SegmentationClass` (or `classes`) beside it, the class of an object is the most frequent value of its pixels there;
otherwise all objects are of one class. In a file with a palette, the value 255 marks borders that belong to no object.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.formats.values import class_file, image_named, unknown_class
from patchword.data.detection.orientation import stored_size, upright_size
from patchword.data.detection.records import AnnotatedImage, AnnotatedObject, DetectionDataset
from patchword.data.faults import attempt, report_fault
from patchword.data.image.archives import opened
from patchword.data.image.image_file import read_header

NAME = "instance masks in PNG files"
_INSTANCES, _CLASSES = ("SegmentationObject", "instances", "masks"), ("SegmentationClass", "classes")
_IMAGES = ("JPEGImages", "images")
_VOID = 255
_MOST = 2_000  # objects of one image; more are an image of another kind
Values = NDArray[np.int64]


def recognises(path: Path) -> bool:
    """True for a folder with images and masks, or the folder of the masks itself."""
    return path.is_dir() and _folders(path) is not None


def read(path: Path) -> DetectionDataset:
    """Read the masks of a folder."""
    folders = _folders(path)
    if folders is None:
        raise UserError(f"{path} has no masks", expected=f"images and {' or '.join(_INSTANCES)}")
    masks, images = folders
    root = masks.parent
    classes = next((root / name for name in _CLASSES if (root / name).is_dir()), None)
    names = class_file([root, path])
    found = [one for file in sorted(masks.rglob("*.png")) if (one := attempt(_image, file, masks, images, classes))]
    if classes is None:
        names, ids = (names or ("object",))[:1], [1]
    elif names is None:
        ids = sorted({int(label) for image in found for label in image.labels})
        names = tuple(str(id) for id in ids)
    else:
        ids = list(range(1, len(names) + 1))
    return DetectionDataset(path, NAME, names, tuple(ids), tuple(_relabelled(image, ids, names) for image in found))


def _folders(path: Path) -> tuple[Path, Path] | None:
    """Return the folders of the masks and of the images."""
    places = [(path, name) for name in _INSTANCES]
    if path.name in _INSTANCES:
        places.append((path.parent, path.name))
    for root, name in places:
        for images in (root / folder for folder in _IMAGES):
            if images.is_dir() and (root / name).is_dir() and any((root / name).rglob("*.png")):
                return root / name, images
    return None


def _image(file: Path, masks: Path, images: Path, classes: Path | None) -> AnnotatedImage:
    stem = images / file.relative_to(masks).with_suffix("")
    image, values = image_named(stem), _values(file)
    if image is None:
        raise UserError(f"{file}: its image is missing", expected=f"{stem} with the suffix of an image")
    if values.shape not in (upright := upright_size(image), stored_size(image)):
        got = "{1} x {0}".format(*values.shape)
        raise UserError(
            f"{file}: the mask has another size than the image", expected="{1} x {0}".format(*upright), got=got
        )
    labels = None if classes is None else _values(classes / file.relative_to(masks))
    if labels is not None and labels.shape != values.shape:
        raise UserError(f"{file}: the mask of the classes has another size", expected=values.shape, got=labels.shape)
    objects = []
    for id in np.unique(values[values > 0]).tolist():
        mask = values == id
        run_lengths = RunLengths.from_mask(mask)
        label = 1 if labels is None else int(np.bincount(labels[mask]).argmax())
        objects.append(AnnotatedObject(run_lengths.box, label, id, run_lengths))
    return AnnotatedImage.of(image, (values.shape[0], values.shape[1]), objects, file)


def _values(file: Path) -> Values:
    """Return the pixel values of a mask: the numbers in the palette, not its colours."""
    read_header(file)  # refuses files that are no image or too large
    try:
        with opened(file) as data, Image.open(data, formats=("PNG",)) as image:
            if image.mode not in ("1", "L", "P", "I", "I;16"):
                raise UserError(
                    f"{file}: not a mask of instances",
                    expected="one value per pixel",
                    got=f"the mode {image.mode}",
                    hint="colours of classes are label maps: `patchword data check segment-images data=FOLDER`",
                )
            values = np.asarray(image).astype(np.int64)
            values[(values == _VOID) & (image.mode == "P")] = 0
    except (OSError, SyntaxError) as error:
        raise UserError(f"cannot read the image {file}", got=str(error).split(" <")[0]) from None
    if len(np.unique(values)) > _MOST:
        raise UserError(f"{file}: more than {_MOST:,} objects", hint="is it a photo, or a map of distances?")
    return values


def _relabelled(image: AnnotatedImage, ids: list[int], names: tuple[str, ...]) -> AnnotatedImage:
    kept = []
    for index, id in enumerate(image.labels.tolist()):
        outline = image.outlines[index]
        if id not in ids:
            report_fault(
                unknown_class(image.where(index), id, [f"{n} {name}" for n, name in zip(ids, names, strict=True)])
            )
        elif isinstance(outline, RunLengths):
            kept.append(AnnotatedObject(outline.box, ids.index(id), int(image.ids[index]), outline))
    return AnnotatedImage.of(image.image, (image.height, image.width), kept, image.annotations)
