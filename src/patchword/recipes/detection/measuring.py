"""Measures a detector on annotated images: losses, and the average precision of boxes and masks."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from patchword.core.masks.run_lengths import RunLengths
from patchword.core.work_sharing import SINGLE, WorkSharing
from patchword.data.detection.batches import DetectionBatches
from patchword.data.detection.reading_ahead import reading_threads
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.objective import DetectionLoss
from patchword.objectives.detection.shared_loss import SharedLoss
from patchword.objectives.metrics.detection.average_precision import AveragePrecision, average_precision
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.recipes.detection.inference import at_original_size
from patchword.training.state import Validation
from patchword.training.step import autocast

METRIC = "box_ap"  # COCO's AP of boxes, the mean over IoU thresholds from 0.5 to 0.95


@dataclass(frozen=True)
class MeasuredObjects:
    """The true objects and the detections of all images of a split. loss: the mean of the summed losses"""

    truth: Sequence[ImageObjects]
    found: Sequence[ImageDetections]
    loss: float
    classes: int

    def boxes(self) -> AveragePrecision:
        return average_precision(self.truth, self.found, classes=self.classes)

    def masks(self) -> AveragePrecision | None:
        """Return the average precision of masks; None if the detector or the data has none."""
        if any(one.masks is None for one in self.truth) or any(one.masks is None for one in self.found):
            return None
        return average_precision(self.truth, self.found, classes=self.classes, regions="masks")


@dataclass(frozen=True)
class HeldOutObjects:
    """Annotated images that are not trained on."""

    batches: DetectionBatches
    rule: DetectionLoss[Any]

    def validate(self, detector: Detector, precision: str, group: WorkSharing = SINGLE) -> Validation:
        """Return the loss, the box AP, and further measures."""
        measured = self.measure(detector, precision, group)
        boxes, masks = measured.boxes(), measured.masks()
        measures = {"box_ap50": boxes.ap(threshold=0.5)}
        if masks is not None:
            measures |= {"mask_ap": masks.ap(), "mask_ap50": masks.ap(threshold=0.5)}
        return Validation(measured.loss, boxes.ap(), measures)

    @torch.inference_mode()
    def measure(self, detector: Detector, precision: str, group: WorkSharing = SINGLE) -> MeasuredObjects:
        """Detect the objects of all images; processes divide the work."""
        source, size = self.batches.source, self.batches.size
        parts = torch.arange(len(source)).split(size)
        with reading_threads() as threads:
            reader = _Reader(self.batches, threads, masks=bool(detector.masks))

            def ask(index: Tensor) -> tuple[Tensor, ...]:
                return self._ask(detector, precision, index, reader)

            answers = group.map(ask, parts)
            truth = reader.all_objects()
        found = [one for answer in answers for one in _unpacked(answer)]
        weights = [len(part) for part in parts]
        loss = sum(float(answer[0]) * weight for answer, weight in zip(answers, weights, strict=True)) / sum(weights)
        return MeasuredObjects(truth, found, loss, len(source.classes))

    def _ask(self, detector: Detector, precision: str, index: Tensor, reader: "_Reader") -> tuple[Tensor, ...]:
        """Return the loss of a batch, and its detections as tensors."""
        sizes, samples = reader.read(index)
        batch = self.batches.batch(samples, index)
        with autocast(precision, batch.device):
            levels = detector.features(batch.images)
            losses = self.rule.on_levels(detector, levels, batch.targets, SharedLoss(batch.keys()))
            detections = detector.detect(levels, batch.targets.sizes)
        found = at_original_size(detections, sizes)
        return (torch.stack(list(losses.values())).sum().double(), *_packed(found))


@dataclass(frozen=True, eq=False)
class _Reader:
    """Reads images in threads, and keeps the true objects of those that were read. masks: with their masks."""

    batches: DetectionBatches
    threads: Executor
    masks: bool
    known: dict[int, ImageObjects] = field(default_factory=dict)

    def read(self, index: Tensor) -> tuple[list[tuple[int, int]], list[Sample]]:
        """Return the original sizes of images, and their samples at the size of the detector."""
        originals = list(self.threads.map(self._original, index.tolist()))
        samples = self.threads.map(lambda one: self.batches.transform(one, SampleDraws(0, 0, 0)), originals)
        return [one.size for one in originals], list(samples)

    def all_objects(self) -> list[ImageObjects]:
        """Return the true objects of every image; images of other processes are read for it."""
        count = len(self.batches.source)
        list(self.threads.map(self._original, [index for index in range(count) if index not in self.known]))
        return [self.known[index] for index in range(count)]

    def _original(self, index: int) -> Sample:
        sample = self.batches.source.sample(index)
        self.known[index] = ImageObjects(
            sample.boxes.double().numpy(),
            sample.labels.numpy(),
            self.batches.source.areas(index),
            sample.crowd.numpy(),
            None if sample.masks is None or not self.masks else RunLengths.from_masks(sample.masks.numpy()),
        )
        return sample


def _packed(found: Sequence[ImageDetections]) -> tuple[Tensor, ...]:
    """Return detections as tensors, which processes can exchange: counts, boxes, labels, scores, and masks as run
    lengths with their heights, widths and numbers of runs."""
    counts = torch.tensor([len(one.labels) for one in found])
    boxes, labels, scores = (
        torch.from_numpy(np.concatenate([getattr(one, name) for one in found]))
        for name in ("boxes", "labels", "scores")
    )
    if any(one.masks is None for one in found):
        return counts, boxes, labels, scores
    masks = [mask for one in found for mask in one.masks or ()]
    shapes = torch.tensor([(mask.height, mask.width, len(mask.counts)) for mask in masks]).reshape(-1, 3)
    runs = np.concatenate([np.asarray(mask.counts, dtype=np.int64) for mask in masks] or [np.zeros(0, dtype=np.int64)])
    return counts, boxes, labels, scores, shapes, torch.from_numpy(runs)


def _unpacked(answer: tuple[Tensor, ...]) -> list[ImageDetections]:
    """Return the detections of a batch. answer: the loss, and what `_packed` returns"""
    _, counts, boxes, labels, scores, *rest = answer
    sizes = counts.tolist()
    masks: list[RunLengths] | None = None
    if rest:
        shapes, runs = rest
        pieces = runs.split(shapes[:, 2].tolist())
        masks = [
            RunLengths(int(height), int(width), piece.numpy())
            for (height, width, _), piece in zip(shapes.tolist(), pieces, strict=True)
        ]
    found, start = [], 0
    for box, label, score in zip(boxes.split(sizes), labels.split(sizes), scores.split(sizes), strict=True):
        own = None if masks is None else masks[start : start + len(label)]
        found.append(ImageDetections(box.numpy(), label.numpy(), score.numpy(), own))
        start += len(label)
    return found
