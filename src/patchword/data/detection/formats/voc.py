"""Pascal VOC XML: one file per image, boxes that count pixels from 1 and include their last pixel.

A folder has `Annotations` and `JPEGImages`, and lists of splits in `ImageSets/Main`; or XML files beside the images.
The box xmin 1, xmax 10 covers the first ten pixels, so here it is x1 = 0, x2 = 10.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

from patchword.core.errors import UserError
from patchword.data.detection.formats.values import (
    class_file,
    image_named,
    image_size,
    local_name,
    number,
    text_lines,
    unknown_class,
    whole,
)
from patchword.data.detection.formats.xml_files import read_xml
from patchword.data.detection.orientation import upright_size
from patchword.data.detection.records import AnnotatedImage, AnnotatedObject, Box, DetectionDataset
from patchword.data.faults import attempt, report_fault, warn
from patchword.data.image.splits import Split

NAME = "Pascal VOC XML"
_FOLDERS = ("Annotations", "annotations")
_IMAGES = ("JPEGImages", "images", "Images", ".")
_HEAD = 4_096  # bytes
_LISTS: tuple[tuple[str, Split], ...] = (("train", "train"), ("val", "validation"), ("test", "test"))


class _Named(NamedTuple):
    """An object whose class is still a name."""

    name: str
    box: Box
    id: int
    difficult: bool


def recognises(path: Path) -> bool:
    """True for an XML file, or a folder that has some."""
    if path.is_file():
        return path.suffix.lower() == ".xml"
    return path.is_dir() and any(_is_annotation(file) for file in _folder(path).glob("*.xml"))


def _is_annotation(file: Path) -> bool:
    with file.open("rb") as data:
        return b"<annotation" in data.read(_HEAD)


def read(path: Path) -> DetectionDataset:
    """Read an XML file, or all of a folder."""
    folder = path.parent if path.is_file() else _folder(path)
    files = [path] if path.is_file() else sorted(folder.glob("*.xml"))
    root = folder.parent if folder.name in _FOLDERS else folder
    splits = _splits(root, {file.stem for file in files}) if path.is_dir() else {}
    found = [(file, one) for file in files if (one := attempt(_annotation, file, root)) is not None]
    listed = class_file([root, root / "ImageSets"])
    classes = listed or tuple(sorted({one.name for _, (_, _, objects) in found for one in objects}))
    images = [
        AnnotatedImage.of(image, size, _labelled(file, objects, classes), file, split=splits.get(file.stem))
        for file, (image, size, objects) in found
    ]
    return DetectionDataset(path, NAME, classes, tuple(range(len(classes))), tuple(images))


def _folder(path: Path) -> Path:
    return next((path / name for name in _FOLDERS if any((path / name).glob("*.xml"))), path)


def _splits(root: Path, known: set[str]) -> dict[str, Split]:
    """Read the lists of the splits; trainval.txt is used for training if there are no train.txt and val.txt."""
    folder = root / "ImageSets" / "Main"
    lists = [(folder / f"{name}.txt", split) for name, split in _LISTS if (folder / f"{name}.txt").is_file()]
    if not any(split != "test" for _, split in lists) and (folder / "trainval.txt").is_file():
        lists.append((folder / "trainval.txt", "train"))
    found: dict[str, Split] = {}
    for file, split in lists:
        for line, text in enumerate(attempt(text_lines, file) or (), 1):
            name = text.split()[0] if text.strip() else ""
            if name and name not in known:
                report_fault(UserError(f"{file}, line {line}: the image has no annotation file", got=name))
            elif name and found.setdefault(name, split) != split:
                warn("an image in two splits", f"{file}, line {line}: {name} is also in the {found[name]} split")
    return found


def _annotation(file: Path, root: Path) -> tuple[Path, tuple[int, int], list[_Named]]:
    tree = read_xml(file)
    if tree.tag != "annotation":
        raise UserError(f"{file}: not an annotation of Pascal VOC", expected="<annotation>", got=f"<{tree.tag}>")
    image, size = _image(file, root, tree), tree.find("size")
    sides = (
        image_size(size.findtext("height"), size.findtext("width"), f"{file}, size")
        if size is not None
        else upright_size(image)
    )
    objects = [
        one
        for id, entry in enumerate(tree.findall("object"), 1)
        if (one := attempt(_object, entry, f"{file}, object {id}", id)) is not None
    ]
    return image, sides, objects


def _image(file: Path, root: Path, tree: Element) -> Path:
    """Return the image with the name in the file, or else with the name of the file."""
    name = Path(local_name((tree.findtext("filename") or "").strip())).name
    folders = [file.parent if folder == "." else root / folder for folder in _IMAGES]
    for folder in folders:
        if name and (folder / name).is_file():
            return folder / name
    for folder in folders:
        if (found := image_named(folder / file.stem)) is not None:
            return found
    return next((folder for folder in folders if folder.is_dir()), root) / (name or f"{file.stem}.jpg")


def _object(entry: Element, where: str, id: int) -> _Named:
    name, box = (entry.findtext("name") or "").strip(), entry.find("bndbox")
    if not name:
        raise UserError(f"{where}: no name of a class")
    if box is None:
        raise UserError(f"{where}: no bndbox")
    x1, y1, x2, y2 = (number(box.findtext(side), f"{where}, {side}") for side in ("xmin", "ymin", "xmax", "ymax"))
    difficult = bool(whole((entry.findtext("difficult") or "0").strip(), f"{where}, difficult"))
    return _Named(name, (x1 - 1, y1 - 1, x2, y2), id, difficult)


def _labelled(file: Path, objects: Sequence[_Named], classes: tuple[str, ...]) -> list[AnnotatedObject]:
    found = []
    for one in objects:
        if one.name in classes:
            found.append(AnnotatedObject(one.box, classes.index(one.name), one.id, difficult=one.difficult))
        else:
            report_fault(unknown_class(f"{file}, object {one.id}", one.name, classes))
    return found
