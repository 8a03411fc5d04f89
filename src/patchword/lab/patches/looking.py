"""What a model does with one image: its prediction and all attention, as arrays with JSON beside them.

A small model answers with the attention of all queries, so that the page moves the query by itself. For a larger one
the page asks again, with the pixel of the query.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from patchword.analysis.attention.maps import NoAttentionError
from patchword.analysis.attention.relevance import relevance
from patchword.core.errors import UserError
from patchword.data.augmentation.augmentation import normalize
from patchword.data.image.image_file import decode_upload
from patchword.inspection.attention import ImageAttention, LayerAttention, look
from patchword.inspection.attention_options import PREDICTED, AttentionOptions
from patchword.inspection.attention_queries import query_maps
from patchword.layers import Pyramid
from patchword.pipelines.interface import Pipeline

MOST_PIXELS = 16_000_000  # of an image that is sent
MOST_WEIGHTS = 2_000_000  # that are sent: 8 MB
MOST_CLASSES = 20  # of the prediction


@dataclass(frozen=True)
class Wanted:
    """What is asked about an image: by default everything.

    at: only the maps and the rollout of the query at this pixel (x, y). about: only the relevance for this class.
    """

    at: tuple[int, int] | None = None
    about: int | None = None


@dataclass
class Reply:
    """JSON, and arrays by their names."""

    about: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Tensor] = field(default_factory=dict)


def answer(pipeline: Pipeline, content: bytes, wanted: Wanted) -> Reply:
    """Return what a model of images says about the bytes of an image file."""
    if not isinstance(pipeline.model, Pyramid):
        raise UserError(f"{pipeline.name} does not classify images", expected="a classifier of images")
    model, transform = pipeline.model, pipeline.transform
    image = decode_upload(content, transform.format.channels, MOST_PIXELS)
    pixels = transform.pixels(image)
    if wanted.at is not None:
        options = AttentionOptions(at=wanted.at, relevance="")
        return _maps(look(model, pixels[None], options))
    if wanted.about is not None:
        return _relevance(pipeline, model, pixels, wanted.about)
    return _everything(pipeline, model, image, pixels)


def _everything(pipeline: Pipeline, model: Pyramid, image: Image.Image, pixels: Tensor) -> Reply:
    reply = _prediction(pipeline, image)
    reply.arrays["pixels"] = pixels
    try:
        found = look(model, pixels[None], AttentionOptions(relevance=PREDICTED if pipeline.labels else ""))
    except NoAttentionError as error:
        reply.about |= {"layers": [], "reason": f"{model.card.model} has no attention: {error.hint}."}
        return reply
    maps = _maps(found)
    reply.arrays |= maps.arrays
    reply.about |= {"layers": [_layer(layer) for layer in found.layers], "cell": list(found.cell)}
    if found.relevance is not None:
        reply.arrays["relevance"] = found.relevance
        reply.about["relevance"] = found.about
    if _weights(found.layers) <= MOST_WEIGHTS:
        every = query_maps(model, pixels)
        reply.arrays |= {f"weights.{layer.number}": one for layer, one in zip(found.layers, every.layers, strict=True)}
        reply.arrays["rollouts"] = every.rollout
    return reply


def _prediction(pipeline: Pipeline, image: Image.Image) -> Reply:
    """Return the most probable classes, best first; none without a trained head."""
    labels = pipeline.labels
    top: list[list[Any]] = []
    if labels:
        (prediction,) = pipeline(image, top=min(MOST_CLASSES, len(labels)))
        top = [[label, probability] for label, probability in prediction.classes]
    return Reply({"model": pipeline.model.card.model, "labels": list(labels), "top": top})


def _maps(found: ImageAttention) -> Reply:
    arrays = {f"maps.{layer.number}": layer.maps for layer in found.layers}
    arrays |= {f"distance.{layer.number}": layer.distance for layer in found.layers}
    assert found.rollout is not None, "it was asked for"
    return Reply({}, {**arrays, "rollout": found.rollout})


def _layer(layer: LayerAttention) -> dict[str, Any]:
    heads, rows, columns = layer.maps.shape
    size = {"heads": heads, "rows": rows, "columns": columns, "cell": list(layer.cell)}
    return {"number": layer.number, "stage": layer.stage, **size, "fromToken": layer.from_token}


def _weights(layers: Sequence[LayerAttention]) -> int:
    """Return how many weights all queries have; leading tokens are few."""
    return sum(len(layer.maps) * layer.maps[0].numel() ** 2 for layer in layers)


def _relevance(pipeline: Pipeline, model: Pyramid, pixels: Tensor, number: int) -> Reply:
    labels = pipeline.labels
    if number >= len(labels):
        raise UserError("the model has no such class", expected=f"0 to {len(labels) - 1}", got=number)
    inputs = normalize(pixels[None].to(pipeline.device), model.card.normalization)
    found = relevance(model, inputs, torch.tensor([number]))[0]
    return Reply({"relevance": labels[number]}, {"relevance": found})
