"""Where the model looks: attention maps on a few test pictures."""

import torch
from torch import Tensor

from patchword.analysis.attention.distance import distances
from patchword.analysis.attention.geometry import Geometry
from patchword.analysis.attention.maps import Layer, layers, looked_at
from patchword.analysis.attention.rollout import rollout
from patchword.data.augmentation.augmentation import prepared
from patchword.data.image.images import Images
from patchword.layers import Model
from patchword.objectives.metrics.classification import Scores
from patchword.reports.attention.distances import distance_figure
from patchword.reports.attention.image_figures import size_told
from patchword.reports.plots import page
from patchword.reports.plots import png as pictures
from patchword.reports.plots.figures import drawn, looks
from patchword.reports.plots.numbers import percent

_PICTURES = 6
_TOKEN = (
    "How much the [CLS] token, which the answer is read from, looks at each patch, layer by layer (mean of the heads)."
)
_MEAN = (
    "How much the patches look at each patch, layer by layer (mean of the heads and of all patches, since the answer "
    "is the mean of all of them)."
)
_STAGES = "From one stage to the next there are fewer and larger patches."
_COLOURS = (
    "Colours go from 0 (dark) to the layer's brightest patch, whose share is written below, and follow the square root "
    "of the share."
)
_ROLLOUT = (
    "The last picture is attention rollout (Abnar and Zuidema, 2020): all layers multiplied, half of each being the "
    "residual path, coloured from the least to the most looked-at patch{}."
)
_DEALT = "; the share of a larger patch is dealt out evenly to the patches it was made of"
_DISTANCE = (
    "How far each head looks: the distance from a patch to what it looks at, weighed by how much, over {} test "
    "pictures (mean)."
)
_MEASURED = 32  # pictures that the distances are the mean of
_AT_ONCE = 8  # of them: the weights of all layers are held at once


def attention_section(model: Model, scores: Scores, images: Images) -> str:
    """Empty for a model without attention."""
    chosen = of_different_classes(scores.labels)
    pixels = images.pixels.take(chosen)
    device = next(model.parameters()).device
    inputs = prepared(pixels.to(device), model.card.normalization)
    geometry = Geometry(model)
    recorded = layers(model, inputs, geometry)
    if not recorded:
        return ""
    maps = [looked_at(layer) for layer in recorded]
    whole = rollout(model, inputs, geometry)
    shown = [
        _heading(scores, index) + _row(pixels[place], [shares[place] for shares in maps], whole[place])
        for place, index in enumerate(chosen.tolist())
    ]
    html = page.paragraph(_about(recorded)) + "".join(shown) + _distances(model, images, geometry)
    return page.section("Attention", html)


def _distances(model: Model, images: Images, geometry: Geometry) -> str:
    """The picture of how far heads look, over the first test pictures."""
    number = min(_MEASURED, len(images))
    device = next(model.parameters()).device
    pixels = images.pixels.take(torch.arange(number))
    far = [
        [distances(layer, geometry) for layer in layers(model, prepared(part, model.card.normalization), geometry)]
        for part in pixels.to(device).split(_AT_ONCE)
    ]
    depths = [(depth, torch.cat(heads).mean(0).cpu()) for depth, heads in enumerate(zip(*far, strict=True), 1)]
    with looks():
        svg = drawn(distance_figure(depths, "", "pixels", size_told(pixels)), "svg")
    told = ", ".join(f"layer {depth} {float(heads.mean()):.1f}" for depth, heads in depths)
    shown = page.picture(page.embedded("svg+xml", svg), f"Mean attention distance in pixels: {told}.", kind="card")
    return page.paragraph(_DISTANCE.format(number)) + shown


def _about(recorded: list[Layer]) -> str:
    """What the pictures of this model show."""
    last = recorded[-1].grid
    staged = any(layer.grid != last for layer in recorded)
    told = [_TOKEN if last.prefix else _MEAN, *([_STAGES] if staged else []), _COLOURS]
    return " ".join([*told, _ROLLOUT.format(_DEALT if staged else "")])


def of_different_classes(labels: Tensor) -> Tensor:
    """The first picture of some classes, spread over all that are there."""
    present = labels.unique()
    number = min(_PICTURES, len(present))
    classes = present[torch.arange(number) * len(present) // number]
    return torch.stack([(labels == label).nonzero()[0, 0] for label in classes])


def _heading(scores: Scores, index: int) -> str:
    said, true = (page.escape(scores.classes[int(answers[index])]) for answers in (scores.predictions, scores.labels))
    sure = percent(float(scores.confidence[index]), 1)
    told = f"recognised, {sure} sure" if said == true else f"taken for {said}, {sure} sure"
    return f"<h3>{true} <small>{told}</small></h3>\n"


def _row(pixels: Tensor, layers: list[Tensor], whole: Tensor) -> str:
    kind = pictures.kind(pixels)
    shown = page.picture(pictures.address(pixels), "The test picture", "picture", kind)
    for number, weights in enumerate(layers, 1):
        caption = f"layer {number}<br><small>up to {percent(float(weights.max()), 1)}</small>"
        shown += page.picture(pictures.heat(weights), f"Attention of layer {number}", caption, "pixels")
    shown += page.picture(pictures.overlay(pixels, whole), "Attention rollout over the picture", "rollout", kind)
    return f'<div class="strip">\n{shown}</div>\n'
