"""Batch norm over the samples of all processes, as one process with the whole batch would compute it."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class _Normalised(torch.autograd.Function):
    """(x - mean) / std, with the mean and the variance of all processes' samples.

    Every process tells its mean, squared distances and count once; they are put together as by Chan et al. (1979),
    since a difference of mean squares would lose digits. The way back needs two sums over all samples.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        over = [dim for dim in range(x.ndim) if dim != 1]
        count = x.numel() // x.shape[1]
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = exact.mean(over)
        squares = (exact - _wide(mean, x)).square().sum(over)
        own = torch.cat([mean, squares, mean.new_tensor([count])])
        told = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(told, own)
        means, distances, counts = torch.stack(told).split([len(mean), len(mean), 1], 1)
        total = counts.sum()
        together = (means * counts).sum(0) / total
        distance = (distances + counts * (means - together).square()).sum(0)
        scale = (distance / total + eps).rsqrt()
        normal = ((exact - _wide(together, x)) * _wide(scale, x)).to(x.dtype)
        ctx.save_for_backward(normal, scale, total)
        ctx.mark_non_differentiable(together, distance, total)
        return normal, together, distance, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        normal, scale, total = ctx.saved_tensors
        gradient = gradients[0].to(scale.dtype)
        over = [dim for dim in range(normal.ndim) if dim != 1]
        sums = torch.stack([gradient.sum(over), (gradient * normal).sum(over)])
        dist.all_reduce(sums)
        mean, along = (_wide(part / total, normal) for part in sums)
        return ((gradient - mean - normal * along) * _wide(scale, normal)).to(normal.dtype), None


def _wide(values: Tensor, x: Tensor) -> Tensor:
    return values.view(1, -1, *(1,) * (x.ndim - 2))


class SyncBatchNorm2d(nn.BatchNorm2d):
    """Its weights and running statistics have the names of the layer that it stands for."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        normal, mean, distance, total = _Normalised.apply(input, self.eps)  # type: ignore[no-untyped-call]  # torch's own
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            with torch.no_grad():
                self.num_batches_tracked += 1
                momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
                self.running_mean.lerp_(mean, momentum)
                self.running_var.lerp_(distance / (total - 1).clamp(min=1), momentum)
        found: Tensor = normal if self.weight is None else normal * _wide(self.weight, input) + _wide(self.bias, input)
        return found


def together(model: nn.Module) -> None:
    """Every batch norm of the model looks at the samples of all processes from now on."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.BatchNorm2d:
                twin = SyncBatchNorm2d(child.num_features, child.eps, child.momentum)
                twin.__dict__.update({key: value for key, value in child.__dict__.items() if not key.startswith("__")})
                setattr(module, name, twin)
