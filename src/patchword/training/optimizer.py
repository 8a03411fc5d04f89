"""AdamW, with decay on matrices only."""

import torch
from torch import nn


def adamw(model: nn.Module, rate: float, decay: float, betas: tuple[float, float] = (0.9, 0.999)) -> torch.optim.AdamW:
    """Biases, norms, leading tokens and position tables are not decayed."""
    matrices = [p for name, p in model.named_parameters() if p.requires_grad and _is_matrix(name, p)]
    others = [p for name, p in model.named_parameters() if p.requires_grad and not _is_matrix(name, p)]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=rate, betas=betas, fused=True)


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    return name.endswith("weight") and parameter.ndim >= 2
