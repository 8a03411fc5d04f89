"""COCO's matching of detections with objects, for all images, classes, IoU thresholds and area ranges at once.

In each image and class, detections take objects in the order of their scores. A detection takes the free object with
the largest IoU above the threshold (of equal ones the last), and an ignored object only if it finds no other one.
Ignored are crowds, which match any number of times, and objects outside of the area range.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.batch import MaskBatch, intersections
from patchword.objectives.metrics.detection.tables import Boxes, Objects, Ranked

THRESHOLDS: NDArray[np.float64] = np.linspace(0.5, 0.95, 10)
SIZES = ("all", "small", "medium", "large")
AREAS: NDArray[np.float64] = np.array([[0, 1e10], [0, 32**2], [32**2, 96**2], [96**2, 1e10]])

_LARGEST_THRESHOLD = 1 - 1e-10

Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Matches:
    """Flags of shape (detections, thresholds, area ranges), and the ignored objects, (objects, area ranges)."""

    matched: Flags
    ignored: Flags
    ignored_objects: Flags


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs of a detection and an object, and their IoU."""

    detection: NDArray[np.int64]
    item: NDArray[np.int64]
    iou: NDArray[np.float64]


def match(detections: Ranked, objects: Objects) -> Matches:
    """Match the detections of each group with its objects."""
    ignored_objects = objects.crowd[:, None] | _out_of_range(objects.areas)
    matched = np.zeros((len(detections.group), len(THRESHOLDS), len(SIZES)), dtype=bool)
    ignored = np.zeros_like(matched)
    taken = np.zeros((len(objects.group), len(THRESHOLDS), len(SIZES)), dtype=bool)
    pairs = find_candidates(detections, objects)
    for part in _turns(pairs.detection, detections.group):
        detection, item, iou = pairs.detection[part], pairs.item[part], pairs.iou[part]
        first = np.flatnonzero(np.diff(detection, prepend=-1))
        possible = iou[:, None, None] >= np.minimum(THRESHOLDS, _LARGEST_THRESHOLD)[:, None]
        possible = possible & (objects.crowd[item, None, None] | ~taken[item])
        place = np.arange(1, len(item) + 1)[:, None, None]
        preferred = np.where(ignored_objects[item], 0, len(item))[:, None, :]
        best = np.maximum.reduceat(np.where(possible, place + preferred, 0), first, axis=0)
        row, threshold, area = np.nonzero(best)
        chosen = item[(best[row, threshold, area] - 1) % len(item)]
        taken[chosen, threshold, area] = True
        matched[detection[first][row], threshold, area] = True
        ignored[detection[first][row], threshold, area] = ignored_objects[chosen, area]
    ignored |= ~matched & _out_of_range(detections.regions.areas)[:, None]
    return Matches(matched, ignored, ignored_objects)


def find_candidates(detections: Ranked, objects: Objects) -> Candidates:
    """Return the pairs of one image and class whose IoU reaches the lowest threshold.

    They are sorted by detection, then by IoU, then by object: the last possible pair of a detection is the best one.
    """
    low = np.searchsorted(objects.group, detections.group, side="left")
    number = np.searchsorted(objects.group, detections.group, side="right") - low
    detection = np.repeat(np.arange(len(number)), number)
    item = np.arange(len(detection)) - np.repeat(np.cumsum(number) - number - low, number)
    regions, others = detections.regions, objects.regions
    if isinstance(regions, MaskBatch) and isinstance(others, MaskBatch):
        pairs = _mask_iou(regions, others, objects.crowd, detection, item)
    elif isinstance(regions, Boxes) and isinstance(others, Boxes):
        pairs = _box_iou(regions, others, objects.crowd, detection, item)
    else:
        raise TypeError("masks cannot be compared with boxes")
    kept = pairs.iou >= THRESHOLDS[0]
    detection, item, iou = pairs.detection[kept], pairs.item[kept], pairs.iou[kept]
    order = np.lexsort((item, iou, detection))
    return Candidates(detection[order], item[order], iou[order])


def _box_iou(
    boxes: Boxes, others: Boxes, crowd: Flags, detection: NDArray[np.int64], item: NDArray[np.int64]
) -> Candidates:
    """Return the pairs that overlap, and their IoU; for a crowd, the part of the detection inside it."""
    overlap = np.minimum((boxes.sizes + boxes.corners)[detection], (others.sizes + others.corners)[item])
    overlap -= np.maximum(boxes.corners[detection], others.corners[item])
    kept = (overlap > 0).all(axis=1)
    detection, item, overlap = detection[kept], item[kept], overlap[kept]
    shared = overlap[:, 0] * overlap[:, 1]
    area = boxes.areas[detection]
    union = np.where(crowd[item], area, area + others.areas[item] - shared)
    return Candidates(detection, item, shared / union)


def _mask_iou(
    masks: MaskBatch, others: MaskBatch, crowd: Flags, detection: NDArray[np.int64], item: NDArray[np.int64]
) -> Candidates:
    """Return the pairs whose areas and columns allow the lowest threshold, and their IoU."""
    _check_sizes(masks.sizes[detection], others.sizes[item])
    columns, other_columns = masks.columns[detection], others.columns[item]
    common = np.minimum(columns[:, 1], other_columns[:, 1]) - np.maximum(columns[:, 0], other_columns[:, 0])
    area, other_area = masks.areas[detection], others.areas[item]
    most = np.minimum(np.minimum(area, other_area), common * masks.sizes[detection, 0])
    kept = (most > 0) & (most >= THRESHOLDS[0] * np.where(crowd[item], area, area + other_area - most))
    detection, item, area, other_area = (one[kept] for one in (detection, item, area, other_area))
    shared = intersections(masks, others, detection, item)
    return Candidates(detection, item, shared / np.where(crowd[item], area, area + other_area - shared))


def _check_sizes(sizes: NDArray[np.int64], other_sizes: NDArray[np.int64]) -> None:
    wrong = np.flatnonzero((sizes != other_sizes).any(axis=1))
    if len(wrong):
        expected, got = other_sizes[wrong[0]].tolist(), sizes[wrong[0]].tolist()
        raise UserError("masks of one image have different sizes", expected=expected, got=got)


def _turns(detection: NDArray[np.int64], group: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Split the pairs into turns: turn i has the pairs of the i-th detection with candidates of each group."""
    if not len(detection):
        return []
    first = np.flatnonzero(np.diff(detection, prepend=-1))
    groups = group[detection[first]]
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    turn = np.arange(len(first)) - np.repeat(starts, np.diff(starts, append=len(first)))
    per_pair = np.repeat(turn, np.diff(first, append=len(detection)))
    order = np.argsort(per_pair, kind="stable")
    return np.split(order, np.cumsum(np.bincount(per_pair))[:-1])


def _out_of_range(areas: NDArray[np.float64] | NDArray[np.int64]) -> Flags:
    """Return flags of shape (regions, area ranges)."""
    return (areas[:, None] < AREAS[:, 0]) | (areas[:, None] > AREAS[:, 1])
