"""Small constant tensors on a device, without a copy from the host in each call."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor


def constant(values: Sequence[float], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the numbers as a vector. It may be cached: do not write to it.

    A compiled graph fills the vector on the device; a copy from the host would exclude CUDA graphs.
    """
    if torch.compiler.is_compiling():
        return torch.stack([torch.full((), value, dtype=dtype, device=device) for value in values])
    return _cached(tuple(values), dtype, device)


@lru_cache(maxsize=256)
def _cached(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # the cached tensor may be used in training later
        return torch.tensor(values, dtype=dtype, device=device)
