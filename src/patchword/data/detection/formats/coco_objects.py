"""The objects of COCO JSON: boxes, polygons and run lengths."""

from collections.abc import Sequence

import numpy as np

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.data.detection.formats.values import flag, image_size, numbers, polygon, unknown_class, whole
from patchword.data.detection.records import AnnotatedObject, Box, Outline, Polygons


def coco_object(
    id: int, entry: dict[str, object], where: str, labels: dict[int, int], names: Sequence[str]
) -> AnnotatedObject:
    """Read an entry of `annotations`. labels: per number of a class. names: of the classes, by label."""
    category = whole(entry.get("category_id"), f"{where}, category_id")
    if category not in labels:
        raise unknown_class(
            where, f"category_id {category}", [f"{id} {name}" for id, name in zip(labels, names, strict=True)]
        )
    outline = _outline(entry.get("segmentation"), where)
    return AnnotatedObject(
        _box(entry.get("bbox"), outline, where),
        labels[category],
        id,
        outline,
        crowd=flag(entry.get("iscrowd", 0), f"{where}, iscrowd"),
        difficult=flag(entry.get("difficult", 0), f"{where}, difficult"),
        area=None if entry.get("area") is None else numbers([entry["area"]], f"{where}, area")[0],
    )


def _box(box: object, outline: Outline | None, where: str) -> Box:
    if box is None and outline is not None:
        return outline.box
    x, y, width, height = numbers(box, f"{where}, bbox", 4)
    return x, y, x + width, y + height


def _outline(found: object, where: str) -> Outline | None:
    if found is None or found == []:
        return None
    if isinstance(found, list):
        return Polygons(tuple(polygon(numbers(part, f"{where}, segmentation"), where) for part in found))
    if not isinstance(found, dict):
        raise UserError(f"{where}: not a segmentation", expected="polygons or run lengths", got=type(found).__name__)
    sides = numbers(found.get("size"), f"{where}, size", 2)
    height, width = image_size(sides[0], sides[1], where)
    counts = found.get("counts")
    try:
        if isinstance(counts, str):
            return RunLengths.from_text(height, width, counts)
        return RunLengths(
            height, width, np.array([whole(count, where) for count in numbers(counts, f"{where}, counts")])
        )
    except UserError as error:
        raise UserError(f"{where}: {error.what}", expected=error.expected, got=error.got, hint=error.hint) from None
