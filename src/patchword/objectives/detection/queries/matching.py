"""Which query learns which object: one query per object, with the smallest total cost (Carion et al., 2020)."""

import numpy as np
import torch
from torch import Tensor

from patchword.core.geometry.boxes import pairwise_giou
from patchword.objectives.detection.queries.hungarian import Floats, Integers, minimal_assignment, minimal_assignments


def match(costs: Tensor, valid: Tensor) -> Tensor:
    """Return the query of each object, (layers, batch, objects); -1 for padding, and for an object without a query.

    costs: (layers, batch, queries, objects). valid: (batch, objects), False for padding.
    Everything is copied to the host at once, and the result is copied back at once, so that a GPU waits only once.
    An image with non-finite costs gets any queries: its predictions make the loss non-finite anyway (`mark_nonfinite`).
    """
    if torch.compiler.is_compiling():  # the compiler would trace numpy's loops; it is not imported otherwise
        found: Tensor = torch.compiler.disable(_match)(costs, valid)
        return found
    return _match(costs, valid)


@torch.no_grad()
def _match(costs: Tensor, valid: Tensor) -> Tensor:
    layers, batch, queries, objects = costs.shape
    packed = torch.cat([costs.flatten(), valid.to(costs.dtype).flatten()]).cpu().double().numpy()
    matrices = packed[: costs.numel()].reshape(layers * batch, queries, objects).swapaxes(1, 2)
    present = np.tile(packed[costs.numel() :].reshape(batch, objects) > 0, (layers, 1))
    counts = present.sum(axis=1)
    found = np.full((layers * batch, objects), -1, dtype=np.int64)
    crowded = np.nonzero(
        (counts > queries) | ~np.isfinite(np.where(present[..., None], matrices, 0.0)).all(axis=(1, 2))
    )
    for number in crowded[0]:
        found[number, present[number]] = _queries(matrices[number][present[number]])
    others = np.setdiff1d(np.arange(len(found)), crowded[0])
    order = np.argsort(~present[others], axis=1, kind="stable")  # objects before padding
    sorted_costs = np.take_along_axis(matrices[others], order[..., None], axis=1)
    solved = minimal_assignments(sorted_costs[:, : counts.max(initial=0)], counts[others])
    padded = np.pad(solved, ((0, 0), (0, objects - solved.shape[1])), constant_values=-1)
    found[others[:, None], order] = padded
    return torch.from_numpy(found.reshape(layers, batch, objects)).to(costs.device)


def _queries(costs: Floats) -> Integers:
    """Return the query of each object if there are more objects than queries, or non-finite costs."""
    if np.isfinite(costs).all():
        return minimal_assignment(costs)
    order = np.arange(costs.shape[0])
    return np.where(order < costs.shape[1], order, -1)


def mark_nonfinite(loss: Tensor, costs: Tensor) -> Tensor:
    """Return the loss, or NaN if a cost is not finite. It has no effect on the gradients of a finite loss."""
    return loss + 0.0 * costs.detach().sum().to(loss.dtype)


def softmax_cost(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -probability of the class of each object: (layers, batch, queries, classes + 1), (batch, objects) ->
    (layers, batch, queries, objects)."""
    return -_of_labels(logits.softmax(dim=-1), labels)


def focal_cost(logits: Tensor, labels: Tensor, gamma: float = 2.0, alpha: float = 0.25, eps: float = 1e-12) -> Tensor:
    """Return the focal loss of the class of each object minus that of its absence, for logits of a sigmoid:
    (layers, batch, queries, classes), (batch, objects) -> (layers, batch, queries, objects)."""
    found = _of_labels(logits, labels).sigmoid()
    present = alpha * (1 - found).pow(gamma) * -(found + eps).log()
    absent = (1 - alpha) * found.pow(gamma) * -(1 - found + eps).log()
    return present - absent


def l1_cost(boxes: Tensor, targets: Tensor) -> Tensor:
    """Return the sum of the absolute differences of each pair: (layers, batch, queries, 4), (batch, objects, 4) ->
    (layers, batch, queries, objects). DETR passes centers and sizes, Sparse R-CNN corners, both relative."""
    return (boxes[..., :, None, :] - targets[..., None, :, :]).abs().sum(dim=-1)


def giou_cost(boxes: Tensor, targets: Tensor) -> Tensor:
    """Return -GIoU of each pair of boxes in pixels: (layers, batch, queries, 4), (batch, objects, 4) -> (layers, batch,
    queries, objects)."""
    return -pairwise_giou(boxes, targets)


def _of_labels(values: Tensor, labels: Tensor) -> Tensor:
    """Select the values of the classes of the objects."""
    index = labels[None, :, None].expand(*values.shape[:-1], labels.shape[-1])
    return values.gather(-1, index)
