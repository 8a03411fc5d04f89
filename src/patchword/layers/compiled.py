"""A model compiled, for runs and benchmarks alike."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from patchword.kernels.availability import try_all


def compiled(
    model: nn.Module, device: torch.device, *, learns: bool, changing: bool = False, pieces: int = 1
) -> Callable[..., Any]:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels; not where each batch has
    another shape, since every shape would be recorded, nor where gradients are summed over several pieces, since a
    graph writes those of the next piece over them.

    Where nothing is learned, every sum of the residual stream is written down. By itself the compiler writes each
    fourth, and the norms between read all that was added since.

    learns: whether gradients are wanted. changing: whether each batch has another shape. pieces: of a step
    """
    try_all(device)
    if changing:
        return torch.compile(model, dynamic=True)
    options: dict[str, Any] = {"triton.cudagraphs": device.type == "cuda" and pieces == 1}
    if not learns:
        options["realize_reads_threshold"] = 1
    return torch.compile(model, options=options)
