"""Open a detection data set; its format is recognised by its files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.data.detection.formats import coco, instance_masks, labelme, voc, yolo
from patchword.data.detection.records import DetectionDataset


@dataclass(frozen=True)
class AnnotationFormat:
    """A format of annotation files. about: its name in messages."""

    about: str
    recognises: Callable[[Path], bool]
    read: Callable[[Path], DetectionDataset]


FORMATS = {
    "coco": AnnotationFormat(coco.NAME, coco.recognises, coco.read),
    "yolo": AnnotationFormat(yolo.NAME, yolo.recognises, yolo.read),
    "voc": AnnotationFormat(voc.NAME, voc.recognises, voc.read),
    "labelme": AnnotationFormat(labelme.NAME, labelme.recognises, labelme.read),
    "masks": AnnotationFormat(instance_masks.NAME, instance_masks.recognises, instance_masks.read),
}


def recognised_formats(path: Path) -> tuple[str, ...]:
    """Return the names of the formats of a folder or file; empty if it has no annotations of objects."""
    try:
        return tuple(name for name, format in FORMATS.items() if format.recognises(path))
    except OSError:  # a folder that may not be read
        return ()


def annotated_folders(path: Path) -> list[Path]:
    """Return the direct sub-folders of a folder that have annotations of objects, sorted by name."""
    try:
        folders = sorted(one for one in path.iterdir() if one.is_dir()) if path.is_dir() else []
    except OSError:  # a folder that may not be read
        return []
    return [one for one in folders if recognised_formats(one)]


def read_detection(path: Path, format: str = "") -> DetectionDataset:
    """Read the annotations of a folder or a file. format: a name of FORMATS; empty recognises it.

    The first fault is raised; inside `collect_faults()`, all faults are reported and the faulty objects are left out.
    """
    if not path.exists():
        raise UserError(f"there is no file or folder {path}")
    if format and format not in FORMATS:
        raise UserError(f"no format of annotations is called {format!r}", hint=nearest(format, FORMATS))
    return FORMATS[format or _one_format(path)].read(path)


def _one_format(path: Path) -> str:
    found = recognised_formats(path)
    if not found:
        known = "; ".join(format.about for format in FORMATS.values())
        inside = annotated_folders(path)
        hint = f"{inside[0]} has annotations: give this folder" if inside else ""
        raise UserError(f"{path} has no annotations of objects", expected=known, hint=hint)
    if len(found) > 1:
        raise UserError(
            f"{path} has annotations in {len(found)} formats",
            expected="one",
            got=", ".join(FORMATS[name].about for name in found),
            hint="choose one: " + " or ".join(f"format={name}" for name in found),
        )
    return found[0]
