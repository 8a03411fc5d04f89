"""Dropout whose random numbers cost little in a compiled model on a GPU."""

import torch
from torch import Tensor, nn

_LARGEST = 2**31  # places that a number of 32 bits tells apart
_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # factors that spread every bit over all others

# One operation of torch, so that a compiler draws the two numbers once and not again for each place that reads them.
torch.library.define("patchword::settled", "(Tensor drawn) -> Tensor")
torch.library.impl("patchword::settled", "default", torch.clone)
torch.library.register_fake("patchword::settled", torch.empty_like)


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
    drawn = torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=tokens.device)
    seeds: Tensor = torch.ops.patchword.settled(drawn)
    kept = mixed(tokens.shape, seeds) >= round(rate * 2**32) - 2**31
    return torch.where(kept, tokens * (1 / (1 - rate)), 0.0)


def mixed(shape: torch.Size, seeds: Tensor) -> Tensor:
    """(2,) -> a number of 32 bits for each place, all equally likely"""
    place = torch.arange(shape.numel(), dtype=torch.int32, device=seeds.device).view(shape)
    found = _spread(place ^ seeds[0]) + seeds[1]
    return _spread(found)


def _spread(number: Tensor) -> Tensor:
    """Shifts bring down high bits, factors bring up low ones; integers wrap round."""
    number = (number ^ ((number >> 16) & 0xFFFF)) * _FIRST
    number = (number ^ ((number >> 15) & 0x1FFFF)) * _SECOND
    return number ^ ((number >> 16) & 0xFFFF)
