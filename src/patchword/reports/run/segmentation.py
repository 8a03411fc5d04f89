"""The report of a segmenter: mean IoU, IoU per class, confused classes, and the worst images."""

from typing import Protocol

from torch import Tensor

from patchword.data.segmentation.records import Color
from patchword.layers.model import ModuleWithCard
from patchword.objectives.metrics.segmentation.confusion import SegmentationScores
from patchword.recipes.run import Run
from patchword.recipes.segmentation.measuring import METRIC, MeasuredLabels
from patchword.reports.plots import page
from patchword.reports.plots.numbers import amount, counted, duration
from patchword.reports.run.detection import data_name, detector_name
from patchword.reports.run.parts import best_tile, curves_section, document, origin_section, training_summary
from patchword.reports.segmentation.cost import cost_section
from patchword.reports.segmentation.overlay import colors_of
from patchword.reports.segmentation.sections import (
    Segmented,
    class_section,
    confusion_section,
    percentage,
    worst_section,
)

_NOTE = (
    "The training loss is a mean over an epoch, while the weights still change, on augmented crops, with the auxiliary "
    "head. The validation loss is the mean over the labelled pixels of whole images. The weights of the best epoch "
    "were kept."
)


class SegmentationResult(Segmented, Protocol):
    """The test result of a segmenter. colors: of the classes in the files; empty if they have none."""

    @property
    def model(self) -> ModuleWithCard: ...
    @property
    def measured(self) -> MeasuredLabels: ...
    @property
    def scores(self) -> SegmentationScores: ...
    @property
    def colors(self) -> tuple[Color, ...]: ...


def segmentation_report(run: Run, found: SegmentationResult) -> str:
    """Return the report of a run of segmentation as HTML."""
    recipe, metrics, classes, scores = run.recipe(), run.metrics(), found.classes, found.scores
    colors = colors_of(len(classes), found.colors)
    labelled: Tensor = found.measured.labelled
    sections = [
        class_section(scores, classes, colors),
        curves_section(metrics, _NOTE, METRIC),
        confusion_section(found.measured.confusion, classes),
        worst_section(found, found.measured.right, labelled, colors),
        cost_section(found.model.card),
        origin_section(run, recipe, f"Images: {data_name(recipe)}.", found.model),
    ]
    parameters = sum(parameter.numel() for parameter in found.model.parameters())
    tiles = [
        page.tile("Mean IoU", percentage(scores.mean_iou), f"mean over {counted(len(classes), 'class')}"),
        page.tile("Pixel accuracy", percentage(scores.pixel_accuracy), f"{int(labelled.sum()):,} labelled pixels"),
        page.tile("Mean accuracy", percentage(scores.mean_accuracy), "mean over the classes"),
        best_tile(metrics, METRIC),
        page.tile(
            "Training time",
            duration(metrics[-1]["seconds"]) if metrics else "unknown",
            counted(len(metrics), "epoch"),
        ),
        page.tile("Parameters", amount(parameters), f"exactly {parameters:,}"),
    ]
    name = detector_name(found.model)
    lead = f"{name} reached a mean IoU of {percentage(scores.mean_iou)} on the "
    lead += f"{counted(len(labelled), 'test image')}{training_summary(metrics)}."
    return document(run, f"{name} on {data_name(recipe)}", lead, tiles, sections)
