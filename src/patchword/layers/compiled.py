"""A model compiled, for runs and benchmarks alike."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from patchword.kernels.availability import try_all
from patchword.layers.steady import Steady


def compiled(
    model: nn.Module, device: torch.device, *, learns: bool, changing: bool = False, pieces: int = 1
) -> Callable[..., Any]:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels; not where gradients are
    summed over several pieces, since a graph writes those of the next piece over them. Where each batch has another
    shape, every shape would be recorded: only texts in a row are, if something is learned (`steady`).

    Where nothing is learned, every sum of the residual stream is written down. By itself the compiler writes each
    fourth, and the norms between read all that was added since.

    learns: whether gradients are wanted. changing: whether each batch has another shape. pieces: of a step
    """
    try_all(device)
    records = device.type == "cuda" and pieces == 1
    options: dict[str, Any] = {"triton.cudagraphs": records}
    if changing:
        plain = torch.compile(model, dynamic=True)
        steady = records and learns
        return Steady(model, torch.compile(model, dynamic=True, options=options), plain) if steady else plain
    if not learns:
        options["realize_reads_threshold"] = 1
    return torch.compile(model, options=options)
