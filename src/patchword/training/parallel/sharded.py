"""Sharded weights: PyTorch's FSDP2, with files in the format of one process.

FSDP2 is imported where weights are sharded, because the import takes a second.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn

from patchword.training.parallel.gradient_sync import GradientSync, full
from patchword.training.parallel.process_group import DataParallel

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule

_BLOCK = re.compile(r"(?:.*\.)?blocks\.\d+")


class Sharded(DataParallel):
    """Weights, gradients and optimizer moments are sharded over the processes.

    The weights of a block are gathered before it runs and freed after it; the gradients are reduced and scattered in
    the last micro-batch.
    """

    def prepare(self, model: nn.Module) -> None:
        from torch.distributed.fsdp import fully_shard

        super().prepare(model)
        for name, module in model.named_modules():
            if _BLOCK.fullmatch(name):
                fully_shard(module)
        fully_shard(model)

    def gradient_sync(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        return ShardedGradientSync(cast("FSDPModule", model), self.size)

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        """Gather the weights from all processes; the main process writes them."""
        if self.is_main:
            hook = model.register_state_dict_post_hook(_gather_state_dict)
            try:
                write()
            finally:
                hook.remove()
        else:
            for tensor in model.state_dict().values():
                full(tensor)


class ShardedGradientSync:
    """FSDP2 averages the gradients over the processes; the factor `size` makes that a sum."""

    def __init__(self, model: "FSDPModule", size: int) -> None:
        self.model, self.size = model, size

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        self.model.set_requires_gradient_sync(last)
        loss.backward(start * self.size)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        totals = torch.stack([value.float() for value in sums])
        dist.all_reduce(totals)
        return tuple(totals)


def _gather_state_dict(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    for name, tensor in state.items():
        state[name] = full(tensor)


def _shard(tensor: Tensor, own: Tensor) -> Tensor:
    """Return a full tensor, sharded as `own` is if that is sharded."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(own, DTensor):
        return tensor
    return distribute_tensor(tensor.to(own.device), own.device_mesh, own.placements, src_data_rank=None)


def shard_like(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint, each sharded as the weight that it belongs to."""
    weights = dict(model.state_dict())
    ordered = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    parameters = {str(index): parameter for index, parameter in enumerate(ordered)}
    found = {}
    for name, tensor in tensors.items():
        group, rest = name.split(".", 1)
        own = parameters.get(rest.split(".", 1)[0]) if group == "optimizer" else weights.get(rest)
        found[name] = _shard(tensor, own) if own is not None and own.shape == tensor.shape else tensor
    return found
