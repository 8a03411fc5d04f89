"""A result of a detector on random images, in the shape that reports read."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from patchword.core.masks.run_lengths import RunLengths
from patchword.layers.dense.detector import Detector
from patchword.objectives.metrics.detection.average_precision import AveragePrecision, average_precision
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from support.detection.detectors import tiny_detector


@dataclass(frozen=True)
class StandInEvaluation:
    """The fields of a detection result that reports read."""

    model: Detector
    classes: tuple[str, ...]
    truth: Sequence[ImageObjects]
    found: Sequence[ImageDetections]
    boxes: AveragePrecision
    masks: AveragePrecision | None
    names: tuple[str, ...]
    pixels: Sequence[Tensor]
    kind: str = "detection"

    def image(self, index: int) -> Tensor:
        return self.pixels[index]


def stand_in(
    classes: tuple[str, ...] = ("cat", "dog", "car"), images: int = 8, masks: bool = False, seed: int = 0
) -> StandInEvaluation:
    """Images of noise with rectangles; some of them are missed, moved, or of a wrong class, and some boxes are false.

    The last image has no objects."""
    rng = np.random.default_rng(seed)
    truth, found, pixels = [], [], []
    for image in range(images):
        height, width = int(rng.integers(60, 100)), int(rng.integers(60, 100))
        number = int(rng.integers(1, 5)) if image < images - 1 else 0
        corners = rng.uniform(0, 30, (number, 2))
        boxes = np.concatenate((corners, corners + rng.uniform(10, 30, (number, 2))), axis=1).round()
        labels = rng.integers(0, len(classes), number)
        kept = rng.random(number) < 0.75
        false = np.array([[1.0, 1.0, 12.0, 9.0]])
        guessed = np.concatenate((boxes[kept] + rng.choice([-1, 0, 1], (int(kept.sum()), 4)), false)).clip(0, 59)
        other = np.where(rng.random(number) < 0.2, (labels + 1) % len(classes), labels)
        guesses = np.append(other[kept], 0)
        areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        own, given = ([_filled(box, height, width) for box in some] if masks else None for some in (boxes, guessed))
        truth.append(ImageObjects(boxes, labels, areas, np.zeros(number, dtype=bool), own))
        found.append(ImageDetections(guessed, guesses, rng.uniform(0.2, 1, len(guesses)), given))
        pixels.append(torch.from_numpy(rng.integers(0, 256, (3, height, width), dtype=np.uint8)))
    model = tiny_detector("mask-rcnn")
    model.card = replace(model.card, labels=classes)
    return StandInEvaluation(
        model,
        classes,
        truth,
        found,
        average_precision(truth, found, len(classes)),
        average_precision(truth, found, len(classes), "masks") if masks else None,
        tuple(f"image{number}.png" for number in range(images)),
        pixels,
    )


def _filled(box: np.ndarray, height: int, width: int) -> RunLengths:
    mask = np.zeros((height, width), dtype=bool)
    x1, y1, x2, y2 = box.astype(int)
    mask[y1:y2, x1:x2] = True
    return RunLengths.from_mask(mask)
