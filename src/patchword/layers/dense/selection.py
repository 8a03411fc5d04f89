"""From predictions at many boxes to a few: thresholds, non-maximum suppression and the best ones, in fixed shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.geometry.objects import Detections, take
from patchword.kernels.nms import nms
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseOutput


@dataclass(frozen=True)
class Selection:
    """Which boxes remain.

    limit: most boxes per image. overlap: IoU above which a box is dropped for a better one.
    per_level: most anchors of each level that are considered, best first.
    score: least probability of a class; it must be exceeded. side: least width and height of a box in pixels.
    candidates: most pairs of box and class per image that enter non-maximum suppression, best first. If fewer than
        `limit` of them remain, more candidates could add results of lower scores.
    root: the score with a centerness is the square root of the product (the code of ATSS's authors), or the product
        itself (mmdet).
    """

    limit: int
    overlap: float
    per_level: int = 1000
    score: float = 0.0
    side: float = 0.0
    candidates: int = 4096
    root: bool = False


class Proposals(NamedTuple):
    """Boxes that may hold an object: (batch, boxes, 4), with scores and validity (batch, boxes)."""

    boxes: Tensor
    scores: Tensor
    valid: Tensor


class _Best(NamedTuple):
    """The best anchors of each level. places: their indices. level: of the pyramid. Both (batch, boxes)."""

    places: Tensor
    level: Tensor


def select_proposals(
    output: DenseOutput, anchors: Sequence[Tensor], coder: BoxCoder, sizes: Tensor, rule: Selection
) -> Proposals:
    """Return the best boxes of a region proposal network. Boxes of two levels do not suppress each other."""
    scores = output.logits[..., 0].sigmoid()
    best = _best_per_level(scores, output.counts, rule.per_level)
    scores = scores.gather(1, best.places)
    boxes = coder.decode(torch.cat(list(anchors))[best.places], take(output.deltas, best.places), sizes)
    valid = _large(boxes, rule.side)
    keep = nms(boxes, scores, valid, rule.overlap, best.level)
    top = scores.masked_fill(~keep, -1).topk(min(rule.limit, scores.shape[1]), dim=1)
    return Proposals(take(boxes, top.indices), top.values, keep.gather(1, top.indices))


def select_from_anchors(
    output: DenseOutput, anchors: Sequence[Tensor], coder: BoxCoder, sizes: Tensor, rule: Selection
) -> Detections:
    """Return the detections of a one-stage detector. Anchors are ranked by their best class, times centerness."""
    scores = output.logits.sigmoid()
    central = None if output.centerness is None else output.centerness.sigmoid()
    ranked = scores.amax(dim=-1) if central is None else scores.amax(dim=-1) * central
    best = _best_per_level(ranked, output.counts, rule.per_level)
    boxes = coder.decode(torch.cat(list(anchors))[best.places], take(output.deltas, best.places), sizes)
    factor = None if central is None else central.gather(1, best.places)
    everywhere = torch.ones_like(best.places, dtype=torch.bool)
    return select_detections(boxes[:, :, None], take(scores, best.places), everywhere, sizes, rule, factor)


def select_detections(
    boxes: Tensor, scores: Tensor, valid: Tensor, sizes: Tensor, rule: Selection, factor: Tensor | None = None
) -> Detections:
    """Return the best pairs of box and class, after non-maximum suppression within each class.

    boxes: (batch, boxes, classes, 4), or (batch, boxes, 1, 4) if all classes share a box. valid: (batch, boxes).
    scores: (batch, boxes, classes), compared with rule.score.
    factor: (batch, boxes), multiplies the scores after that comparison (centerness).
    """
    classes = scores.shape[-1]
    eligible = (scores > rule.score) & valid[..., None]
    ranked = scores if factor is None else scores * factor[..., None]
    if factor is not None and rule.root:
        ranked = ranked.sqrt()
    ranked = ranked.masked_fill(~eligible, -1).flatten(1)
    top = ranked.topk(min(rule.candidates, ranked.shape[1]), dim=1)
    labels, box = top.indices % classes, top.indices // classes
    chosen = take(boxes.flatten(1, 2), box if boxes.shape[2] == 1 else top.indices)
    usable = (top.values >= 0) & _large(chosen, rule.side)
    keep = nms(chosen, top.values, usable, rule.overlap, labels)
    final = top.values.masked_fill(~keep, -1).topk(min(rule.limit, keep.shape[1]), dim=1)
    index = final.indices
    return Detections(
        take(chosen, index), labels.gather(1, index), keep.gather(1, index), sizes, final.values.clamp(min=0)
    )


def _best_per_level(scores: Tensor, counts: Sequence[int], most: int) -> _Best:
    index, levels, start = [], [], 0
    for level, count in enumerate(counts):
        top = scores[:, start : start + count].topk(min(most, count), dim=1).indices
        index.append(top + start)
        levels.append(torch.full_like(top, level))
        start += count
    return _Best(torch.cat(index, dim=1), torch.cat(levels, dim=1))


def _large(boxes: Tensor, side: float) -> Tensor:
    """True where both sides are long enough."""
    return (boxes[..., 2:] - boxes[..., :2]).amin(dim=-1) >= side if side > 0 else torch.ones_like(boxes[..., 0]) > 0
