"""Attention of a detector with queries: what each query attended to, and the box it became."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchword.analysis.attention.geometry import Cell, token_at
from patchword.core.errors import UserError
from patchword.core.geometry.boxes import clip_boxes
from patchword.core.grid import Grid
from patchword.data.detection.collate import collate, normalize_padded
from patchword.data.detection.samples import Sample
from patchword.data.detection.transforms.draws import SampleDraws
from patchword.data.image.image_file import read_image
from patchword.inspection.attention_options import AttentionOptions
from patchword.layers.attention.recording import record_attention
from patchword.layers.dense.detector import Detector
from patchword.layers.dense.queries.box_forms import to_corners, to_pixels
from patchword.layers.dense.queries.detr import Detr, QueryOutput
from patchword.models.numbering import index_of
from patchword.recipes.dense.backbones import channels_of
from patchword.recipes.detection.inference import resizing

MOST = 6  # queries that are shown

Box = list[float]


@dataclass(frozen=True)
class QueryAttention:
    """The cross-attention of one query. number: from 1. label: class number. weights: (rows, columns) over the map.

    box: x1, y1, x2, y2 in pixels of the resized image.
    """

    number: int
    label: int
    name: str
    score: float
    box: Box
    weights: Tensor


@dataclass(frozen=True)
class ObjectAttention:
    """The attention of a detector over one image. pixels: (channels, height, width) uint8, as the detector reads it.

    layer: number of the decoder layer, or of the encoder layer with `at`. layers: how many there are.
    heads: those whose mean is shown. cell: height and width of a cell of the map in pixels.
    all_heads: how many heads there are. queries: the best ones, best first.
    at: a point, as x and y in pixels, whose self-attention in the encoder is `point`, (rows, columns); then there are
        no queries.
    """

    model: str
    pixels: Tensor
    layer: int
    layers: int
    heads: tuple[int, ...]
    all_heads: int
    cell: Cell
    queries: tuple[QueryAttention, ...] = ()
    at: tuple[int, int] | None = None
    point: Tensor | None = None


def object_attention(detector: Detector, image: Path, question: AttentionOptions) -> ObjectAttention:
    """Compute the attention of the best queries over an image, or that of a point in the encoder.

    The detector must be in evaluation mode. By default the last layer and the mean of all heads are taken.
    """
    if not isinstance(detector, Detr):
        raise UserError(f"{detector.card.model!r} has no queries that attend", expected="a detector with queries: detr")
    device, sample = next(detector.parameters()).device, _sample(detector, image)
    pixels, targets = collate([sample])
    sizes = targets.sizes.to(device)
    inputs = normalize_padded(pixels.to(device), sizes, detector.card.normalization)
    with torch.no_grad():
        levels = detector.features(inputs)
        with record_attention(detector) as maps:
            output = detector.predict(detector.decode(levels, sizes)[-1:])
    grid = Grid(levels[0].shape[-2], levels[0].shape[-1])
    start, end = ("encoder.", ".attention.sublayer") if question.at else ("decoder.", ".memory.sublayer")
    chosen = [one.weights[0] for one in maps if one.layer.startswith(start) and one.layer.endswith(end)]
    number, heads = _layer(question, len(chosen)), _heads(question, chosen[0].shape[0])
    weights = chosen[number - 1][[head - 1 for head in heads]].mean(0).float().cpu()
    found = ObjectAttention(
        detector.card.model,
        sample.pixels,
        number,
        len(chosen),
        heads,
        chosen[0].shape[0],
        (pixels.shape[-2] / grid.height, pixels.shape[-1] / grid.width),
    )
    on_map = weights.unflatten(1, (grid.height, grid.width))
    if question.at is not None:
        _check_point(question.at, sample.size)
        row = token_at((question.at[1], question.at[0]), grid, found.cell)
        return replace(found, at=question.at, point=on_map[row])
    return replace(found, queries=_best_queries(detector, output, sizes, on_map))


def _sample(detector: Detector, image: Path) -> Sample:
    """Read an image and resize it as the detector expects it."""
    channels = channels_of(detector)
    array = np.array(read_image(image, channels))
    pixels = torch.from_numpy(array.reshape(*array.shape[:2], channels)).permute(2, 0, 1).contiguous()
    none = torch.zeros(0, 4), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.bool)
    return resizing(detector)(Sample(pixels, *none, None, array.shape[:2]), SampleDraws(0, 0, 0))


def _layer(question: AttentionOptions, count: int) -> int:
    """Return the number of the layer: the last one by default."""
    if len(question.layers) > 1:
        raise UserError("the attention of queries is drawn of one layer", expected="one --layer", got=question.layers)
    return index_of("layer", question.layers[0] if question.layers else -1, count) + 1


def _heads(question: AttentionOptions, count: int) -> tuple[int, ...]:
    for head in question.heads:
        if not 1 <= head <= count:
            raise UserError(f"there is no head {head}", expected=f"1 to {count}", got=head)
    return tuple(sorted(set(question.heads))) or tuple(range(1, count + 1))


def _check_point(at: tuple[int, int], size: tuple[int, int]) -> None:
    height, width = size
    if not (0 <= at[1] < height and 0 <= at[0] < width):
        expected = f"x from 0 to {width - 1} and y from 0 to {height - 1}, in the resized image"
        raise UserError("the pixel is outside of the image", expected=expected, got=f"{at[0]},{at[1]}")


def _best_queries(detector: Detr, output: QueryOutput, sizes: Tensor, weights: Tensor) -> tuple[QueryAttention, ...]:
    """Return the queries with the highest scores. weights: (queries, rows, columns)"""
    scores, labels = output.logits[0, 0].softmax(-1)[:, :-1].max(-1)
    boxes = clip_boxes(to_pixels(to_corners(output.boxes[0]), sizes), sizes)[0].tolist()
    names = detector.card.labels or tuple(f"class {number}" for number in range(detector.card.config["classes"]))
    return tuple(
        QueryAttention(
            query + 1, int(labels[query]), names[int(labels[query])], float(scores[query]), boxes[query], weights[query]
        )
        for query in scores.topk(min(MOST, len(scores))).indices.tolist()
    )
