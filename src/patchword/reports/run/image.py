"""Writes report.html: the report of a run, from the result to the commands that repeat it."""

from typing import Any

from patchword.analysis.cost import count
from patchword.data.image.images import Images
from patchword.layers import Model
from patchword.objectives.metrics.classification import Scores
from patchword.objectives.metrics.quality import Quality
from patchword.recipes.image.evaluation import ImageEvaluation
from patchword.recipes.image.recipe import ImageRecipe
from patchword.recipes.run import Run
from patchword.recipes.schema.recipe import Recipe
from patchword.reports.comparison.robustness import robustness_section
from patchword.reports.landscape.saved import landscape_section
from patchword.reports.landscape.sharpness import sharpness_section
from patchword.reports.plots import page
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.attention import attention_section
from patchword.reports.run.balance import balance_section
from patchword.reports.run.class_results import class_section, confusion_section, errors_section
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import (
    best_tile,
    curves_section,
    document,
    expectation,
    origin_section,
    run_tiles,
    skipped_section,
    training_summary,
)
from patchword.reports.run.quality_sections import calibration_section, result_section, threshold_section


def image_report(run: Run, found: ImageEvaluation) -> str:
    """Return the report of a run on images as HTML."""
    return report(run, found.quality, found.images, found.model)


def report(run: Run, quality: Quality, images: Images, model: Model) -> str:
    """Return the report of an image classifier as HTML."""
    recipe, metrics, scores = run.image_recipe(), run.metrics(), quality.scores
    sections = [
        result_section(quality),
        curves_section(metrics, _note(recipe)),
        confusion_section(scores),
        class_section(scores),
        threshold_section(quality),
        errors_section(scores, images),
        calibration_section(quality),
        attention_section(model, scores, images),
        robustness_section(run, model, images),
        sharpness_section(run),
        landscape_section(run),
        balance_section(run, recipe, "images"),
        skipped_section(run),
        cost_section(model.card),
        origin_section(run, recipe, f"Images: {images.name}, from {images.origin}.", model),
    ]
    right = int((scores.predictions == scores.labels).sum())
    tiles = [
        page.tile("Test accuracy", percent(scores.accuracy), f"{right:,} of {len(scores.labels):,}"),
        page.tile("Test loss", f"{scores.loss:.4f}", "cross-entropy (nats)"),
        best_tile(metrics, "accuracy"),
        *run_tiles(metrics, count(model.card), "image"),
    ]
    title = f"{recipe.model.name} on {images.name}"
    return document(run, title, in_words(recipe, scores, images, metrics), tiles, sections)


def in_words(recipe: Recipe, scores: Scores, images: Images, metrics: list[dict[str, Any]]) -> str:
    """Return the result in one or two sentences."""
    tested = counted(len(scores.labels), "test image")
    lead = f"{recipe.model.name} reached an accuracy of {percent(scores.accuracy)} on the {tested} of {images.name}"
    return f"{lead}{training_summary(metrics)}.{expectation(recipe, scores.accuracy)}"


def _note(recipe: ImageRecipe) -> str:
    """Return why training values can be worse than validation values."""
    note = "Training values are means over an epoch, while the weights still change"
    note += ", on augmented images" if recipe.augmentation.parts() else ""
    note += ", with smoothed labels" if recipe.label_smoothing else ""
    note += ", with larger weights for rare classes" if recipe.class_weights == "balanced" else ""
    note += ", with every class equally often" if recipe.sampling == "balanced" else ""
    return f"{note}; validation values are computed at its end, on images that are not in the training data."
