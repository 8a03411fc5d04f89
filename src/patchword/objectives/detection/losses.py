"""Losses of detectors, one value per element: the caller weights, sums and divides."""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.geometry.boxes import box_giou


def focal_loss(logits: Tensor, labels: Tensor, *, gamma: float, alpha: float) -> Tensor:
    """Return the sigmoid focal loss of each class: (..., classes), (...) -> (..., classes) (Lin et al., 2017).

    labels: 0 .. classes - 1; any other number means background. The loss is -a (1 - p)^gamma log(p), where p is the
    probability given to the binary target and a is alpha for the labelled class and 1 - alpha for the others.
    """
    positive = labels[..., None] == torch.arange(logits.shape[-1], device=logits.device)
    right = torch.where(positive, logits, -logits)
    weight = torch.where(positive, alpha, 1 - alpha) * torch.sigmoid(-right) ** gamma
    return -weight * F.logsigmoid(right)


def giou_loss(boxes: Tensor, targets: Tensor) -> Tensor:
    """Return 1 - GIoU of each pair: (..., 4), (..., 4) -> (...)."""
    return 1 - box_giou(boxes, targets)
