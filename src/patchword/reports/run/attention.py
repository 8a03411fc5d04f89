"""The report's section on attention: maps of a few test images, rollout and attention distance."""

import torch
from torch import Tensor

from patchword.analysis.attention.distance import distances
from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, attention_to_patches, layers
from patchword.analysis.attention.rollout import rollout
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.images import Images
from patchword.layers import Model
from patchword.objectives.metrics.classification import Scores
from patchword.reports.attention.distances import distance_figure
from patchword.reports.attention.image_figures import size_text
from patchword.reports.plots import page, png
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import percent

_IMAGES = 6
_TOKEN = (
    "How much the [CLS] token, from which the class is predicted, attends to each patch, layer by layer (mean of the "
    "heads)."
)
_MEAN = (
    "How much all patches attend to each patch, layer by layer (mean of the heads and of all patches, since the class "
    "is predicted from their mean)."
)
_STAGES = "From one stage to the next, patches become fewer and larger."
_COLOURS = (
    "Colours go from 0 (dark) to the layer's largest weight, which is written below, and follow the square root of the "
    "weight."
)
_ROLLOUT = (
    "The last image is attention rollout (Abnar and Zuidema, 2020): the product of all layers, half of each being the "
    "residual path, coloured from the smallest to the largest weight{}."
)
_SPLIT = "; the weight of a larger patch is split evenly over the patches it was made of"
_DISTANCE = (
    "Mean attention distance of each head: the distance from a patch to the patches it attends to, weighted by "
    "attention, as the mean over {} test images."
)
_MEASURED = 32  # images for the attention distance
_AT_ONCE = 8  # images per batch: the weights of all layers are in memory


def attention_section(model: Model, scores: Scores, images: Images) -> str:
    """Return the section; empty for a model without attention."""
    chosen = of_different_classes(scores.labels)
    pixels = images.pixels.take(chosen)
    device = next(model.parameters()).device
    inputs = normalize(pixels.to(device), model.card.normalization)
    geometry = Geometry(model)
    recorded = layers(model, inputs, geometry)
    if not recorded:
        return ""
    maps = [attention_to_patches(layer) for layer in recorded]
    whole = rollout(model, inputs, geometry)
    shown = [
        _heading(scores, index) + _row(pixels[place], [weights[place] for weights in maps], whole[place])
        for place, index in enumerate(chosen.tolist())
    ]
    html = page.paragraph(_about(recorded)) + "".join(shown) + _distances(model, images, geometry)
    return page.section("Attention", html)


def _distances(model: Model, images: Images, geometry: Geometry) -> str:
    """Draw the attention distance over the first test images."""
    number = min(_MEASURED, len(images))
    device = next(model.parameters()).device
    pixels = images.pixels.take(torch.arange(number))
    far = [
        [distances(layer, geometry) for layer in layers(model, normalize(part, model.card.normalization), geometry)]
        for part in pixels.to(device).split(_AT_ONCE)
    ]
    depths = [(depth, torch.cat(heads).mean(0).cpu()) for depth, heads in enumerate(zip(*far, strict=True), 1)]
    with figure_style():
        svg = drawn(distance_figure(depths, "Mean attention distance of the heads", "pixels", size_text(pixels)), "svg")
    means = ", ".join(f"layer {depth} {float(heads.mean()):.1f}" for depth, heads in depths)
    shown = page.figure(page.embedded("svg+xml", svg), f"Mean attention distance in pixels: {means}.", kind="card")
    return page.paragraph(_DISTANCE.format(number)) + shown


def _about(recorded: list[Layer]) -> str:
    """Return the explanation of the maps."""
    last = recorded[-1].grid
    staged = any(layer.grid != last for layer in recorded)
    parts = [_TOKEN if last.prefix else _MEAN, *([_STAGES] if staged else []), _COLOURS]
    return " ".join([*parts, _ROLLOUT.format(_SPLIT if staged else "")])


def of_different_classes(labels: Tensor) -> Tensor:
    """Return the first image of some classes, spread over all classes that are present."""
    present = labels.unique()
    number = min(_IMAGES, len(present))
    classes = present[torch.arange(number) * len(present) // number]
    return torch.stack([(labels == label).nonzero()[0, 0] for label in classes])


def _heading(scores: Scores, index: int) -> str:
    predicted, true = (
        page.escape(scores.classes[int(labels[index])]) for labels in (scores.predictions, scores.labels)
    )
    probability = percent(float(scores.confidence[index]), 1)
    text = f"correct, {probability}" if predicted == true else f"predicted {predicted}, {probability}"
    return f"<h3>{true} <small>{text}</small></h3>\n"


def _row(pixels: Tensor, layers: list[Tensor], whole: Tensor) -> str:
    kind = png.kind(pixels)
    shown = page.figure(png.address(pixels), "The test image", "image", kind)
    for number, weights in enumerate(layers, 1):
        caption = f"layer {number}<br><small>up to {percent(float(weights.max()), 1)}</small>"
        shown += page.figure(png.heat(weights), f"Attention of layer {number}", caption, "pixels")
    shown += page.figure(png.overlay(pixels, whole), "Attention rollout over the image", "rollout", kind)
    return f'<div class="strip">\n{shown}</div>\n'
