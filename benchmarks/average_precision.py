"""Compute COCO's average precision with patchword and with pycocotools on the same detections; compare the seconds.

python benchmarks/average_precision.py --save benchmarks/results/average_precision.json

1,024 images of 480 x 640 pixels, 7,512 objects of 80 classes, 100 detections per image. A part of the detections is
near an object, the others are elsewhere. Both get finished inputs: arrays and run lengths here, the indexed COCO
objects there. All precisions, all recalls and the twelve numbers must be equal, bit for bit. CPU time counts only this
process, so its ratio also holds on a busy machine.
"""

import argparse
import contextlib
import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from patchword.core.device import machine, pick_device
from patchword.core.masks.polygons import fill_polygons
from patchword.objectives.metrics.detection.average_precision import average_precision
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects

HEIGHT, WIDTH, CLASSES = 480, 640, 80
Case = tuple[list[ImageObjects], list[ImageDetections]]


def make_case(images: int, objects: int, detections: int, seed: int = 0) -> Case:
    """Return objects and detections with boxes, and ellipses in these boxes as masks."""
    rng = np.random.default_rng(seed)
    numbers = np.bincount(rng.integers(0, images, objects), minlength=images)
    truth, found = [], []
    for number in numbers:
        boxes, labels = random_boxes(rng, number), rng.integers(0, CLASSES, number)
        near = rng.integers(0, number, min(detections, 5 * number)) if number else np.zeros(0, dtype=np.int64)
        sides = np.tile(boxes[near, 2:] - boxes[near, :2], 2)
        others = detections - len(near)
        guesses = np.concatenate((boxes[near] + rng.normal(0, 0.06, sides.shape) * sides, random_boxes(rng, others)))
        guess_labels = np.concatenate((labels[near], rng.integers(0, CLASSES, others)))
        scores = rng.random(detections).round(3)
        guesses[:, 2:] = np.maximum(guesses[:, 2:], guesses[:, :2] + 1)
        masks = ellipses(boxes)
        areas = np.array([mask.area for mask in masks], dtype=np.float64)
        truth.append(ImageObjects(boxes, labels, areas, rng.random(number) < 0.01, masks))
        found.append(ImageDetections(guesses, guess_labels, scores, ellipses(guesses)))
    return truth, found


def random_boxes(rng: np.random.Generator, number: int) -> np.ndarray:
    size = np.exp(rng.uniform(np.log(10), np.log(300), (number, 2)))
    corner = rng.random((number, 2)) * (np.array([WIDTH, HEIGHT]) - size)
    return np.concatenate((corner, corner + size), axis=1).round(2)


def ellipses(boxes: np.ndarray) -> list[Any]:
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack((np.cos(angle), np.sin(angle)), axis=1) / 2
    middle, size = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2, boxes[:, None, 2:] - boxes[:, None, :2]
    return [fill_polygons([corners], HEIGHT, WIDTH) for corners in middle + ring * size]


def as_coco(case: Case, masks: bool) -> tuple[COCO, COCO]:
    """Return the objects and the detections as pycocotools takes them."""
    truth, found = case
    real = COCO()
    real.dataset = {
        "images": [{"id": image, "height": HEIGHT, "width": WIDTH} for image in range(len(truth))],
        "categories": [{"id": label} for label in range(CLASSES)],
        "annotations": [
            {**entry, "id": number + 1, "iscrowd": int(one.crowd[index]), "area": float(one.areas[index])}
            for number, (one, index, entry) in enumerate(entries(truth, masks, True))
        ],
    }
    real.createIndex()
    results = [{**entry, "score": float(one.scores[index])} for one, index, entry in entries(found, masks, not masks)]
    return real, real.loadRes(results)


def entries(images: list[Any], masks: bool, boxes: bool) -> list[tuple[Any, int, dict[str, Any]]]:
    made = []
    for image, one in enumerate(images):
        for index, (x1, y1, x2, y2) in enumerate(one.boxes.tolist()):
            entry = {"image_id": image, "category_id": int(one.labels[index])}
            if boxes:
                entry["bbox"] = [x1, y1, x2 - x1, y2 - y1]
            if masks:
                entry["segmentation"] = {"size": [HEIGHT, WIDTH], "counts": one.masks[index].to_text().encode()}
            made.append((one, index, entry))
    return made


def timed(run: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    return result, {"seconds": round(wall, 3), "processor_seconds": round(processor, 3)}


def evaluate(real: COCO, guessed: COCO, masks: bool) -> COCOeval:
    evaluation = COCOeval(real, guessed, "segm" if masks else "bbox")
    evaluation.evaluate()
    evaluation.accumulate()
    evaluation.summarize()
    return evaluation


def compare(case: Case, masks: bool, repeats: int) -> dict[str, Any]:
    """Time both; ours is run several times, and the median counts."""
    regions = "masks" if masks else "boxes"
    runs = [timed(partial(average_precision, *fresh(case), CLASSES, regions)) for _ in range(repeats)]
    ours, time_ours = sorted(runs, key=lambda run: run[1]["seconds"])[repeats // 2]
    with contextlib.redirect_stdout(io.StringIO()):
        real, guessed = as_coco(case, masks)
        theirs, time_theirs = timed(lambda: evaluate(real, guessed, masks))
    if not np.array_equal(ours.precision, theirs.eval["precision"][..., -1]):
        raise SystemExit(f"{regions}: the precisions differ")
    if not np.array_equal(ours.recall, theirs.eval["recall"]):
        raise SystemExit(f"{regions}: the recalls differ")
    numbers = ours.summary()
    return {
        "patchword": time_ours,
        "pycocotools": time_theirs,
        "ratio": {name: round(time_theirs[name] / time_ours[name], 1) for name in time_ours},
        "largest_difference": max(abs(a - b) for a, b in zip(numbers.values(), theirs.stats, strict=True)),
        "numbers": {name: round(value, 4) for name, value in numbers.items()},
    }


def fresh(case: Case) -> Case:
    """Return the same records with masks that have not computed their runs, areas and boxes yet."""
    truth, found = ([replace(one, masks=[replace(mask) for mask in one.masks]) for one in part] for part in case)
    return truth, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1024)
    parser.add_argument("--objects", type=int, default=7512)
    parser.add_argument("--detections", type=int, default=100, help="per image")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--note", default="", help="a remark on the machine for the saved file")
    parser.add_argument("--save", type=Path)
    given = parser.parse_args()
    case = make_case(given.images, given.objects, given.detections)
    result = {regions: compare(case, regions == "masks", given.repeats) for regions in ("boxes", "masks")}
    for regions, found in result.items():
        print(regions, json.dumps(found), flush=True)
    report = {
        "command": f"python benchmarks/average_precision.py --images {given.images} --objects {given.objects}"
        f" --detections {given.detections} --repeats {given.repeats}",
        "note": given.note,
        **result,
        "machine": machine(pick_device("cpu")),
    }
    if given.save:
        given.save.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
