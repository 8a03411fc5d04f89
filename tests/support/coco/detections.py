"""Random objects and detections, and their evaluation by pycocotools."""

import contextlib
import io
from collections.abc import Sequence

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from patchword.core.masks.run_lengths import RunLengths
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from support.coco.masks import as_coco

SIDE = 160


def random_case(
    seed: int,
    images: int = 12,
    classes: int = 5,
    most: int = 8,
    per_object: int = 6,
    extra: int = 10,
    masks: bool = False,
) -> tuple[list[ImageObjects], list[ImageDetections]]:
    """Objects with crowds, and detections near them and elsewhere, with ties of scores. The last class has no objects,
    the first image has no objects, the second no detections and the third neither."""
    rng = np.random.default_rng(seed)
    truth, found = [], []
    for image in range(images):
        number = 0 if image in (0, 2) else int(rng.integers(0, most + 1))
        boxes = _boxes(rng, number)
        labels = rng.integers(0, classes - 1, number)
        near = np.repeat(np.arange(number), per_object)
        moved = boxes[near] + rng.integers(-6, 7, (len(near), 4)) * rng.choice([0, 0.5, 1, 2], (len(near), 1))
        kept = (moved[:, 2] > moved[:, 0]) & (moved[:, 3] > moved[:, 1])
        others = 0 if image in (1, 2) else extra
        near_labels = np.where(rng.random(len(near)) < 0.8, labels[near], rng.integers(0, classes, len(near)))
        guesses = np.concatenate((moved[kept], _boxes(rng, others)))
        guess_labels = np.concatenate((near_labels[kept], rng.integers(0, classes, others)))
        if image in (1, 2):
            guesses, guess_labels = guesses[:0], guess_labels[:0]
        order = rng.permutation(len(guesses))
        scores = rng.integers(1, 30, len(guesses)) / 30
        true_masks, guessed = (_ellipses(rng, some) if masks else None for some in (boxes, guesses[order]))
        sides = boxes[:, 2:] - boxes[:, :2]
        areas = np.round(sides.prod(axis=1) * rng.choice([0.6, 1.0], number), 2)
        truth.append(ImageObjects(boxes, labels, areas, rng.random(number) < 0.2, true_masks))
        found.append(ImageDetections(guesses[order], guess_labels[order], scores, guessed))
    return truth, found


def _boxes(rng: np.random.Generator, number: int) -> np.ndarray:
    corner = rng.integers(0, SIDE - 20, (number, 2))
    return np.concatenate((corner, corner + rng.choice([8, 24, 32, 60, 96, 120], (number, 2))), axis=1).astype(float)


def _ellipses(rng: np.random.Generator, boxes: np.ndarray) -> list[RunLengths]:
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    masks = []
    for x1, y1, x2, y2 in boxes:
        mask = ((2 * x - x1 - x2) / (x2 - x1)) ** 2 + ((2 * y - y1 - y2) / (y2 - y1)) ** 2 < rng.choice([1, 2])
        masks.append(RunLengths.from_mask(mask & (x > x1) & (x < x2) & (y > y1) & (y < y2)))
    return masks


def evaluated_by_coco(
    truth: Sequence[ImageObjects], found: Sequence[ImageDetections], classes: int, masks: bool = False
) -> COCOeval:
    """Evaluate with pycocotools."""
    with contextlib.redirect_stdout(io.StringIO()):
        real = COCO()
        real.dataset = {
            "images": [{"id": image, "height": SIDE, "width": SIDE} for image in range(len(truth))],
            "categories": [{"id": label} for label in range(classes)],
            "annotations": _annotations(truth),
        }
        real.createIndex()
        given = _results(found, masks)
        guessed = real.loadRes(given) if given else COCO()
        evaluation = COCOeval(real, guessed, "segm" if masks else "bbox")
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation


def _annotations(truth: Sequence[ImageObjects]) -> list[dict]:
    found = []
    for image, one in enumerate(truth):
        for index, (x1, y1, x2, y2) in enumerate(one.boxes.tolist()):
            entry = {
                "id": len(found) + 1,
                "image_id": image,
                "category_id": int(one.labels[index]),
                "bbox": [x1, y1, x2 - x1, y2 - y1],
                "area": float(one.areas[index]),
                "iscrowd": int(one.crowd[index]),
            }
            found.append(entry | ({"segmentation": as_coco(one.masks[index])} if one.masks else {}))
    return found


def _results(found: Sequence[ImageDetections], masks: bool) -> list[dict]:
    results = []
    for image, one in enumerate(found):
        for index, (x1, y1, x2, y2) in enumerate(one.boxes.tolist()):
            entry = {"image_id": image, "category_id": int(one.labels[index]), "score": float(one.scores[index])}
            box = {"bbox": [x1, y1, x2 - x1, y2 - y1]}
            results.append(entry | ({"segmentation": as_coco(one.masks[index])} if masks else box))
    return results
