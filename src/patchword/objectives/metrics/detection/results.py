"""Detections as files: the result list of COCO, to and from JSON, and a CSV table."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from patchword.core.errors import UserError
from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.records import ImageDetections

CSV_COLUMNS = ("file", "label", "score", "x1", "y1", "x2", "y2")
_DIGITS = 9  # of widths and heights: removes the error of x2 - x1


def select(found: ImageDetections, threshold: float) -> ImageDetections:
    """Return the detections with at least this score, best first."""
    order = np.argsort(-found.scores, kind="stable")
    kept = order[found.scores[order] >= threshold]
    masks = None if found.masks is None else tuple(found.masks[index] for index in kept)
    return ImageDetections(found.boxes[kept], found.labels[kept], found.scores[kept], masks)


def coco_results(
    found: Sequence[ImageDetections], image_ids: Sequence[int], class_ids: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the result list of COCO: image_id, category_id, bbox [x, y, width, height], score, and segmentation.

    image_ids: the number of each image. class_ids: the number of each class, e.g. 1 to 90 with gaps in COCO.
    segmentation is there for detections with a mask: {"size": [height, width], "counts": run lengths as text}.
    """
    if len(found) != len(image_ids):
        raise UserError("detections and image numbers are of different images", expected=len(found), got=len(image_ids))
    return [
        _entry(one, index, image_id, class_ids)
        for one, image_id in zip(found, image_ids, strict=True)
        for index in range(len(one.labels))
    ]


def _entry(found: ImageDetections, index: int, image_id: int, class_ids: Sequence[int]) -> dict[str, Any]:
    x1, y1, x2, y2 = found.boxes[index].tolist()
    entry: dict[str, Any] = {
        "image_id": image_id,
        "category_id": class_ids[int(found.labels[index])],
        "bbox": [x1, y1, round(x2 - x1, _DIGITS), round(y2 - y1, _DIGITS)],
        "score": float(found.scores[index]),
    }
    if found.masks is not None:
        mask = found.masks[index]
        entry["segmentation"] = {"size": [mask.height, mask.width], "counts": mask.to_text()}
    return entry


def read_coco_results(entries: object, image_ids: Sequence[int], class_ids: Sequence[int]) -> list[ImageDetections]:
    """Return the detections of each image from the result list of COCO. An image without entries has none.

    entries: the content of the JSON file. The masks of an image are read if all its entries have one.
    """
    if not isinstance(entries, list):
        raise UserError("not a result list of COCO", expected="a list of records", got=type(entries).__name__)
    labels = {number: label for label, number in enumerate(class_ids)}
    found: dict[int, list[tuple[Mapping[str, Any], int]]] = {number: [] for number in image_ids}
    for place, entry in enumerate(entries):
        where = f"result {place}"
        if not isinstance(entry, Mapping) or not {"image_id", "category_id", "bbox", "score"} <= entry.keys():
            got = ", ".join(map(str, entry)) if isinstance(entry, Mapping) else type(entry).__name__
            raise UserError(f"{where} is not a detection", expected="image_id, category_id, bbox and score", got=got)
        found[_known(entry["image_id"], found, f"{where}, image_id")].append(
            (entry, labels[_known(entry["category_id"], labels, f"{where}, category_id")])
        )
    return [_detections(own) for own in found.values()]


def _known(value: object, known: Mapping[int, object], where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in known:
        some = ", ".join(map(str, list(known)[:10])) + (", ..." if len(known) > 10 else "")
        raise UserError(f"{where}: unknown number", expected=some, got=repr(value))
    return value


def _detections(entries: Sequence[tuple[Mapping[str, Any], int]]) -> ImageDetections:
    boxes = np.array([_box(entry["bbox"]) for entry, _ in entries], dtype=np.float64).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    masks = [_mask(entry.get("segmentation")) for entry, _ in entries]
    return ImageDetections(
        boxes,
        np.array([label for _, label in entries], dtype=np.int64),
        np.array([_number(entry["score"], "score") for entry, _ in entries], dtype=np.float64),
        [mask for mask in masks if mask is not None] if masks and None not in masks else None,
    )


def _box(value: object) -> list[float]:
    if not isinstance(value, (list, tuple)) or len(value) != 4:
        raise UserError("bbox of a result", expected="x, y, width, height", got=repr(value)[:60])
    return [_number(one, "bbox") for one in value]


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UserError(f"{name} of a result", expected="a number", got=repr(value)[:60])
    return float(value)


def _mask(value: object) -> RunLengths | None:
    """Return the mask of run lengths, as text or as a list of numbers."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not {"size", "counts"} <= value.keys():
        raise UserError("segmentation of a result", expected="run lengths with size and counts", got=repr(value)[:60])
    height, width = value["size"]
    counts = value["counts"]
    if isinstance(counts, str):
        return RunLengths.from_text(height, width, counts)
    return RunLengths(height, width, np.asarray(counts, dtype=np.int64))


def csv_results(found: Sequence[ImageDetections], files: Sequence[str], classes: Sequence[str]) -> str:
    """Return a CSV table with one line per detection: file, label (the class name), score, x1, y1, x2, y2 in pixels."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for one, file in zip(found, files, strict=True):
        for box, label, score in zip(one.boxes.tolist(), one.labels.tolist(), one.scores.tolist(), strict=True):
            writer.writerow([file, classes[label], f"{score:.6f}", *(f"{side:.2f}" for side in box)])
    return text.getvalue()
