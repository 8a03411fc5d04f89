"""Evaluation of a segmenter on its test images."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from patchword.core.device import pick_device
from patchword.core.errors import UserError
from patchword.data.segmentation.records import Color
from patchword.data.segmentation.sources import SegmentationSource
from patchword.data.skipping import skipped_lines
from patchword.layers.dense.segmentation.segmenter import Segmenter
from patchword.objectives.metrics.segmentation.confusion import SegmentationScores
from patchword.recipes.dense.backbones import channels_of
from patchword.recipes.run_folder import RunFolder
from patchword.recipes.segmentation.inference import InferenceOptions, inference_options, predict_label_maps
from patchword.recipes.segmentation.measuring import METRIC, HeldOutLabels, MeasuredLabels
from patchword.recipes.segmentation.recipe import SegmentationRecipe
from patchword.recipes.segmentation.task import open_data


@dataclass(frozen=True, eq=False)
class SegmentationEvaluation:
    """The test result of a segmenter. Predictions of single images are computed again when they are drawn."""

    kind: ClassVar[str] = "segmentation"
    model: Segmenter
    classes: tuple[str, ...]
    measured: MeasuredLabels
    source: SegmentationSource
    options: InferenceOptions
    skipped: Sequence[str] = ()

    @property
    def scores(self) -> SegmentationScores:
        return self.measured.scores

    @property
    def colors(self) -> tuple[Color, ...]:
        """The colour of each class in the files; empty if they have none."""
        return self.source.colors

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each image."""
        return tuple(self.source.file(index) for index in range(len(self.source)))

    def image(self, index: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return pixels (channels, height, width), true labels and predicted labels (height, width), all uint8."""
        sample = self.source.sample(index)
        return sample.pixels, sample.labels, predict_label_maps(self.model, [sample.pixels], self.options)[0]

    def lines(self) -> Sequence[str]:
        scores = self.scores
        pixels = int(self.measured.labelled.sum())
        lines = [*self.skipped, f"Test Images: {len(self.source):,} with {pixels:,} labelled pixels"]
        lines.append(f"Test Mean IoU: {100 * scores.mean_iou:.2f}%")
        lines.append(f"Test Pixel Accuracy: {100 * scores.pixel_accuracy:.2f}%")
        named = sorted(zip(scores.iou, self.classes, strict=True), key=lambda pair: (math.isnan(pair[0]), pair[0]))
        shown = [f"{name} {100 * iou:.1f}%" for iou, name in named if not math.isnan(iou)][:_SHOWN]
        lines.append(f"Lowest IoU: {', '.join(shown)}")
        return lines

    def summary(self) -> dict[str, Any]:
        scores = self.scores
        return {
            METRIC: scores.mean_iou,
            "metric": METRIC,
            "part": "test",
            "pixel_accuracy": scores.pixel_accuracy,
            "mean_accuracy": scores.mean_accuracy,
            "loss": self.measured.loss,
            "images": len(self.source),
            "examples": len(self.source),
            "classes": list(self.classes),
            "iou": {name: _defined(iou) for name, iou in zip(self.classes, scores.iou, strict=True)},
            "accuracy": {name: _defined(one) for name, one in zip(self.classes, scores.accuracy, strict=True)},
            "pixels": dict(zip(self.classes, scores.pixels, strict=True)),
            "confusion": self.measured.confusion.tolist(),
        }


_SHOWN = 5  # classes of the lowest IoU that are printed


def _defined(value: float) -> float | None:
    """Return None for a class that does not occur."""
    return None if math.isnan(value) else value


def evaluate_segmentation(run: RunFolder, recipe: SegmentationRecipe, device: str) -> SegmentationEvaluation:
    """Segment the test images, which are not trained on, and compare them with the label maps."""
    target = pick_device(device)
    segmenter = run.segmenter().to(target)
    splits = open_data(recipe, channels_of(segmenter))
    classes = segmenter.card.labels or splits.test.classes
    if classes != splits.test.classes:
        raise UserError(
            f"{recipe.data} has other classes than the model",
            expected=", ".join(classes),
            got=", ".join(splits.test.classes),
        )
    options = inference_options(recipe)
    measured = HeldOutLabels(splits.test, recipe.batch_size, options).measure(segmenter, "float32")
    return SegmentationEvaluation(segmenter, classes, measured, splits.test, options, skipped_lines(splits.skipped))
