"""Dropout whose random numbers cost little in a compiled model on a GPU."""

import torch
from torch import Tensor, nn

from patchword.kernels.mixed import lowest_kept, mixed, seeds_on

_LARGEST = 2**31  # places that a number of 32 bits tells apart


class Dropout(nn.Dropout):
    """torch's own, but in a model that is compiled for a GPU.

    There torch draws four numbers for each that is read, which takes longer than all else that is done with it. Here
    its place and two drawn numbers are mixed, and the gradient mixes them again instead of reading a mask.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        fits = tokens.is_cuda and tokens.numel() < _LARGEST and not self.inplace
        if fits and self.training and 0 < self.p < 1 and torch.compiler.is_compiling():
            return dropped(tokens, self.p)
        return super().forward(tokens)


def dropped(tokens: Tensor, rate: float) -> Tensor:
    """Zero at this rate, else scaled so that the mean stays."""
    kept = mixed(tokens.shape, seeds_on(tokens.device)) >= lowest_kept(rate)
    return torch.where(kept, tokens * (1 / (1 - rate)), 0.0)
