"""Dropout whose random numbers cost little in a compiled model on a GPU."""

import torch
from torch import Tensor, nn

from patchword.kernels.common.availability import is_exporting
from patchword.kernels.common.counter_rng import lowest_kept, mixed, seeds_on
from patchword.layers.drop_path import DropPath
from patchword.layers.watched import has_hooks

_LARGEST = 2**31  # places that a number of 32 bits tells apart


class Dropout(nn.Dropout):
    """torch's own, but in a model that is compiled for a GPU.

    There torch draws four numbers for each that is read, which takes longer than all else that is done with it. Here
    its place and two drawn numbers are mixed, and the gradient mixes them again instead of reading a mask.
    """

    def forward(self, tokens: Tensor) -> Tensor:
        drops = self.training and 0 < self.p < 1 and not self.inplace
        if drops and torch.compiler.is_compiling() and not is_exporting() and _is_on_gpu(tokens):
            return dropout(tokens, self.p)
        return super().forward(tokens)


def _is_on_gpu(tokens: Tensor) -> bool:
    """How many there are is asked last: a compiler would hold on to the answer."""
    return tokens.is_cuda and tokens.numel() < _LARGEST


def dropout(tokens: Tensor, rate: float) -> Tensor:
    """Zero at this rate, else scaled so that the mean stays."""
    kept = mixed(tokens.shape, seeds_on(tokens.device)) >= lowest_kept(rate)
    return torch.where(kept, tokens * (1 / (1 - rate)), 0.0)


def is_idle(part: nn.Module) -> bool:
    """Whether a part lets everything through, and nobody watches it do so."""
    if has_hooks(part):
        return False
    if isinstance(part, nn.Dropout) and type(part) in (Dropout, nn.Dropout):
        return not part.training or part.p == 0
    if isinstance(part, DropPath) and type(part) is DropPath:
        return not part.training or part.rate == 0
    return type(part) is nn.Identity
