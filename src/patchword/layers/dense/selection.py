"""From predictions at many boxes to a few: thresholds, non-maximum suppression and the best ones, in fixed shapes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from patchword.core.geometry.objects import Detections, take
from patchword.core.tracing import may_depend_on_values
from patchword.kernels.nms import nms
from patchword.layers.dense.box_coder import BoxCoder
from patchword.layers.dense.dense_head import DenseOutput


@dataclass(frozen=True)
class Selection:
    """Which boxes remain.

    max_boxes: most boxes per image. nms_threshold: IoU above which a box is dropped for a better one.
    pre_nms_per_level: most anchors of each level that are considered, best first.
    score_threshold: probability that a class must exceed. min_size: least width and height of a box in pixels.
    max_candidates: most pairs of box and class per image that enter non-maximum suppression, best first. If fewer than
        `max_boxes` of them remain, more candidates could add results of lower scores.
    sqrt_score: the score with a centerness is the square root of the product (the code of ATSS's authors), not the
        product itself (mmdet).
    rank_pairs: a one-stage detector considers the best pairs of anchor and class of each level (torchvision,
        detectron2), not all classes of the anchors with the best class (mmdet).
    """

    max_boxes: int
    nms_threshold: float
    pre_nms_per_level: int = 1000
    score_threshold: float = 0.0
    min_size: float = 0.0
    max_candidates: int = 4096
    sqrt_score: bool = False
    rank_pairs: bool = False


class Proposals(NamedTuple):
    """Boxes that may hold an object: (batch, boxes, 4), with scores and validity (batch, boxes)."""

    boxes: Tensor
    scores: Tensor
    valid: Tensor


class _Best(NamedTuple):
    """The best anchors of each level. indices: of the anchors. level: of the pyramid. Both (batch, boxes)."""

    indices: Tensor
    level: Tensor


def select_proposals(
    output: DenseOutput, anchors: Sequence[Tensor], coder: BoxCoder, sizes: Tensor, rule: Selection
) -> Proposals:
    """Return the best boxes of a region proposal network. Boxes of two levels do not suppress each other."""
    scores = output.logits[..., 0].sigmoid()
    best = _best_per_level(scores, output.counts, rule.pre_nms_per_level)
    scores = scores.gather(1, best.indices)
    boxes = coder.decode(torch.cat(list(anchors))[best.indices], take(output.deltas, best.indices), sizes)
    valid = _large(boxes, rule.min_size)
    keep = nms(boxes, scores, valid, rule.nms_threshold, best.level)
    top = scores.masked_fill(~keep, -1).topk(min(rule.max_boxes, scores.shape[1]), dim=1)
    return Proposals(take(boxes, top.indices), top.values, keep.gather(1, top.indices))


def select_from_anchors(
    output: DenseOutput, anchors: Sequence[Tensor], coder: BoxCoder, sizes: Tensor, rule: Selection
) -> Detections:
    """Return the detections of a one-stage detector. Anchors are ranked by their best class, times centerness."""
    scores = output.logits.sigmoid()
    central = None if output.centerness is None else output.centerness.sigmoid()
    if rule.rank_pairs:
        return _select_pairs(output, torch.cat(list(anchors)), coder, sizes, rule, _ranked(scores, rule, central))
    ranked = scores.amax(dim=-1) if central is None else scores.amax(dim=-1) * central
    best = _best_per_level(ranked, output.counts, rule.pre_nms_per_level)
    boxes = coder.decode(torch.cat(list(anchors))[best.indices], take(output.deltas, best.indices), sizes)
    factor = None if central is None else central.gather(1, best.indices)
    everywhere = torch.ones_like(best.indices, dtype=torch.bool)
    return select_detections(boxes[:, :, None], take(scores, best.indices), everywhere, sizes, rule, factor)


def select_detections(
    boxes: Tensor, scores: Tensor, valid: Tensor, sizes: Tensor, rule: Selection, factor: Tensor | None = None
) -> Detections:
    """Return the best pairs of box and class, after non-maximum suppression within each class.

    boxes: (batch, boxes, classes, 4), or (batch, boxes, 1, 4) if all classes share a box. valid: (batch, boxes).
    scores: (batch, boxes, classes), compared with rule.score_threshold.
    factor: (batch, boxes), multiplies the scores after that comparison (centerness).
    """
    classes = scores.shape[-1]
    ranked = _ranked(scores, rule, factor).masked_fill(~valid[..., None], -1).flatten(1)
    top = ranked.topk(min(rule.max_candidates, ranked.shape[1]), dim=1)
    labels, box = top.indices % classes, top.indices // classes
    chosen = take(boxes.flatten(1, 2), box if boxes.shape[2] == 1 else top.indices)
    return _suppress(chosen, top.values, labels, sizes, rule)


def leading_count(valid: Tensor) -> int:
    """Return how many boxes per image heads must read if valid ones come first: (batch, boxes) -> number, at least 1.

    On a CPU, those up to the last valid one of any image: heads take most of the time there. On other devices, and in
    a compiled, exported or transformed model, all of them: shapes do not depend on values, and nothing waits.
    """
    if not valid.numel() or not may_depend_on_values(valid):
        return valid.shape[1]
    return max(1, int(valid.sum(dim=1).max()))


def _select_pairs(
    output: DenseOutput, anchors: Tensor, coder: BoxCoder, sizes: Tensor, rule: Selection, ranked: Tensor
) -> Detections:
    """Return the detections of a one-stage detector among the best pairs of anchor and class of each level."""
    classes = ranked.shape[-1]
    flat = ranked.flatten(1)
    best = _best_per_level(flat, [count * classes for count in output.counts], rule.pre_nms_per_level)
    labels, anchor = best.indices % classes, best.indices // classes
    boxes = coder.decode(anchors[anchor], take(output.deltas, anchor), sizes)
    return _suppress(boxes, flat.gather(1, best.indices), labels, sizes, rule)


def _ranked(scores: Tensor, rule: Selection, factor: Tensor | None) -> Tensor:
    """Return the scores, times the factor, and -1 where the score alone is too low."""
    product = scores if factor is None else scores * factor[..., None]
    if factor is not None and rule.sqrt_score:
        product = product.sqrt()
    return product.masked_fill(~(scores > rule.score_threshold), -1)


def _suppress(boxes: Tensor, scores: Tensor, labels: Tensor, sizes: Tensor, rule: Selection) -> Detections:
    """Return the best of pairs of box and class, after non-maximum suppression. Scores below 0 are not used."""
    usable = (scores >= 0) & _large(boxes, rule.min_size)
    keep = nms(boxes, scores, usable, rule.nms_threshold, labels)
    final = scores.masked_fill(~keep, -1).topk(min(rule.max_boxes, keep.shape[1]), dim=1)
    index = final.indices
    return Detections(
        take(boxes, index), labels.gather(1, index), keep.gather(1, index), sizes, final.values.clamp(min=0)
    )


def _best_per_level(scores: Tensor, counts: Sequence[int], most: int) -> _Best:
    index, levels, start = [], [], 0
    for level, count in enumerate(counts):
        top = scores[:, start : start + count].topk(min(most, count), dim=1).indices
        index.append(top + start)
        levels.append(torch.full_like(top, level))
        start += count
    return _Best(torch.cat(index, dim=1), torch.cat(levels, dim=1))


def _large(boxes: Tensor, min_size: float) -> Tensor:
    """True where both sides are long enough."""
    return (
        (boxes[..., 2:] - boxes[..., :2]).amin(dim=-1) >= min_size
        if min_size > 0
        else torch.ones_like(boxes[..., 0]) > 0
    )
