"""Random numbers by mixing: of a place and two drawn numbers, the same wherever they are computed.

A kernel computes them where it needs them (mixed_triton), a gradient once more instead of reading a mask.
"""

import math

import torch
from torch import Tensor

from patchword.kernels.common.register_op import register_op

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # factors that spread every bit over all others

# One operation of torch, so that a compiler draws the two numbers once and not again for each place that reads them.
_settled = register_op("settled", "Tensor drawn", torch.clone, torch.empty_like)


def seeds_on(device: torch.device) -> Tensor:
    """(2,) of 32 bits, which torch's generator there draws"""
    return _settled(torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=device))


def lowest_kept(rate: float) -> int:
    """A mixed number that is lower is dropped."""
    return round(rate * 2**32) - 2**31


def mixed(shape: torch.Size, seeds: Tensor) -> Tensor:
    """(2,) -> a number of 32 bits for each place, all equally likely"""
    place = torch.arange(math.prod(shape), dtype=torch.int32, device=seeds.device).view(shape)
    found = _hash(place ^ seeds[0]) + seeds[1]
    return _hash(found)


def _hash(number: Tensor) -> Tensor:
    """Shifts bring down high bits, factors bring up low ones; integers wrap round."""
    number = (number ^ ((number >> 16) & 0xFFFF)) * _FIRST
    number = (number ^ ((number >> 15) & 0x1FFFF)) * _SECOND
    return number ^ ((number >> 16) & 0xFFFF)
