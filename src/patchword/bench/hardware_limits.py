"""What this machine can do at the most: products of large matrices, and copies of large arrays. Measured, not looked
up, so that a share of it means what is left to gain."""

from dataclasses import dataclass

import torch

from patchword.analysis.speed import timed


@dataclass(frozen=True)
class Ceilings:
    """products: multiplications and additions a second. copies: bytes read and written a second."""

    products: float
    copies: float


def ceilings(device: torch.device, precision: str, seconds: float = 0.5) -> Ceilings:
    """precision: float32 or bfloat16"""
    large = device.type != "cpu"
    side, count = (8192, 2**28) if large else (1024, 2**24)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    one, other = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    found = torch.empty_like(one)
    product = min(timed(lambda: torch.mm(one, other, out=found), device, seconds))
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copy = min(timed(lambda: target.copy_(source), device, seconds))
    return Ceilings(2 * side**3 / product, 2 * source.nbytes / copy)
