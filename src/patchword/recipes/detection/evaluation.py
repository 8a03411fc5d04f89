"""Evaluation of a detector on its test images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from patchword.core.device import pick_device
from patchword.data.detection.batches import DetectionBatches
from patchword.data.detection.sources import DetectionSource
from patchword.data.skipping import skipped_lines
from patchword.layers.dense.detector import Detector
from patchword.objectives.detection.rules import detection_loss
from patchword.objectives.metrics.detection.average_precision import UNDEFINED, AveragePrecision
from patchword.objectives.metrics.detection.records import ImageDetections, ImageObjects
from patchword.recipes.dense.backbones import channels_of
from patchword.recipes.detection.inference import resizing
from patchword.recipes.detection.measuring import METRIC, HeldOutObjects
from patchword.recipes.detection.recipe import DetectionRecipe
from patchword.recipes.detection.task import open_data
from patchword.recipes.run_folder import RunFolder


@dataclass(frozen=True, eq=False)
class DetectionEvaluation:
    """The test result of a detector, with the objects and the detections of each image.

    boxes, masks: COCO's average precision; masks is None if the detector predicts none.
    """

    kind: ClassVar[str] = "detection"
    model: Detector
    classes: tuple[str, ...]
    truth: Sequence[ImageObjects]
    found: Sequence[ImageDetections]
    boxes: AveragePrecision
    masks: AveragePrecision | None
    source: DetectionSource
    loss: float
    skipped: Sequence[str] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each image."""
        return tuple(self.source.file(index) for index in range(len(self.source)))

    def image(self, index: int) -> Tensor:
        """Return an image: (channels, height, width), uint8."""
        return self.source.sample(index).pixels

    def lines(self) -> Sequence[str]:
        objects = sum(len(one.labels) for one in self.truth)
        lines = [*self.skipped, f"Test Images: {len(self.truth):,} with {objects:,} objects"]
        for title, found in (("Box", self.boxes), ("Mask", self.masks)):
            if found is not None:
                values = (found.ap(), found.ap(threshold=0.5), found.ap(threshold=0.75))
                named = zip(("AP", "AP50", "AP75"), values, strict=True)
                lines.append(f"Test {title} " + ", ".join(f"{name} {100 * value:.2f}%" for name, value in named))
        return lines

    def summary(self) -> dict[str, Any]:
        found = {METRIC: self.boxes.ap(), "metric": METRIC, "part": "test", "loss": self.loss}
        if self.masks is not None:
            found["mask_ap"] = self.masks.ap()
        found["images"] = len(self.truth)
        found["boxes"] = _table(self.boxes, self.classes)
        if self.masks is not None:
            found["masks"] = _table(self.masks, self.classes)
        return found


def _table(found: AveragePrecision, classes: tuple[str, ...]) -> dict[str, Any]:
    """Return the summary of COCO and the AP of each class; None for a class without objects."""
    per_class = zip(classes, found.per_class().tolist(), strict=True)
    return {**found.summary(), "per_class": {name: None if ap == UNDEFINED else ap for name, ap in per_class}}


def evaluate_detection(run: RunFolder, recipe: DetectionRecipe, device: str) -> DetectionEvaluation:
    """Detect the objects of the test images, which are not trained on, and compare them with the annotations."""
    target = pick_device(device)
    detector = run.detector().to(target)
    splits = open_data(recipe, channels_of(detector))
    rule = detection_loss(detector)
    batches = DetectionBatches(
        splits.test, recipe.batch_size, detector.card.normalization, target, resizing(detector), bool(detector.masks)
    )
    measured = HeldOutObjects(batches, rule).measure(detector, "float32")
    return DetectionEvaluation(
        detector,
        detector.card.labels or splits.test.classes,
        measured.truth,
        measured.found,
        measured.boxes(),
        measured.masks(),
        splits.test,
        measured.loss,
        skipped_lines(splits.skipped),
    )
