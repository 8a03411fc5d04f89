"""LabelMe JSON: one file per image, with shapes of named classes. The image may be inside of the file, in base64.

Shapes with one label and one group_id are the parts of one object.
"""

import base64
import binascii
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from patchword.core.errors import UserError
from patchword.core.masks.polygons import fill_polygons
from patchword.core.masks.run_lengths import RunLengths, merge
from patchword.data.detection.formats.json_files import json_files, json_kind, read_record
from patchword.data.detection.formats.values import (
    class_file,
    image_named,
    image_size,
    local_name,
    numbers,
    polygon,
    unknown_class,
    whole,
)
from patchword.data.detection.orientation import upright_size
from patchword.data.detection.records import AnnotatedImage, AnnotatedObject, DetectionDataset, Outline, Polygons
from patchword.data.faults import attempt, report_fault, warn
from patchword.data.image.image_file import PIXELS, decode_image

NAME = "LabelMe JSON"
_CIRCLE = 64  # corners of the polygon of a circle
Size = tuple[int, int]


class _Shape(NamedTuple):
    name: str
    outline: Outline
    id: int
    group: object


def recognises(path: Path) -> bool:
    """True for a LabelMe file, or a folder that has one."""
    return json_kind(path) == "labelme" or (path.is_dir() and any(json_kind(file) == "labelme" for file in _json(path)))


def read(path: Path) -> DetectionDataset:
    """Read a LabelMe file, or all of a folder."""
    files = [path] if path.is_file() else [file for place in _places(path) for file in json_files(place, "labelme")]
    found = [(file, one) for file in files if (one := attempt(_annotation, file)) is not None]
    listed = class_file([path if path.is_dir() else path.parent])
    listed = listed and tuple(name for name in listed if name not in ("__ignore__", "_background_"))
    classes = listed or tuple(sorted({shape.name for _, (_, _, shapes) in found for shape in shapes}))
    images = [
        AnnotatedImage.of(image, size, _objects(file, shapes, classes, size), file, "shape")
        for file, (image, size, shapes) in found
    ]
    return DetectionDataset(path, NAME, classes, tuple(range(len(classes))), tuple(images))


def embedded_image(file: Path) -> bytes:
    """Return the bytes of the image inside of a LabelMe file."""
    data = read_record(file).get("imageData")
    if not isinstance(data, str) or not data:
        raise UserError(f"{file} has no embedded image", expected="imageData in base64")
    return _decoded(data, f"{file}, imageData")


def _places(folder: Path) -> list[Path]:
    return [folder, *sorted(sub for sub in folder.iterdir() if sub.is_dir() and not sub.name.startswith("."))]


def _json(folder: Path) -> list[Path]:
    return [file for place in _places(folder) for file in place.glob("*.json")]


def _decoded(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UserError(f"{where}: not base64", got=str(error)) from None


def _annotation(file: Path) -> tuple[Path, Size, list[_Shape]]:
    record = read_record(file)
    shapes = record.get("shapes")
    if not isinstance(shapes, list):
        raise UserError(f"{file}: no list 'shapes'", got=list(record))
    image = _image(file, record)
    height, width = record.get("imageHeight"), record.get("imageWidth")
    size = _real_size(image) if height is None and width is None else image_size(height, width, str(file))
    found = [
        one
        for id, shape in enumerate(shapes, 1)
        if (one := attempt(_shape, shape, f"{file}, shape {id}", id, size)) is not None
    ]
    return image, size, found


def _image(file: Path, record: dict[str, object]) -> Path:
    """Return the image file; the annotation file itself if the image is embedded in it."""
    named = file.parent / local_name(str(record.get("imagePath") or f"{file.stem}.jpg"))
    if named.is_file():
        return named
    if record.get("imageData"):
        return file
    return image_named(file.with_suffix("")) or named


def _real_size(image: Path) -> Size:
    if image.suffix.lower() != ".json":
        return upright_size(image)
    found = decode_image(embedded_image(image), image, 3)
    return found.height, found.width


def _shape(shape: object, where: str, id: int, size: Size) -> _Shape | None:
    if not isinstance(shape, dict) or not isinstance(shape.get("label"), str) or not shape["label"]:
        raise UserError(f"{where}: no label", expected='{"label": ..., "points": ...}')
    kind = str(shape.get("shape_type") or "polygon")
    if kind in ("point", "line", "linestrip", "points"):
        warn("a shape that is no region and is left out", f"{where}: {kind}")
        return None
    points = shape.get("points")
    if not isinstance(points, list):
        raise UserError(f"{where}: no points")
    corners = [(x, y) for x, y in (numbers(point, f"{where}, points", 2) for point in points)]
    return _Shape(shape["label"], _outline(kind, corners, shape, where, size), id, shape.get("group_id"))


def _outline(
    kind: str, corners: list[tuple[float, float]], shape: dict[str, object], where: str, size: Size
) -> Outline:
    if kind == "polygon":
        return Polygons((polygon([value for corner in corners for value in corner], where),))
    if kind not in ("rectangle", "circle", "mask"):
        raise UserError(f"{where}: unknown shape_type", expected="polygon, rectangle, circle or mask", got=kind)
    if len(corners) != 2:
        raise UserError(f"{where}: a {kind} has two points", got=len(corners))
    if kind == "rectangle":
        (x1, y1), (x2, y2) = corners
        return Polygons((polygon([x1, y1, x2, y1, x2, y2, x1, y2], where),))
    if kind == "circle":
        angle = np.arange(_CIRCLE) * (2 * math.pi / _CIRCLE)
        radius = math.dist(corners[0], corners[1])
        circle = np.stack((np.cos(angle), np.sin(angle)), axis=1) * radius + corners[0]
        return Polygons((polygon(circle.reshape(-1).tolist(), where),))
    return _mask(corners[0], shape, where, size)


def _mask(corner: tuple[float, float], shape: dict[str, object], where: str, size: Size) -> RunLengths:
    """Paste a mask, which LabelMe stores as a PNG of its box, into the size of the image."""
    inner, full = _png(_decoded(str(shape.get("mask") or ""), f"{where}, mask"), where), np.zeros(size, dtype=bool)
    x, y = (whole(round(value), where) for value in corner)
    height, width = inner.shape
    if x < 0 or y < 0 or y + height > size[0] or x + width > size[1]:
        raise UserError(
            f"{where}: the mask is outside of the image",
            expected=f"inside of {size[1]} x {size[0]}",
            got=f"{width} x {height} at {x}, {y}",
        )
    full[y : y + height, x : x + width] = inner
    return RunLengths.from_mask(full)


def _png(data: bytes, where: str) -> NDArray[np.bool_]:
    try:
        with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
            if image.width * image.height > PIXELS:
                raise ValueError("too many pixels")
            return np.asarray(image.convert("L")) > 0
    except (OSError, SyntaxError, ValueError) as error:
        raise UserError(f"{where}: not a mask", expected="a PNG in base64", got=str(error).split(" <")[0]) from None


def _objects(file: Path, shapes: Sequence[_Shape], classes: tuple[str, ...], size: Size) -> list[AnnotatedObject]:
    groups: dict[object, list[_Shape]] = {}
    for shape in shapes:
        if shape.name in classes:
            key = shape.id if shape.group is None else (shape.name, str(shape.group))
            groups.setdefault(key, []).append(shape)
        else:
            report_fault(unknown_class(f"{file}, shape {shape.id}", shape.name, classes))
    found = []
    for parts in groups.values():
        outline = _joined([part.outline for part in parts], size)
        found.append(AnnotatedObject(outline.box, classes.index(parts[0].name), parts[0].id, outline))
    return found


def _joined(outlines: Sequence[Outline], size: Size) -> Outline:
    polygons = [outline.parts for outline in outlines if isinstance(outline, Polygons)]
    if len(polygons) == len(outlines):
        return Polygons(tuple(part for parts in polygons for part in parts))
    return merge([one if isinstance(one, RunLengths) else fill_polygons(one.parts, *size) for one in outlines])
