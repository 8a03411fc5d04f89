"""Stochastic depth."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from patchword.core.errors import UserError


class DropPath(nn.Module):
    """Drops the branch of a whole sample with this probability, and scales the others so that the mean stays."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise UserError("the rate of stochastic depth", expected="at least 0 and less than 1", got=rate)
        self.rate = rate

    def extra_repr(self) -> str:
        return f"rate={self.rate:.3g}"

    def forward(self, branch: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return branch
        keep = 1.0 - self.rate
        shape = (branch.shape[0],) + (1,) * (branch.ndim - 1)
        return branch * torch.empty(shape, dtype=branch.dtype, device=branch.device).bernoulli_(keep).div_(keep)


def drop_path_rates(rate: float, depths: Sequence[int]) -> list[list[float]]:
    """A rate per block of each stage: 0 for the first, `rate` for the last, linear between (Huang et al., 2016)"""
    last, rates = max(1, sum(depths) - 1), []
    for stage, depth in enumerate(depths):
        before = sum(depths[:stage])
        rates.append([rate * (before + block) / last for block in range(depth)])
    return rates
