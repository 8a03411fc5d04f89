"""Open a segmentation data set; its layout is recognised by its files, and every fault is reported by file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from patchword.core.errors import UserError, nearest
from patchword.data.detection.orientation import UPRIGHT, counts_stored_pixels, read_orientation, stored_size
from patchword.data.faults import Fault, collect_faults, warn
from patchword.data.image.decoding import map_images
from patchword.data.image.image_file import read_image
from patchword.data.progress import Progress
from patchword.data.segmentation.classes import find_classes
from patchword.data.segmentation.formats.layouts import LAYOUTS
from patchword.data.segmentation.label_files import ScannedMap, scan_label_map
from patchword.data.segmentation.records import (
    IGNORED,
    ClassTable,
    LabelledImage,
    SegmentationDataset,
    unknown_values,
)
from patchword.data.skipping import FaultySamples, read_usable

OTHER_SIZE = "a label map of another size than its image"
NO_LABELS = "a label map without any pixel of a class"
NO_MAP = "a label map that cannot be read"
UNKNOWN = "pixel values that are no class"
STORED = "an image that EXIF data rotate: its label map has the stored pixels and is rotated with the image"
SHOWN_UPRIGHT = "an image that EXIF data rotate: its label map is taken as that of the upright image"
Ignored = Sequence[int | str]


def recognised_layouts(path: Path) -> tuple[str, ...]:
    """Return the names of the layouts of a folder; empty if it has no label maps."""
    try:
        return tuple(name for name, layout in LAYOUTS.items() if layout.recognises(path))
    except OSError:  # a folder that may not be read
        return ()


def check_segmentation(
    path: Path, format: str = "", ignored: Ignored = (IGNORED,), progress: Progress | None = None
) -> tuple[str, Sequence[Fault]]:
    """Decode all images and label maps. Return a summary and possible mistakes; raise one error of all faults."""
    summary = ""
    with collect_faults() as report:
        summary = read_segmentation(path, format, ignored, progress).summary
    return summary, report.doubts


def read_usable_segmentation(
    path: Path, format: str = "", ignored: Ignored = (IGNORED,), progress: Progress | None = None
) -> tuple[SegmentationDataset, Sequence[Fault]]:
    """Read a data set for training: without a few faulty images, which are returned as skipped.

    All label maps are decoded; of the images, the headers are read.
    """
    return read_usable(lambda: read_segmentation(path, format, ignored, progress, whole=False))


def read_segmentation(
    path: Path,
    format: str = "",
    ignored: Ignored = (IGNORED,),
    progress: Progress | None = None,
    whole: bool = True,
) -> SegmentationDataset:
    """Read the label maps of a folder. format: a name of LAYOUTS; empty recognises it. whole: decode the images, too.

    The first fault is raised; inside `collect_faults()`, all faults are reported and faulty images are left out.
    """
    if not path.exists():
        raise UserError(f"there is no file or folder {path}")
    if format and format not in LAYOUTS:
        raise UserError(f"no layout of label maps is called {format!r}", hint=nearest(format, LAYOUTS))
    layout = LAYOUTS[format or _one_layout(path)]
    if not layout.recognises(path):
        raise UserError(f"{path} has another layout", expected=layout.about)
    found = layout.find(path)
    if not found.images:
        raise UserError(f"{path} has no images with label maps", expected=layout.about)
    faulty = FaultySamples(str(path), "images")
    scans = _scanned(found.images, faulty, progress)
    if not scans:
        raise UserError(f"{path}: no label map can be read", expected=layout.about)
    table = find_classes(path, found, list(scans.values()), ignored)
    _warn_of_classes(path, table, list(scans.values()))
    images = [
        one for one in found.images if one.labels in scans and _has_classes(one, scans[one.labels], table, faulty)
    ]
    kept = _with_sizes(images, scans, faulty, whole)
    faulty.finish("" for _ in found.images)
    return SegmentationDataset(path, layout.about, table, tuple(kept))


def _one_layout(path: Path) -> str:
    found = recognised_layouts(path)
    if not found:
        known = "; ".join(layout.about for layout in LAYOUTS.values())
        raise UserError(f"{path} has no label maps", expected=known)
    return found[0]  # the most special layout is first


def _scanned(
    images: Sequence[LabelledImage], faulty: FaultySamples, progress: Progress | None
) -> dict[Path, ScannedMap]:
    files = list(dict.fromkeys(one.labels for one in images))
    unreadable = FaultySamples(faulty.where, "label maps")
    read = zip(
        files,
        map_images([(path, "") for path in files], scan_label_map, unreadable, progress, kind=NO_MAP),
        strict=True,
    )
    return {path: scan for path, scan in read if scan is not None}


def _values(scan: ScannedMap, table: ClassTable) -> tuple[int, ...]:
    return tuple(value & 255 for value in scan.values) if scan.coded and not table.coded else scan.values


def _has_classes(one: LabelledImage, scan: ScannedMap, table: ClassTable, faulty: FaultySamples) -> bool:
    """Report a label map with unknown values; warn of one without any class."""
    if table.coded and not scan.coded:
        what = f"{one.labels}: a label map of numbers among those with colours"
        faulty.add(UserError(what, expected="colours, as in the other label maps"))
        return False
    values = _values(scan, table)
    unknown = table.unknown(values)
    if unknown:
        faulty.add(unknown_values(one.labels, table, unknown), UNKNOWN)
        return False
    if not set(values) & set(table.values):
        warn(NO_LABELS, str(one.labels))
    return True


def _warn_of_classes(path: Path, table: ClassTable, scans: Sequence[ScannedMap]) -> None:
    used = {value for scan in scans for value in _values(scan, table)}
    for value, name in zip(table.values, table.names, strict=True):
        if value not in used:
            warn("a class without pixels", f"{path}: {name}")


def _with_sizes(
    images: Sequence[LabelledImage], scans: dict[Path, ScannedMap], faulty: FaultySamples, whole: bool
) -> list[LabelledImage]:
    """Read the images or their headers; return those that have the size of their label map, with this size."""

    def read(path: Path) -> tuple[tuple[int, int], int]:
        if whole:
            read_image(path, 3)
        return stored_size(path), read_orientation(path)

    unreadable = FaultySamples(faulty.where, "images")
    found = zip(images, map_images([(one.image, "") for one in images], read, unreadable, None), strict=True)
    kept = []
    for one, header in found:
        if header is None:
            continue
        scan, (stored, orientation) = scans[one.labels], header
        upright = (stored[1], stored[0]) if orientation >= 5 else stored
        is_stored = counts_stored_pixels(scan.size, stored, orientation)
        if scan.size != upright and not is_stored:
            what = f"{one.labels}: the label map has another size than the image"
            expected, got = ("{1} x {0}".format(*size) for size in (upright, scan.size))
            faulty.add(UserError(what, expected=expected, got=got), OTHER_SIZE)
            continue
        if orientation != UPRIGHT:
            warn(STORED if is_stored else SHOWN_UPRIGHT, f"{one.image}: orientation {orientation}")
        turned = orientation if is_stored else UPRIGHT
        kept.append(replace(one, size=scan.size, orientation=turned, digest=scan.digest))
    return kept
