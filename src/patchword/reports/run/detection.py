"""The report of a detector: average precision, curves, confused classes, and images with their errors."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

from torch import nn

from patchword.layers.model import ModuleWithCard
from patchword.objectives.metrics.detection.average_precision import AveragePrecision
from patchword.objectives.metrics.detection.errors import best_threshold, find_errors
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.reports.detection.cost import cost_section
from patchword.reports.detection.images import Drawable, examples_section, worst_section
from patchword.reports.detection.sections import (
    ap_section,
    class_section,
    confusion_section,
    curves_section,
    percentage,
)
from patchword.reports.plots import figures, page
from patchword.reports.plots.detection_figures import training_curve
from patchword.reports.plots.numbers import amount, counted, duration
from patchword.reports.run.parts import Records, document, origin_section, training_summary


class DetectionResult(Drawable, Protocol):
    """The test result of a detector: objects and detections per image, and their average precision.

    masks: the average precision of masks, or None. names: file names of the images.
    """

    @property
    def model(self) -> ModuleWithCard: ...
    @property
    def boxes(self) -> AveragePrecision: ...
    @property
    def masks(self) -> AveragePrecision | None: ...


def detection_report(run: Run, found: DetectionResult) -> str:
    """Return the report of a run of detection as HTML."""
    recipe, metrics, classes = run.recipe(), run.metrics(), found.classes
    threshold, f1 = best_threshold(found.truth, found.found, len(classes))
    errors = find_errors(found.truth, found.found, len(classes), threshold)
    sections = [
        ap_section(found.boxes, found.masks),
        examples_section(found, errors),
        learning_section(metrics),
        curves_section(found.boxes, classes),
        class_section(found.boxes, found.masks, classes, errors),
        confusion_section(errors, classes),
        worst_section(found, errors),
        cost_section(found.model.card),
        origin_section(run, recipe, f"Images: {data_name(recipe)}.", found.model),
    ]
    tiles = [
        page.tile("Box AP", percentage(found.boxes.ap()), "mean of IoU 0.5 to 0.95"),
        page.tile("Box AP50", percentage(found.boxes.ap(threshold=0.5)), "IoU 0.5"),
        _third_tile(found.boxes, found.masks),
        page.tile("Best F1", percentage(f1), f"boxes with a score of at least {threshold:.2f}"),
        *_run_tiles(metrics, found.model),
    ]
    title = f"{detector_name(found.model)} on {data_name(recipe)}"
    return document(run, title, in_words(run, found), tiles, sections)


def in_words(run: Run, found: DetectionResult) -> str:
    """Return the result in one or two sentences."""
    objects = sum(int((~one.crowd).sum()) for one in found.truth)
    tested = f"{counted(len(found.truth), 'test image')} with {counted(objects, 'object')}"
    masks = "" if found.masks is None else f" and a mask AP of {percentage(found.masks.ap())}"
    lead = f"{detector_name(found.model)} reached a box AP of {percentage(found.boxes.ap())}{masks} on the {tested}"
    return f"{lead}{training_summary(run.metrics())}."


def detector_name(model: ModuleWithCard) -> str:
    """Return the name of a detector with its backbone."""
    return f"{model.card.model} with {model.card.config['backbone']}"


def data_name(recipe: Recipe) -> str:
    """Return the name of the data, without the folders above it."""
    data = str(getattr(recipe, "data", "")) or "the test data"
    return data.rstrip("/").rpartition("/")[2] or data


def learning_section(metrics: Records) -> str:
    """Draw the loss and the validation score over the epochs."""
    if not metrics:
        return page.section("Learning", page.paragraph("This run has no recorded epoch."))
    epochs = [int(record["epoch"]) for record in metrics]
    known = [name for name in metrics[-1] if name.startswith("validation_") and name != "validation_loss"]
    score = "validation_box_ap" if "validation_box_ap" in known else next(iter(known), "")
    scores = _values(metrics, score)
    best = epochs[max(range(len(scores)), key=scores.__getitem__)] if scores else epochs[-1]
    training, validation = _values(metrics, "loss"), _values(metrics, "validation_loss")
    drawn = ""
    if training and validation:
        drawn += _figure(figures.curves(epochs, training, validation, "loss", best), "loss", training)
    elif training:
        drawn += _figure(training_curve(epochs, training, "loss", "training"), "loss", training)
    if scores:
        name = score.removeprefix("validation_").replace("_", " ").replace("ap", "AP")
        values = [100 * value for value in scores]
        drawn += _figure(figures.curves(epochs, (), values, f"{name} (%)", best), name, values)
    note = "The training loss is a mean over an epoch, while the weights still change, on augmented images. "
    note += "The validation score is computed at its end; the weights of the best epoch were kept."
    return page.section("Learning", f'<div class="pair">\n{drawn}</div>\n' + page.paragraph(note, "note"))


def _values(metrics: Records, name: str) -> list[float]:
    """Return a value per epoch; none if one is missing or not finite."""
    found = [record.get(name) for record in metrics]
    values = [float(value) for value in found if isinstance(value, (int, float)) and math.isfinite(value)]
    return values if len(values) == len(metrics) else []


def _figure(svg: bytes, name: str, values: Sequence[float]) -> str:
    alternative = f"Curve of the {name} over {counted(len(values), 'epoch')}; it ends at {values[-1]:.4g}."
    return page.figure(page.embedded("svg+xml", svg), alternative, kind="card")


def _third_tile(boxes: AveragePrecision, masks: AveragePrecision | None) -> str:
    if masks is None:
        return page.tile("Box AP75", percentage(boxes.ap(threshold=0.75)), "IoU 0.75")
    return page.tile("Mask AP", percentage(masks.ap()), f"AP50 {percentage(masks.ap(threshold=0.5))}")


def _run_tiles(metrics: list[dict[str, Any]], model: nn.Module) -> list[str]:
    parameters = sum(parameter.numel() for parameter in model.parameters())
    seconds = duration(metrics[-1]["seconds"]) if metrics else "unknown"
    return [
        page.tile("Training time", seconds, counted(len(metrics), "epoch")),
        page.tile("Parameters", amount(parameters), f"exactly {parameters:,}"),
    ]
