"""patchword.compile: a model fused, compiled and run as CUDA graphs, for inference or training."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, overload

import torch
from torch import Tensor, nn

from patchword.fusion.buckets import MOST_BUCKETS, BucketedGraphs
from patchword.fusion.rules import fuse
from patchword.kernels.common.availability import run_self_tests
from patchword.layers.model import Model
from patchword.layers.pyramid import Backbone

Run = Callable[..., Any]
_GRAPHS, _WARN_LIMIT = "triton.cudagraphs", "triton.cudagraph_dynamic_shape_warn_limit"


class FirstMicrobatchGraph:
    """Runs a model as CUDA graphs for the first micro-batch of a step, and without them for the others.

    A step is split into micro-batches when memory is short. A CUDA graph would overwrite the gradients of the
    micro-batch before.
    """

    def __init__(self, model: nn.Module, graphed: Run, plain: Run) -> None:
        self.model, self.graphed, self.plain = model, graphed, plain

    def __call__(self, *inputs: Any) -> Any:
        return (self.plain if any(weight.grad is not None for weight in self.weights) else self.graphed)(*inputs)

    @cached_property
    def weights(self) -> list[nn.Parameter]:
        return list(self.model.parameters())


@overload
def compile(
    model: Model, *, training: bool = False, dynamic: bool | None = None, cuda_graphs: bool = True
) -> Callable[..., Tensor]: ...


@overload
def compile(
    model: Backbone, *, training: bool = False, dynamic: bool | None = None, cuda_graphs: bool = True
) -> Callable[..., list[Tensor]]: ...


@overload
def compile(
    model: nn.Module, *, training: bool = False, dynamic: bool | None = None, cuda_graphs: bool = True
) -> Callable[..., Any]: ...


def compile(
    model: nn.Module, *, training: bool = False, dynamic: bool | None = None, cuda_graphs: bool = True
) -> Callable[..., Any]:
    """Returns a callable that computes what the model computes, faster.

    For inference, the fusion rules (`patchword.fusion.rules`) replace parts of the model by fused kernels, where the
    device, the dtype and the sizes allow them. Then torch.compile compiles the model, and on a GPU it runs as CUDA
    graphs, since small models wait for the launches of their kernels. The given model stays as it is: the same modules,
    the same hooks, the same state dict. Both share their parameters. A module with hooks is not fused; hooks that are
    registered later are not called by the fused parts.

    Args:
        model: a model of this library, or any module. It stays on its device.
        training: whether gradients are needed. Inference fusions have no gradients and are left out.
        dynamic: True if each batch has another shape. Then CUDA graphs run only in training, for packed text, whose
            sizes are padded to few buckets. None lets torch.compile find out.
        cuda_graphs: False runs without CUDA graphs, for example where gradients of several micro-batches are summed in
            each step, or where weights are sharded among processes.

    Example:
        >>> model = patchword.create("swin-tiny").eval().to("cuda", torch.bfloat16)
        >>> fast = patchword.compile(model)
        >>> with torch.no_grad():
        ...     logits = fast(images)
    """
    device = _device_of(model)
    run_self_tests(device)
    graphs = cuda_graphs and device.type == "cuda"
    return _for_training(model, dynamic, graphs) if training else _for_inference(fuse(model), dynamic, graphs)


def _for_training(model: nn.Module, dynamic: bool | None, graphs: bool) -> Run:
    if not dynamic:
        plain = torch.compile(model, dynamic=dynamic, options={_GRAPHS: False})
        graphed = torch.compile(model, dynamic=dynamic, options={_GRAPHS: True})
        return FirstMicrobatchGraph(model, graphed, plain) if graphs else plain
    plain = torch.compile(model, dynamic=True)
    if not graphs:
        return plain
    options: dict[str, Any] = {_GRAPHS: True, _WARN_LIMIT: 2 * MOST_BUCKETS}
    graphed = FirstMicrobatchGraph(model, torch.compile(model, dynamic=True, options=options), plain)
    return BucketedGraphs(model, graphed, plain)


def _for_inference(model: nn.Module, dynamic: bool | None, graphs: bool) -> Run:
    """Every sum of the residual stream is written to memory. By default the compiler writes each fourth, and the norms
    between read all branches that were added since."""
    if dynamic:
        return torch.compile(model, dynamic=True)
    return torch.compile(model, dynamic=dynamic, options={_GRAPHS: graphs, "realize_reads_threshold": 1})


def _device_of(model: nn.Module) -> torch.device:
    parameter = next(model.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device
