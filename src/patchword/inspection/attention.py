"""Attention of an image model over one image or many: maps per layer and head, rollout, relevance, distances."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from patchword.analysis.attention.distance import distances
from patchword.analysis.attention.geometry import Cell, Geometry, token_at
from patchword.analysis.attention.maps import Layer, layers, patches, readout_row, require_attention
from patchword.analysis.attention.relevance import relevance
from patchword.analysis.attention.rollout import on_tokens, rollout_rows
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.inspection.attention_options import (
    PREDICTED,
    AttentionOptions,
    chosen_heads,
    chosen_layers,
    class_number,
)
from patchword.layers import Pyramid
from patchword.recipes.text.inference.outputs import Advance, ignore_progress

BATCH = 16


@dataclass(frozen=True)
class LayerAttention:
    """The attention of one layer, averaged over the images. weights: of all query-key pairs, if requested."""

    number: int  # counted from 1, as are the heads
    stage: int
    heads: tuple[int, ...]  # the requested ones
    maps: Tensor  # (heads, rows, columns): attention maps
    distance: Tensor  # (heads,) mean attention distance in pixels
    cell: Cell
    weights: Tensor | None = None  # (heads, queries, keys)
    from_token: bool = False  # whether the query is a leading token, which has no place in the image


@dataclass(frozen=True)
class ImageAttention:
    """The attention of a model over one image, or averaged over several. pixels: the image, or the mean image."""

    model: str
    pixels: Tensor  # (channels, height, width) uint8
    images: int
    asker: str  # in words
    layers: tuple[LayerAttention, ...]
    cell: Cell  # of the two maps below
    rollout: Tensor | None = None  # (rows, columns)
    relevance: Tensor | None = None
    about: str = ""  # the class that the relevance is about
    at: tuple[int, int] | None = None  # column and row of the query pixel
    prediction: str = ""  # the class of a single image, with its probability


@dataclass
class _Sums:
    """Running sums over the images."""

    count: int = 0
    pixels: Tensor | float = 0.0
    rollout: Tensor | float = 0.0
    relevance: Tensor | float = 0.0
    maps: dict[int, Tensor] = field(default_factory=dict)
    distance: dict[int, Tensor] = field(default_factory=dict)
    weights: dict[int, Tensor] = field(default_factory=dict)
    predicted: list[int] = field(default_factory=list)
    logits: Tensor | None = None  # of the first image


def look(
    model: Pyramid, pixels: Sequence[Tensor] | Tensor, question: AttentionOptions, advance: Advance = ignore_progress
) -> ImageAttention:
    """Compute attention maps. The model must be in evaluation mode.

    pixels: (images, channels, height, width) uint8, as one tensor or in batches
    """
    device, geometry, sums = next(model.parameters()).device, Geometry(model), _Sums()
    chosen: list[tuple[int, Layer]] = []
    for batch in _batches(pixels):
        inputs = normalize(batch.to(device), model.card.normalization)
        found = layers(model, inputs, geometry)
        require_attention(model, found)
        chosen = list(chosen_layers(found, question))
        if sums.logits is None:
            sums.logits = _logits(model, inputs[:1])
        sums.count += len(batch)
        sums.pixels = sums.pixels + batch.double().sum(0)
        for number, layer in chosen:
            _add(sums, number, layer, geometry, _asker(question, layer, batch).to(device), bool(question.layers))
        if question.rollout:
            rows = rollout_rows(found, geometry, _asker(question, found[-1], batch).to(device))
            sums.rollout = sums.rollout + patches(rows, found[0].grid)[:, 0].sum(0).cpu()
        if question.relevance:
            classes = _classes(model, inputs, question.relevance)
            sums.predicted += classes.tolist()
            sums.relevance = sums.relevance + relevance(model, inputs, classes, geometry).sum(0).cpu()
        first = found[0].cell
        advance(len(batch))
    if not sums.count:
        raise UserError("there are no images to inspect", expected="one or more")
    return _result(model, sums, question, chosen, first)


def _batches(pixels: Sequence[Tensor] | Tensor) -> Iterator[Tensor]:
    for part in [pixels] if isinstance(pixels, Tensor) else pixels:
        yield from part.split(BATCH)


def _asker(question: AttentionOptions, layer: Layer, pixels: Tensor) -> Tensor:
    """Return the weights of the query tokens, (1, 1, queries)."""
    if question.at is None:
        return readout_row(layer.grid)
    column, row = question.at
    height, width = pixels.shape[-2:]
    if not (0 <= row < height and 0 <= column < width):
        expected = f"x from 0 to {width - 1} and y from 0 to {height - 1}, in the image size of the model"
        raise UserError("the pixel is outside of the image", expected=expected, got=f"{column},{row}")
    asking = torch.zeros(1, 1, layer.grid.tokens)
    asking[..., token_at((row, column), layer.grid, layer.cell)] = 1
    return asking


def _add(sums: _Sums, number: int, layer: Layer, geometry: Geometry, asking: Tensor, whole: bool) -> None:
    keys = layer.attended_by(asking)[:, :, 0]
    on_map = patches(on_tokens(layer, keys, geometry), layer.grid).sum(0).double().cpu()
    sums.maps[number] = sums.maps.get(number, 0) + on_map
    sums.distance[number] = sums.distance.get(number, 0) + distances(layer, geometry).sum(0).double().cpu()
    if whole:
        sums.weights[number] = sums.weights.get(number, 0) + layer.summed().cpu()


def _logits(model: Pyramid, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        found: Tensor = model(inputs)[0].float().cpu()
    return found


def _prediction(model: Pyramid, sums: _Sums) -> str:
    """Return the class of a single image and its probability; empty for several images or without classes."""
    if sums.count > 1 or sums.logits is None or not model.card.config.get("classes"):
        return ""
    share, label = sums.logits.softmax(-1).max(-1)
    return f"{_name(model, int(label))} ({100 * float(share):.0f}%)"


def _name(model: Pyramid, label: int) -> str:
    return model.card.labels[label] if model.card.labels else f"class {label}"


def _classes(model: Pyramid, inputs: Tensor, name: str) -> Tensor:
    if name == PREDICTED:
        with torch.no_grad():
            predicted: Tensor = model(inputs).argmax(-1)
        return predicted
    return torch.full((len(inputs),), class_number(model, name))


def _result(
    model: Pyramid, sums: _Sums, question: AttentionOptions, chosen: Sequence[tuple[int, Layer]], cell: Cell
) -> ImageAttention:
    found = []
    for number, layer in chosen:
        heads = chosen_heads(layer, question)
        picked = torch.tensor(heads) - 1
        weights = (sums.weights[number] / sums.count)[picked] if number in sums.weights else None
        token = question.at is None and bool(layer.grid.prefix)
        mean = [(part[number] / sums.count)[picked].float() for part in (sums.maps, sums.distance)]
        found.append(
            LayerAttention(number, layer.stage + 1, tuple(heads), mean[0], mean[1], layer.cell, weights, token)
        )
    return ImageAttention(
        model.card.model,
        (torch.as_tensor(sums.pixels) / sums.count).round().to(torch.uint8).cpu(),
        sums.count,
        _who(question, {bool(layer.grid.prefix) for _, layer in chosen}),
        tuple(found),
        cell,
        torch.as_tensor(sums.rollout) / sums.count if question.rollout else None,
        torch.as_tensor(sums.relevance) / sums.count if question.relevance else None,
        _about(model, sums.predicted),
        question.at,
        _prediction(model, sums),
    )


def _who(question: AttentionOptions, has_token: set[bool]) -> str:
    if question.at is not None:
        return f"the patch at x = {question.at[0]}, y = {question.at[1]}"
    if len(has_token) > 1:
        return "[CLS] in the last stage, all patches (mean) before it"
    return "[CLS]" if True in has_token else "all patches (mean)"


def _about(model: Pyramid, predicted: Sequence[int]) -> str:
    if not predicted:
        return ""
    if len(set(predicted)) > 1:
        return "the predicted class of each image"
    return _name(model, predicted[0])
