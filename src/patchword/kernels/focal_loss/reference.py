"""The sigmoid focal loss in plain PyTorch: the reference of the kernel, and what runs where there is none."""

import torch
import torch.nn.functional as F
from torch import Tensor


def focal_loss_reference(logits: Tensor, labels: Tensor, gamma: float, alpha: float) -> Tensor:
    """(..., classes), (...) -> (..., classes)"""
    positive = labels[..., None] == torch.arange(logits.shape[-1], device=logits.device)
    right = torch.where(positive, logits, -logits)
    weight = torch.where(positive, alpha, 1 - alpha) * torch.sigmoid(-right) ** gamma
    return -weight * F.logsigmoid(right)
