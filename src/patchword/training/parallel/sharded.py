"""Every process holds a part of every weight: PyTorch's FSDP2, with files that look like those of one process."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from patchword.training.parallel.gradient_sync import GradientSync
from patchword.training.parallel.process_group import DataParallel

_BLOCK = re.compile(r"(?:.*\.)?blocks\.\d+")


class Sharded(DataParallel):
    """Weights, gradients and the optimizer's moments are dealt out over the processes. Those of a block are put
    together when it is their turn and let go behind it; the gradients of the last piece are summed and dealt out."""

    def prepare(self, model: nn.Module) -> None:
        super().prepare(model)
        for name, module in model.named_modules():
            if _BLOCK.fullmatch(name):
                fully_shard(module)
        fully_shard(model)

    def exchange(self, model: nn.Module, weights: Sequence[Tensor]) -> GradientSync:
        return ShardedGradientSync(cast(FSDPModule, model), self.size)

    def save(self, model: nn.Module, write: Callable[[], None]) -> None:
        """All bring their parts, and the first process writes the whole weights."""
        if self.is_main:
            hook = model.register_state_dict_post_hook(_complete)
            try:
                write()
            finally:
                hook.remove()
        else:
            for tensor in model.state_dict().values():
                whole(tensor)


class ShardedGradientSync:
    """FSDP2 sums the gradients by itself, and divides them by the number of processes: hence the factor."""

    def __init__(self, model: FSDPModule, size: int) -> None:
        self.model, self.size = model, size

    def backward(self, loss: Tensor, start: Tensor, last: bool) -> None:
        self.model.set_requires_gradient_sync(last)
        loss.backward(start * self.size)

    def finish(self, *sums: Tensor) -> tuple[Tensor, ...]:
        totals = torch.stack([value.float() for value in sums])
        dist.all_reduce(totals)
        return tuple(totals)


def _complete(module: nn.Module, state: dict[str, Tensor], prefix: str, metadata: object) -> None:
    for name, tensor in state.items():
        state[name] = whole(tensor)


def whole(tensor: Tensor) -> Tensor:
    """With the parts of all processes, all of which have to ask."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def like(own: Tensor, tensor: Tensor) -> Tensor:
    """A whole tensor dealt out as this process's own is, which may be whole, too."""
    if not isinstance(own, DTensor):
        return tensor
    return distribute_tensor(tensor.to(own.device), own.device_mesh, own.placements, src_data_rank=None)


def spread(tensors: Mapping[str, Tensor], model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The tensors of a checkpoint, each dealt out as the weight that it belongs to."""
    weights = dict(model.state_dict())
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    found = {}
    for name, tensor in tensors.items():
        kind, rest = name.split(".", 1)
        own = listed[int(rest.split(".", 1)[0])] if kind == "optimizer" else weights.get(rest)
        found[name] = like(own, tensor) if own is not None and own.shape == tensor.shape else tensor
    return found
