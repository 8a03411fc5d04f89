"""COCO JSON: `images`, `annotations` and `categories`; polygons or run lengths; crowds.

A folder may have one file per split, in itself, in `annotations` or in its sub-folders. Class numbers may have gaps:
they are sorted and become the labels 0, 1, ...
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from patchword.core.errors import UserError
from patchword.data.detection.formats.coco_objects import coco_object
from patchword.data.detection.formats.json_files import json_files, json_kind, read_record
from patchword.data.detection.formats.values import (
    image_size,
    local_name,
    split_of,
    whole,
)
from patchword.data.detection.orientation import upright_size
from patchword.data.detection.records import (
    AnnotatedImage,
    AnnotatedObject,
    DetectionDataset,
)
from patchword.data.faults import attempt, report_fault
from patchword.data.image.splits import Split

NAME = "COCO JSON"
_FOLDERS = ("annotations", "labels")  # of annotation files beside the folders of images
_LOOKED_AT = 50  # images by which the folder of the images is found
Classes = dict[int, str]


def recognises(path: Path) -> bool:
    """True for a COCO file, or a folder that has one."""
    return json_kind(path) == "coco" or (path.is_dir() and bool(_files(path)))


def read(path: Path) -> DetectionDataset:
    """Read a COCO file, or those of a folder."""
    files = [path] if path.is_file() else _one_per_split(path, _files(path))
    records = [(file, record) for file in files if (record := attempt(_record, file)) is not None]
    classes: Classes = {}
    for file, record in records:
        _add_classes(classes, _categories(file, record), file)
    ids = tuple(sorted(classes))
    images = [image for file, record in records for image in _images(file, record, ids, classes)]
    return DetectionDataset(path, NAME, tuple(classes[id] for id in ids), ids, tuple(images))


def _files(folder: Path) -> list[Path]:
    """The COCO files of a folder; those of the objects, if there are also files of captions and key points."""
    below = sorted(
        sub for sub in folder.iterdir() if sub.is_dir() and (sub.name == "annotations" or split_of(sub.name))
    )
    found = [file for place in (folder, *below) for file in json_files(place, "coco")]
    return [file for file in found if file.name.startswith("instances")] or found


def _one_per_split(folder: Path, files: Sequence[Path]) -> Sequence[Path]:
    splits = [_split(file) for file in files]
    if len(files) > 1 and (None in splits or len(set(splits)) < len(splits)):
        raise UserError(
            f"{folder} has several COCO files",
            expected="one file, or one per split with train, val or test in its name",
            got=", ".join(str(file.relative_to(folder)) for file in files),
            hint=f"type the file that you mean, e.g. {files[0]}",
        )
    return files


def _split(file: Path) -> Split | None:
    return split_of(file.stem) or split_of(file.parent.name)


def _record(file: Path) -> dict[str, object]:
    record = read_record(file)
    for key in ("images", "annotations", "categories"):
        if not isinstance(record.get(key), list):
            raise UserError(f"{file}: no list {key!r}", expected="images, annotations, categories", got=list(record))
    return record


def _entries(record: dict[str, object], key: str, file: Path) -> Iterable[tuple[int, dict[str, object]]]:
    """Yield the entries of a list with their numbers: the id, or the place in the list."""
    found = record[key]
    for place, entry in enumerate(found if isinstance(found, list) else []):
        where = f"{file}, {key}[{place}]"
        if not isinstance(entry, dict):
            report_fault(UserError(f"{where}: not an object", got=type(entry).__name__))
        elif (id := attempt(whole, entry.get("id", place + 1), f"{where}, id")) is not None:
            yield id, entry


def _categories(file: Path, record: dict[str, object]) -> Classes:
    found: Classes = {}
    for id, entry in _entries(record, "categories", file):
        if id in found:
            report_fault(UserError(f"{file}, category {id}: the number is used twice", hint="remove one of them"))
        found[id] = str(entry.get("name", id))
    if len(set(found.values())) < len(found):
        names = list(found.values())
        twice = next(name for name in names if names.count(name) > 1)
        report_fault(UserError(f"{file}: two categories have the name {twice!r}", hint="rename one of them"))
    return found


def _add_classes(classes: Classes, more: Classes, file: Path) -> None:
    for id, name in more.items():
        if classes.setdefault(id, name) != name:
            report_fault(
                UserError(f"{file}, category {id}: another name in another file", expected=classes[id], got=name)
            )


def _images(file: Path, record: dict[str, object], ids: Sequence[int], classes: Classes) -> list[AnnotatedImage]:
    found: dict[int, tuple[Path, tuple[int, int]]] = {}
    entries = list(_entries(record, "images", file))
    folder = _image_folder(file, [str(entry.get("file_name", "")) for _, entry in islice(entries, _LOOKED_AT)])
    for id, entry in entries:
        if id in found:
            report_fault(UserError(f"{file}, image {id}: the number is used twice", hint="remove one of them"))
        elif (image := attempt(_image, entry, f"{file}, image {id}", folder)) is not None:
            found[id] = image
    objects: dict[int, list[AnnotatedObject]] = {id: [] for id in found}
    all_images, labels = {id for id, _ in entries}, {id: label for label, id in enumerate(ids)}
    names = [classes[id] for id in ids]
    for id, entry in _entries(record, "annotations", file):
        where = f"{file}, annotation {id}"
        owner = attempt(whole, entry.get("image_id"), f"{where}, image_id")
        if owner is not None and owner not in all_images:
            report_fault(UserError(f"{where}: its image is not in the list of images", got=f"image_id {owner}"))
        elif owner in found and (one := attempt(coco_object, id, entry, where, labels, names)) is not None:
            objects[owner].append(one)
    split = _split(file)
    return [
        AnnotatedImage.of(image, size, objects[id], file, "annotation", split, id)
        for id, (image, size) in found.items()
    ]


def _image_folder(file: Path, names: Sequence[str]) -> Path:
    """Return the folder from which the image names lead to files: near the annotation file, and of its split.

    Folders with fewer than half as many of the files as another one are not taken.
    """
    near = [file.parent, file.parent.parent] if file.parent.name.lower() in _FOLDERS else [file.parent]
    bases = [base for place in near for base in (place, place / "images") if base.is_dir()]
    folders = [folder for base in bases for folder in (base, *sorted(sub for sub in base.iterdir() if sub.is_dir()))]
    hits = {
        folder: sum(bool(name) and (folder / local_name(name)).is_file() for name in names)
        for folder in dict.fromkeys(folders)
    }
    usable = [folder for folder, found in hits.items() if found and 2 * found >= max(hits.values())]
    split = _split(file)
    same_split = [folder for folder in usable if split is not None and split_of(folder.name) == split]
    return next(iter([*same_split, *usable]), file.parent)


def _image(entry: dict[str, object], where: str, folder: Path) -> tuple[Path, tuple[int, int]]:
    name = entry.get("file_name")
    if not isinstance(name, str) or not name:
        raise UserError(f"{where}: no file_name", got=name)
    path = folder / local_name(name)
    if entry.get("height") is None and entry.get("width") is None:
        return path, upright_size(path)
    return path, image_size(entry.get("height"), entry.get("width"), where)
