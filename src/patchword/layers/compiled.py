"""A model compiled, for runs and benchmarks alike."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from patchword.kernels.availability import try_all

_Options = dict[str, str | int | bool | Callable[..., Any]]


def compiled(model: nn.Module, device: torch.device, changing: bool = False) -> Callable[..., Any]:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels; not where each batch has
    another shape, since every shape would be recorded.

    changing: whether it has
    """
    try_all(device)
    if device.type != "cuda":
        return torch.compile(model, dynamic=True if changing else None)
    tried: _Options = {"max_autotune_pointwise": True}  # norms of narrow tokens are up to twice as fast if some are
    if changing:
        return torch.compile(model, dynamic=True, options=tried)
    return torch.compile(model, options={**tried, "triton.cudagraphs": True})
