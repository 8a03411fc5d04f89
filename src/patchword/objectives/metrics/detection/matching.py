"""COCO's matching of detections with objects, for all images, classes, IoU thresholds and area ranges at once.

In each image and class, detections take objects in the order of their scores. A detection takes the free object with
the largest IoU above the threshold (of equal ones the last), and an ignored object only if it finds no other one.
Ignored are crowds, which match any number of times, and objects outside of the area range.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchword.core.errors import UserError
from patchword.core.masks.overlap import intersections
from patchword.objectives.metrics.detection.tables import Objects, Ranked

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
    """Pairs of a detection and an object with an IoU of at least the lowest threshold.

    They are sorted by detection, then by IoU, then by object: the last possible pair of a detection is the best one.
    """

    detection: NDArray[np.int64]
    item: NDArray[np.int64]
    iou: NDArray[np.float64]


def match(detections: Ranked, objects: Objects) -> Matches:
    """Match the detections of each group with its objects."""
    ignored_objects = objects.crowd[:, None] | _out_of_range(objects.areas)
    matched = np.zeros((len(detections), len(THRESHOLDS), len(SIZES)), dtype=bool)
    ignored = np.zeros_like(matched)
    taken = np.zeros((len(objects), len(THRESHOLDS), len(SIZES)), dtype=bool)
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
    ignored |= ~matched & _out_of_range(detections.areas)[:, None]
    return Matches(matched, ignored, ignored_objects)


def find_candidates(detections: Ranked, objects: Objects) -> Candidates:
    """Return the pairs of one image and class whose IoU reaches the lowest threshold."""
    low = np.searchsorted(objects.group, detections.group, side="left")
    number = np.searchsorted(objects.group, detections.group, side="right") - low
    detection = np.repeat(np.arange(len(detections)), number)
    item = np.arange(len(detection)) - np.repeat(np.cumsum(number) - number - low, number)
    detection, item, iou = _box_iou(detections, objects, detection, item)
    if len(detections.masks):
        detection, item, iou = _mask_iou(detections, objects, detection, item)
    kept = iou >= THRESHOLDS[0]
    detection, item, iou = detection[kept], item[kept], iou[kept]
    order = np.lexsort((item, iou, detection))
    return Candidates(detection[order], item[order], iou[order])


def _box_iou(
    detections: Ranked, objects: Objects, detection: NDArray[np.int64], item: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the pairs whose boxes overlap, and their IoU; for a crowd, the part of the detection inside it."""
    ends, other_ends = detections.sizes + detections.corners, objects.sizes + objects.corners
    overlap = np.minimum(ends[detection], other_ends[item])
    overlap -= np.maximum(detections.corners[detection], objects.corners[item])
    kept = (overlap > 0).all(axis=1)
    detection, item, overlap = detection[kept], item[kept], overlap[kept]
    shared = overlap[:, 0] * overlap[:, 1]
    area, other_area = (one.sizes[:, 0] * one.sizes[:, 1] for one in (detections, objects))
    union = np.where(objects.crowd[item], area[detection], area[detection] + other_area[item] - shared)
    return detection, item, shared / union


def _mask_iou(
    detections: Ranked, objects: Objects, detection: NDArray[np.int64], item: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the IoU of masks for pairs whose areas allow the lowest threshold."""
    _check_sizes(detections, objects, detection, item)
    crowd = objects.crowd[item]
    area = detections.areas.astype(np.int64)[detection]
    other_area = np.array([mask.area for mask in objects.masks], dtype=np.int64)[item]
    most = np.minimum(area, other_area)
    kept = most / np.where(crowd, area, area + other_area - most) >= THRESHOLDS[0]
    detection, item, area, other_area, crowd = (one[kept] for one in (detection, item, area, other_area, crowd))
    shared = intersections(detections.masks, objects.masks, detection, item)
    return detection, item, shared / np.where(crowd, area, area + other_area - shared)


def _check_sizes(detections: Ranked, objects: Objects, detection: NDArray[np.int64], item: NDArray[np.int64]) -> None:
    sizes, other_sizes = (
        np.array([(mask.height, mask.width) for mask in one.masks], dtype=np.int64).reshape(-1, 2)
        for one in (detections, objects)
    )
    wrong = np.flatnonzero((sizes[detection] != other_sizes[item]).any(axis=1))
    if len(wrong):
        expected, got = other_sizes[item[wrong[0]]].tolist(), sizes[detection[wrong[0]]].tolist()
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


def _out_of_range(areas: NDArray[np.float64]) -> Flags:
    """Return flags of shape (regions, area ranges)."""
    return (areas[:, None] < AREAS[:, 0]) | (areas[:, None] > AREAS[:, 1])
