"""A model compiled, for runs and benchmarks alike."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import nn

from patchword.fusion.buckets import MOST, BucketedGraphs
from patchword.kernels.common.availability import run_self_tests

Run = Callable[..., Any]
_GRAPHS, _WARNED = "triton.cudagraphs", "triton.cudagraph_dynamic_shape_warn_limit"


class FirstMicrobatchGraph:
    """A model as recorded graphs, but for the pieces of a step behind the first, in which a step is worked on when the
    memory is full: a graph would write the gradients of a piece over those of the piece before."""

    def __init__(self, model: nn.Module, recorded: Run, plain: Run) -> None:
        self.model, self.recorded, self.plain = model, recorded, plain

    def __call__(self, *given: Any) -> Any:
        return (self.plain if any(weight.grad is not None for weight in self.weights) else self.recorded)(*given)

    @cached_property
    def weights(self) -> list[nn.Parameter]:
        return list(self.model.parameters())


def compiled(
    model: nn.Module, device: torch.device, *, learns: bool, changing: bool = False, records: bool = True
) -> Run:
    """On a GPU as recorded graphs, since small models wait for the launches of their kernels. Where each batch has
    another shape, every shape would be recorded: only texts in a row are, if something is learned (`steady`).

    Where nothing is learned, every sum of the residual stream is written down. By itself the compiler writes each
    fourth, and the norms between read all that was added since.

    learns: whether gradients are wanted. changing: whether each batch has another shape. records: not where gradients
    are summed over several pieces of every step, nor where weights are shared out among processes
    """
    run_self_tests(device)
    records = records and device.type == "cuda"
    if changing:
        plain = torch.compile(model, dynamic=True)
        if not records or not learns:
            return plain
        told: dict[str, Any] = {_GRAPHS: True, _WARNED: 2 * MOST}
        return BucketedGraphs(
            model, FirstMicrobatchGraph(model, torch.compile(model, dynamic=True, options=told), plain), plain
        )
    if not learns:
        return torch.compile(model, options={_GRAPHS: records, "realize_reads_threshold": 1})
    plain = torch.compile(model, options={_GRAPHS: False})
    return FirstMicrobatchGraph(model, torch.compile(model, options={_GRAPHS: True}), plain) if records else plain
