"""A tiny detector with class names, and detections that depend on the size of the image alone."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from patchword.core.masks.run_lengths import RunLengths
from patchword.layers.dense.detector import Detector
from patchword.models.detection import create_detector
from patchword.objectives.metrics.detection.records import ImageDetections

NAMES = ("cat", "dog <b>", "car")


def tiny_detector(name: str = "retinanet") -> Detector:
    """Return a detector that reads images of 64 pixels."""
    torch.manual_seed(0)
    sizes = {"width": 8, "hidden": 8} if "rcnn" in name else {"width": 8, "depth": 1}
    backbone = {"backbone": "resnet-18", "backbone_fields": {"width": 4, "depths": (1, 1, 1, 1)}}
    detector = create_detector(name, **backbone, **sizes, classes=3, min_size=64, max_size=96).eval()
    detector.card = replace(detector.card, labels=NAMES)
    return detector


def two_boxes(detector: Detector, images: Sequence[Tensor], batch_size: int, precision: str) -> list[ImageDetections]:
    """Detect in each image a car in the right half (score 0.4), a cat in the left half (0.9) and a weak dog (0.1)."""
    found = []
    for image in images:
        height, width = image.shape[-2:]
        boxes = np.array([[width / 2, 0, width, height], [0, 0, width / 2, height], [0, 0, width, height]])
        masks = []
        for x1, y1, x2, y2 in boxes.astype(int):
            mask = np.zeros((height, width), dtype=bool)
            mask[y1:y2, x1:x2] = True
            masks.append(RunLengths.from_mask(mask))
        found.append(ImageDetections(boxes, np.array([2, 0, 1]), np.array([0.4, 0.9, 0.1]), masks))
    return found
