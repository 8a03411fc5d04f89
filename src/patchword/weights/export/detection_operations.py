"""RoIAlign and non-maximum suppression as operators of ONNX.

Their references are exact, too, but multiply whole maps and hold a matrix of all pairs of boxes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from patchword.layers.dense import roi_heads, selection

_LOWEST = -1e30  # the score of a box that is not valid, or of another group
_BOOL, _FLOAT = 9, 1  # ONNX's ids of these types


@torch.library.custom_op("patchword::onnx_nms", mutates_args=())
def onnx_nms(boxes: Tensor, scores: Tensor, valid: Tensor, threshold: float) -> Tensor:
    """Greedy non-maximum suppression within each group: (batch, boxes, 4), (batch, groups, boxes) -> (batch, boxes)."""
    raise NotImplementedError("onnx_nms runs in ONNX Runtime only")


@onnx_nms.register_fake
def _(boxes: Tensor, scores: Tensor, valid: Tensor, threshold: float) -> Tensor:
    return torch.empty_like(valid)


@torch.library.custom_op("patchword::onnx_roi_align", mutates_args=())
def onnx_roi_align(
    features: Tensor, boxes: Tensor, image: Tensor, size: list[int], scale: float, aligned: bool, samples: int
) -> Tensor:
    """RoIAlign on one map: (boxes, 4) in pixels, image of each box -> (boxes, channels, *size). samples 0: adaptive."""
    raise NotImplementedError("onnx_roi_align runs in ONNX Runtime only")


@onnx_roi_align.register_fake
def _(
    features: Tensor, boxes: Tensor, image: Tensor, size: list[int], scale: float, aligned: bool, samples: int
) -> Tensor:
    return features.new_empty(boxes.shape[0], features.shape[1], *size)


def _nms(
    boxes: Tensor,
    scores: Tensor,
    valid: Tensor,
    threshold: float,
    groups: Tensor | None = None,
    rounds: object = None,
) -> Tensor:
    """Call the operator with one row of scores per group; boxes of other groups have the lowest score there.

    rounds: ignored, since the operator is exact.
    The operator orders swapped corners. In ours, a box of non-positive size suppresses nothing, so its size becomes 0.
    """
    boxes = torch.cat([boxes[..., :2], torch.maximum(boxes[..., :2], boxes[..., 2:])], dim=-1)
    scores = scores.masked_fill(~valid, _LOWEST)[:, None]
    if groups is not None:
        own = groups[:, None] == torch.arange(_groups(groups), device=groups.device)[:, None]
        scores = scores.masked_fill(~own, _LOWEST)
    found: Tensor = onnx_nms(boxes, scores, valid, threshold)
    return found


def _groups(groups: Tensor) -> int:
    """Return the number of groups that the graph has room for."""
    return _GROUPS[-1]


_GROUPS = [1]


def _roi_align(
    maps: Sequence[Tensor],
    boxes: Tensor,
    levels: Tensor,
    strides: Sequence[float],
    size: tuple[int, int],
    *,
    aligned: bool,
    samples: int | str,
) -> Tensor:
    """Call the operator on each level. A box that reads another level has no size there, which costs nothing."""
    batch, count = levels.shape
    image = torch.arange(batch, device=boxes.device)[:, None].expand(batch, count).reshape(-1)
    total: Tensor | None = None
    for level, (features, stride) in enumerate(zip(maps, strides, strict=True)):
        own = (levels == level)[..., None]
        rule = list(size), 1 / stride, aligned, samples if isinstance(samples, int) else 0
        found: Tensor = onnx_roi_align(features, (boxes * own).reshape(-1, 4), image, *rule)
        found = found * own.reshape(-1, 1, 1, 1)
        total = found if total is None else total + found
    assert total is not None, "there is at least one map"
    return total.view(batch, count, *total.shape[1:])


@contextmanager
def onnx_operators(groups: int) -> Iterator[None]:
    """Let detectors call these operators while they are traced. groups: most groups of non-maximum suppression."""
    replaced = (selection, "nms", _nms), (roi_heads, "roi_align", _roi_align)
    before = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    _GROUPS.append(groups)
    try:
        for module, name, function in replaced:
            setattr(module, name, function)
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)
        _GROUPS.pop()


def detection_translations() -> dict[Any, Callable[..., Any]]:
    """Return the translation of each operation to ONNX operators."""
    from onnxscript import opset20

    op: Any = opset20  # its types do not accept intermediate values

    def nms(boxes: Any, scores: Any, valid: Any, threshold: float) -> Any:
        most = op.Gather(op.Shape(boxes), op.Constant(value_ints=[1]))
        overlap = op.Constant(value_floats=[threshold])
        least = op.Constant(value_floats=[_LOWEST / 2])
        chosen = op.NonMaxSuppression(boxes, scores, most, overlap, least)
        place = op.Gather(chosen, op.Constant(value_ints=[0, 2]), axis=1)  # image and box, without the group
        ones = op.Gather(place, op.Constant(value_int=0), axis=1)
        ones = op.Add(op.Mul(ones, op.Constant(value_int=0)), op.Constant(value_int=1))
        empty = op.Expand(op.Constant(value_int=0), op.Shape(valid))
        return op.Cast(op.ScatterND(empty, place, ones), to=_BOOL)

    def roi_align(features: Any, boxes: Any, image: Any, size: Any, scale: float, aligned: bool, samples: int) -> Any:
        return op.RoiAlign(
            features,
            boxes,
            image,
            coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
            output_height=int(size[0]),
            output_width=int(size[1]),
            sampling_ratio=samples,
            spatial_scale=scale,
        )

    operations = torch.ops.patchword
    return {operations.onnx_nms.default: nms, operations.onnx_roi_align.default: roi_align}
