"""LayerScale (CaiT, 2021): branches of deep models start small."""

import torch
from torch import Tensor, nn


class LayerScale(nn.Module):
    """A learned factor per channel of a branch, small at the start."""

    def __init__(self, width: int, initial: float = 1e-5) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.full((width,), initial))

    def forward(self, branch: Tensor) -> Tensor:
        return branch * self.factor
