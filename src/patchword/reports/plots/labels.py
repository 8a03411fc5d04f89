"""Places labels beside points so that they cover neither each other nor a marker."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes

_ANGLES = np.arange(16) * np.pi / 8
_DISTANCES = np.array([9.0, 13.0, 18.0, 25.0, 34.0, 45.0])  # from a point to its label, in pixels
_MARK, _LINE = 6.0, 2.0  # half the size of a marker and of a line, with a margin
_LEADER = 17.0  # a label farther away gets a leader line to its point
_SWEEPS = 4

Boxes = np.ndarray  # (boxes, 4): left, bottom, right, top, in pixels


@dataclass(frozen=True)
class Label:
    """A text for the point (x, y), in data coordinates."""

    x: float
    y: float
    text: str
    colour: str


def place(axes: Axes, labels: Sequence[Label], lines: Sequence[Sequence[tuple[float, float]]], size: float = 9) -> None:
    """Write the labels, without those that would cover others; `lines` are avoided, too.

    The layout must be final, since distances are in pixels.
    """
    points = _pixels(axes, [(label.x, label.y) for label in labels])
    marks = np.concatenate([_around(points, _MARK), *(_around(_along(_pixels(axes, line)), _LINE) for line in lines)])
    choices = [
        _candidates(point, _measured(axes, label.text, size)) for point, label in zip(points, labels, strict=True)
    ]
    fixed = [_fixed_cost(boxes, point, marks, axes) for boxes, point in zip(choices, points, strict=True)]
    placed = np.full((len(labels), 4), np.nan)
    for _ in range(_SWEEPS):  # the first labels were placed without the last
        for index, (boxes, cost) in enumerate(zip(choices, fixed, strict=True)):
            others = np.delete(placed, index, axis=0)
            crowded = _overlaps(boxes, others[~np.isnan(others[:, 0])])
            placed[index] = boxes[(cost + 20 * crowded).argmin()]
    for index in _free(placed):
        _write(axes, labels[index], points[index], placed[index], size)


def _free(boxes: Boxes) -> list[int]:
    """Return the boxes that remain after removing those that overlap most, one by one."""
    kept = list(range(len(boxes)))
    while kept:
        crowded = _overlaps(boxes[kept], boxes[kept]) - _areas(boxes[kept])
        if crowded.max() <= 1:
            break
        kept.pop(int(crowded.argmax()))
    return kept


def _areas(boxes: Boxes) -> np.ndarray:
    areas: np.ndarray = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return areas


def _candidates(point: np.ndarray, extent: np.ndarray) -> Boxes:
    """Return a box at every distance in every direction."""
    away = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)], axis=1)  # (directions, 2)
    centres = point + away * (_DISTANCES[:, None, None] + extent / 2)
    low = (centres - extent / 2).reshape(-1, 2)
    return np.concatenate([low, low + extent], axis=1)


def _fixed_cost(boxes: Boxes, point: np.ndarray, marks: Boxes, axes: Axes) -> np.ndarray:
    """The cost apart from other labels: covered markers and lines, parts outside the axes, the distance."""
    inside = _overlaps(boxes, np.array([axes.bbox.extents]))
    cost: np.ndarray = 4 * _overlaps(boxes, marks) + 20 * (_areas(boxes) - inside) + 3 * _gaps(boxes, point)
    return cost


def _gaps(boxes: Boxes, point: np.ndarray) -> np.ndarray:
    """Return the distance from a point to the nearest edge of each box."""
    outside = np.maximum(np.maximum(boxes[:, :2] - point, point - boxes[:, 2:]), 0)
    gaps: np.ndarray = np.hypot(outside[:, 0], outside[:, 1])
    return gaps


def _overlaps(boxes: Boxes, others: Boxes) -> np.ndarray:
    """Return the area of each box that the others cover."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    covered: np.ndarray = (high - low).clip(0).prod(axis=2).sum(axis=1)
    return covered


def _write(axes: Axes, label: Label, point: np.ndarray, box: np.ndarray, size: float) -> None:
    centre = (box[:2] + box[2:]) / 2
    offset = (centre - point) * 72 / axes.figure.dpi
    far = _gaps(box[None], point)[0] > _LEADER
    leader: dict[str, Any] = {"arrowstyle": "-", "color": label.colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
    axes.annotate(
        label.text,
        (label.x, label.y),
        tuple(offset),
        textcoords="offset points",
        ha="center",
        va="center",
        size=size,
        color=label.colour,
        arrowprops=leader if far else None,
    )


def _measured(axes: Axes, text: str, size: float) -> np.ndarray:
    """Return width and height in pixels."""
    trial = axes.text(0, 0, text, size=size)
    extent = trial.get_window_extent()
    trial.remove()
    return np.array([extent.width + 2, extent.height])


def _pixels(axes: Axes, places: Sequence[tuple[float, float]]) -> np.ndarray:
    pixels: np.ndarray = axes.transData.transform(np.asarray(places, float).reshape(-1, 2))
    return pixels


def _along(line: np.ndarray) -> np.ndarray:
    """Return points every few pixels along a line."""
    steps = [np.linspace(start, end, 2 + int(np.hypot(*(end - start)) // 4)) for start, end in pairwise(line)]
    return np.concatenate([line, *steps])


def _around(points: np.ndarray, half: float) -> Boxes:
    return np.concatenate([points - half, points + half], axis=1)
