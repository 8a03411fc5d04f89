"""Where the model looks: attention maps on a few test pictures."""

import torch
from torch import Tensor

from patchword.analysis.attention import Layer, layers, looked_at, rollout
from patchword.core.errors import UserError
from patchword.data.augment import prepared
from patchword.data.images import Images
from patchword.layers import Model
from patchword.objectives.scores import Scores
from patchword.reports import page, pictures
from patchword.reports.words import percent

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
    "The last picture is attention rollout (Abnar and Zuidema, 2020): {} multiplied, half of each being the residual "
    "path, coloured from the least to the most looked-at patch."
)


def attention_section(model: Model, scores: Scores, images: Images) -> str:
    """Empty for a model without attention."""
    chosen = of_different_classes(scores.labels)
    pixels = images.pixels.take(chosen)
    device = next(model.parameters()).device
    inputs = prepared(pixels.to(device), model.card.preparation)
    recorded = layers(model, inputs)
    if not recorded:
        return ""
    maps = [looked_at(layer) for layer in recorded]
    whole = _rollout(model, inputs)
    shown = [
        _heading(scores, index) + _row(pixels[place], [shares[place] for shares in maps], whole[place : place + 1])
        for place, index in enumerate(chosen.tolist())
    ]
    return page.section("Attention", page.paragraph(_about(recorded, len(whole) > 0)) + "".join(shown))


def _about(recorded: list[Layer], has_rollout: bool) -> str:
    """What the pictures of this model show."""
    last = recorded[-1].grid
    staged = any(layer.grid != last for layer in recorded)
    told = [_TOKEN if last.prefix else _MEAN, *([_STAGES] if staged else []), _COLOURS]
    if has_rollout:
        told.append(_ROLLOUT.format("the layers of the last stage" if staged else "all layers"))
    return " ".join(told)


def of_different_classes(labels: Tensor) -> Tensor:
    """The first picture of some classes, spread over all that are there."""
    present = labels.unique()
    number = min(_PICTURES, len(present))
    classes = present[torch.arange(number) * len(present) // number]
    return torch.stack([(labels == label).nonzero()[0, 0] for label in classes])


def _rollout(model: Model, inputs: Tensor) -> Tensor:
    """(batch, rows, columns), or nothing where the tokens of the layers cannot be followed"""
    try:
        return rollout(model, inputs)
    except UserError:
        return inputs.new_zeros(0)


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
    for weights in whole:
        shown += page.picture(pictures.overlay(pixels, weights), "Attention rollout over the picture", "rollout", kind)
    return f'<div class="strip">\n{shown}</div>\n'
