"""Batch norm over the samples of all processes; equal to one process with the whole batch."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class _Normalised(torch.autograd.Function):
    """Computes (x - mean) / std, with mean and variance over the samples of all processes.

    Each process sends its mean, its sum of squared deviations and its count; they are combined as in Chan et al.
    (1979), since a difference of mean squares would lose precision. The backward pass needs two sums over all samples.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dims = [dim for dim in range(x.ndim) if dim != 1]
        count = x.numel() // x.shape[1]
        precise = x.to(torch.promote_types(x.dtype, torch.float32))
        mean = precise.mean(dims)
        squares = (precise - _per_channel(mean, x)).square().sum(dims)
        own = torch.cat([mean, squares, mean.new_tensor([count])])
        gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, own)
        means, distances, counts = torch.stack(gathered).split([len(mean), len(mean), 1], 1)
        total = counts.sum()
        mean_of_all = (means * counts).sum(0) / total
        distance = (distances + counts * (means - mean_of_all).square()).sum(0)
        scale = (distance / total + eps).rsqrt()
        normal = ((precise - _per_channel(mean_of_all, x)) * _per_channel(scale, x)).to(x.dtype)
        ctx.save_for_backward(normal, scale, total)
        ctx.mark_non_differentiable(mean_of_all, distance, total)
        return normal, mean_of_all, distance, total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        normal, scale, total = ctx.saved_tensors
        gradient = gradients[0].to(scale.dtype)
        dims = [dim for dim in range(normal.ndim) if dim != 1]
        sums = torch.stack([gradient.sum(dims), (gradient * normal).sum(dims)])
        dist.all_reduce(sums)
        mean, along = (_per_channel(part / total, normal) for part in sums)
        return ((gradient - mean - normal * along) * _per_channel(scale, normal)).to(normal.dtype), None


def _per_channel(values: Tensor, x: Tensor) -> Tensor:
    """Reshape (channels,) so that it broadcasts over x: (batch, channels, ...)."""
    return values.view(1, -1, *(1,) * (x.ndim - 2))


class SyncBatchNorm2d(nn.BatchNorm2d):
    """Replaces nn.BatchNorm2d; its weights and running statistics have the same names."""

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
        found: Tensor = (
            normal
            if self.weight is None
            else normal * _per_channel(self.weight, input) + _per_channel(self.bias, input)
        )
        return found


def synchronize_batch_norms(model: nn.Module) -> None:
    """Replace every batch norm of the model by one over the samples of all processes."""
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.BatchNorm2d:
                replacement = SyncBatchNorm2d(child.num_features, child.eps, child.momentum)
                replacement.__dict__.update(
                    {key: value for key, value in child.__dict__.items() if not key.startswith("__")}
                )
                setattr(module, name, replacement)
