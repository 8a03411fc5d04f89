"""The report of masked image modelling: curves, and images that the model reconstructs."""

from typing import cast

from torch import Tensor

from patchword.analysis.cost import count
from patchword.recipes.image_pretraining.evaluation import ImagePretrainingEvaluation
from patchword.recipes.image_pretraining.recipe import ImagePretrainingRecipe
from patchword.recipes.image_pretraining.reconstruction import METRIC, Examples
from patchword.recipes.run import Run
from patchword.reports.plots import page, png
from patchword.reports.plots.numbers import counted, percent
from patchword.reports.run.costs import cost_section
from patchword.reports.run.parts import (
    best_tile,
    curves_section,
    document,
    expectation,
    origin_section,
    run_tiles,
    training_summary,
)

_NOTE = (
    "The loss is the mean absolute error of normalized pixels, over masked patches only. The error reduction is "
    "1 - loss / loss of the mean pixel: 0% is a model that predicts the mean pixel everywhere. Training values are "
    "means over an epoch, while the weights still change; validation values are computed at its end, on images that "
    "are not in the training data, with the same masks in every epoch."
)


def image_pretraining_report(run: Run, found: ImagePretrainingEvaluation) -> str:
    """Return the report as HTML."""
    recipe, metrics = cast(ImagePretrainingRecipe, run.recipe()), run.metrics()
    measures, images, model = found.measures, found.images, found.model
    sections = [
        curves_section(metrics, _NOTE, METRIC, "L1 loss of masked pixels"),
        reconstruction_section(found.examples, recipe.mask_ratio),
        cost_section(model.card),
        origin_section(run, recipe, f"Images: {images.name}, from {images.origin}.", model),
    ]
    tiles = [
        page.tile("Test loss", f"{measures['loss']:.4f}", "L1, normalized pixels"),
        page.tile("Loss of the mean pixel", f"{measures['mean_pixel_loss']:.4f}", "the baseline"),
        page.tile("Test error reduction", percent(measures[METRIC]), "against the mean pixel"),
        best_tile(metrics, METRIC),
        *run_tiles(metrics, count(model.card), "image"),
    ]
    lead = (
        f"{recipe.model.name} predicts the masked pixels of the {counted(len(images), 'test image')} of {images.name} "
        f"with a loss of {measures['loss']:.4f}{training_summary(metrics)}; predicting the mean pixel has a loss of "
        f"{measures['mean_pixel_loss']:.4f}.{expectation(recipe, measures[METRIC])}"
    )
    return document(run, f"{recipe.model.name} on {images.name}", lead, tiles, sections)


def reconstruction_section(examples: Examples, mask_ratio: float) -> str:
    """Return the section with test images: original, masked and reconstructed, side by side."""
    about = (
        f"Test images: the original, the image with {percent(mask_ratio, 0)} of its patches masked, and the "
        "reconstruction, in which masked patches are those of the model and the other patches are the original."
    )
    shown = "".join(_example(index, *images) for index, images in enumerate(zip(*examples, strict=True)))
    return page.section("Reconstruction", page.paragraph(about) + shown)


def _example(index: int, *images: Tensor) -> str:
    figures = "".join(
        page.figure(png.address(pixels), f"Test image {index}, {name}", name, png.kind(pixels))
        for name, pixels in zip(Examples._fields, images, strict=True)
    )
    return f'<div class="strip">\n{figures}</div>\n'
