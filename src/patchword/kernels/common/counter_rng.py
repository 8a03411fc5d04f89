"""Counter-based random bits: hash(index, seeds), the same wherever they are computed.

Kernels compute them where they are needed (counter_rng_triton), and the backward pass recomputes them instead of
reading a mask.
"""

import math

import torch
from torch import Tensor

from patchword.kernels.common.register_op import register_op

_FIRST, _SECOND = 0x7FEB352D, 0x846CA68B - 2**32  # multipliers that mix every bit into all others

# One operation of torch, so that a compiled graph draws the seeds once, and not again for each use.
_settled = register_op("settled", "Tensor drawn", torch.clone, torch.empty_like)


def seeds_on(device: torch.device) -> Tensor:
    """Returns two random 32-bit seeds, (2,), from torch's generator of the device."""
    return _settled(torch.randint(-(2**31), 2**31, (2,), dtype=torch.int32, device=device))


def lowest_kept(rate: float) -> int:
    """Returns the threshold of dropout: random numbers below it are dropped."""
    return round(rate * 2**32) - 2**31


def random_bits(shape: torch.Size, seeds: Tensor) -> Tensor:
    """Returns a tensor of this shape with uniform 32-bit integers, from seeds (2,)."""
    index = torch.arange(math.prod(shape), dtype=torch.int32, device=seeds.device).view(shape)
    found = _hash(index ^ seeds[0]) + seeds[1]
    return _hash(found)


def _hash(number: Tensor) -> Tensor:
    """Mixes the bits: shifts move high bits down, multiplications move low bits up; integers wrap around."""
    number = (number ^ ((number >> 16) & 0xFFFF)) * _FIRST
    number = (number ^ ((number >> 15) & 0x1FFFF)) * _SECOND
    return number ^ ((number >> 16) & 0xFFFF)
