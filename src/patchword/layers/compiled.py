"""A model compiled, for runs and benchmarks alike."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from patchword.kernels.availability import try_all


def compiled(model: nn.Module, device: torch.device, changing: bool = False, pieces: int = 1) -> Callable[..., Any]:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels; not where each batch has
    another shape, since every shape would be recorded, nor where gradients are summed over several pieces, since a
    graph writes those of the next piece over them.

    changing: whether each batch has another shape. pieces: of a step
    """
    try_all(device)
    if changing:
        return torch.compile(model, dynamic=True)
    return torch.compile(model, mode="reduce-overhead" if device.type == "cuda" and pieces == 1 else "default")
