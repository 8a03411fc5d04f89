"""The limits of this machine: the rates of a large matmul and of a large copy.

They are measured, not taken from a data sheet, so that a fraction of them shows how much a model could still gain.
"""

from dataclasses import dataclass

import torch

from patchword.analysis.speed import timed


@dataclass(frozen=True)
class HardwareLimits:
    """Measured limits. products: floating-point operations per second in matmuls. copies: bytes per second."""

    products: float
    copies: float


def measure_limits(device: torch.device, precision: str, seconds: float = 0.5) -> HardwareLimits:
    """Measure the limits of a device. precision: float32 or bfloat16, the dtype of the matmul."""
    large = device.type != "cpu"
    side, count = (8192, 2**28) if large else (1024, 2**24)
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    one, other = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    found = torch.empty_like(one)
    product = min(timed(lambda: torch.mm(one, other, out=found), device, seconds))
    source = torch.ones(count, device=device)
    target = torch.empty_like(source)
    copy = min(timed(lambda: target.copy_(source), device, seconds))
    return HardwareLimits(2 * side**3 / product, 2 * source.nbytes / copy)
