"""Losses of RepPoints v2, one value per element: the caller weights, sums and divides."""

import torch
import torch.nn.functional as F
from torch import Tensor

_EPSILON = 1e-6  # added to the areas that IoU and GIoU divide by


def quality_focal_loss(logits: Tensor, labels: Tensor, quality: Tensor, *, beta: float) -> Tensor:
    """Return the quality focal loss of each class (Li et al., 2020): (..., classes), (...), (...) -> (..., classes).

    The target of the labelled class is the quality, that of all others 0; the binary cross-entropy is weighted by
    |target - probability|^beta. labels: 0 .. classes - 1; any other number means background.
    """
    labelled = labels[..., None] == torch.arange(logits.shape[-1], device=logits.device)
    target = torch.where(labelled, quality[..., None], 0.0).to(logits.dtype)
    distance = (target - logits.sigmoid()).abs()
    return F.binary_cross_entropy_with_logits(logits, target, reduction="none") * distance**beta


def gaussian_focal_loss(logits: Tensor, heat: Tensor, *, alpha: float, gamma: float) -> Tensor:
    """Return the focal loss of a heat map (Law and Deng, 2018): (...), (...) -> (...).

    Where heat is 1: -(1 - p)^alpha log(p). Elsewhere: -(1 - heat)^gamma p^alpha log(1 - p).
    """
    positive = -(torch.sigmoid(-logits) ** alpha) * F.logsigmoid(logits)
    negative = -((1 - heat) ** gamma) * torch.sigmoid(logits) ** alpha * F.logsigmoid(-logits)
    return torch.where(heat == 1, positive, negative)


def semantic_focal_losses(logits: Tensor, positive: Tensor, *, gamma: float, alpha: float) -> Tensor:
    """Return the focal loss of binary targets (Lin et al., 2017): (...), (...) -> (...)."""
    right = torch.where(positive, logits, -logits)
    weight = torch.where(positive, alpha, 1 - alpha) * torch.sigmoid(-right) ** gamma
    return -weight * F.logsigmoid(right)


def widened_giou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """Return 1 - GIoU of boxes whose sides are one longer, as in the authors' code: (..., 4), (..., 4) -> (...).

    They divide boxes by four strides, so that a side that is one longer is four cells longer.
    """
    inner = torch.minimum(boxes[..., 2:], targets[..., 2:]) - torch.maximum(boxes[..., :2], targets[..., :2])
    outer = torch.maximum(boxes[..., 2:], targets[..., 2:]) - torch.minimum(boxes[..., :2], targets[..., :2])
    overlap, enclosing = ((side + 1).clamp(min=0).prod(dim=-1) for side in (inner, outer))
    first, second = ((each[..., 2:] - each[..., :2] + 1).prod(dim=-1) for each in (boxes, targets))
    union, enclosing = first + second - overlap + _EPSILON, enclosing + _EPSILON
    return 1 - overlap / union + (enclosing - union) / enclosing
