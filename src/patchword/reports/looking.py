"""Where the model looks: attention maps on a few test pictures."""

import torch
from torch import Tensor

from patchword.analysis.attention import class_attention, rollout
from patchword.core.errors import UserError
from patchword.data.augment import prepared
from patchword.data.images import Images
from patchword.layers import Pyramid
from patchword.objectives.scores import Scores
from patchword.reports import page, pictures
from patchword.reports.words import percent

_PICTURES = 6
_ABOUT = (
    "How much the [CLS] token, which the answer is read from, looks at each patch, layer by layer (mean of the heads; "
    "for a model without such a token, the mean over all patches). Colours go from 0 (dark) to the layer's brightest "
    "patch, whose share is written below, and follow the square root of the share. The last picture is attention "
    "rollout (Abnar and Zuidema, 2020): all layers multiplied, half of each being the residual path, coloured from the "
    "least to the most looked-at patch."
)


def attention_section(model: Pyramid, scores: Scores, images: Images) -> str:
    """Empty for a model without attention."""
    chosen = of_different_classes(scores.labels)
    pixels = images.pixels.take(chosen)
    device = next(model.parameters()).device
    inputs = prepared(pixels.to(device), model.card.preparation)
    layers = class_attention(model, inputs)
    if not layers:
        return ""
    whole = _rollout(model, inputs)
    shown = [
        _heading(scores, index) + _row(pixels[place], [layer[place] for layer in layers], whole[place : place + 1])
        for place, index in enumerate(chosen.tolist())
    ]
    return page.section("Attention", page.paragraph(_ABOUT) + "".join(shown))


def of_different_classes(labels: Tensor) -> Tensor:
    """The first picture of some classes, spread over all that are there."""
    present = labels.unique()
    number = min(_PICTURES, len(present))
    classes = present[torch.arange(number) * len(present) // number]
    return torch.stack([(labels == label).nonzero()[0, 0] for label in classes])


def _rollout(model: Pyramid, inputs: Tensor) -> Tensor:
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
