"""Cross-entropy of enlarged logits, without all enlarged logits in memory at once."""

from functools import lru_cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.layers.dense.segmentation.blocks import enlarge

_LARGEST = 2**27  # most values of enlarged logits at once: 0.5 GiB in float32


def enlarged_cross_entropy(logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
    """Return the sum over pixels of the cross-entropy of logits that are enlarged bilinearly to the size of the labels.

    logits: (batch, classes, rows, columns). labels: (batch, height, width), int64; the pixels whose label is `ignored`
    have no loss. The gradient is computed in the forward pass, for a few images at a time.
    """
    if not torch.is_grad_enabled() or not logits.requires_grad:
        return F.cross_entropy(enlarge(logits, labels.shape[-2:]), labels, ignore_index=ignored, reduction="sum")
    found: Tensor = _ChunkedCrossEntropy.apply(logits, labels, ignored)  # type: ignore[no-untyped-call]  # torch's own
    return found


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The sum above. Only the gradient of the small logits is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
        with torch.autocast(logits.device.type, enabled=False):
            parts = _parts(logits, labels)
            found = [_loss_and_gradient(some, wanted, ignored) for some, wanted in parts]
        ctx.save_for_backward(torch.cat([gradient for _, gradient in found]))
        return torch.stack([loss for loss, _ in found]).sum()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0], None, None


def _parts(logits: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Split a batch into a few images at a time; a compiled graph never holds all enlarged values, so it needs none."""
    if torch.compiler.is_compiling():
        return [(logits, labels)]
    count = max(1, _LARGEST // (logits.shape[1] * labels.shape[1] * labels.shape[2]))
    return list(zip(logits.split(count), labels.split(count), strict=True))


def _loss_and_gradient(logits: Tensor, labels: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """Return the sum of the losses, and its gradient for the small logits: softmax minus one-hot, made small again.

    Enlarging is linear, so that its gradient is a product with the transposed weights of rows and columns: many times
    faster than torch's, which adds to memory atomically.
    """
    enlarged = enlarge(logits, labels.shape[-2:])
    log_probability = enlarged.log_softmax(dim=1)
    valid = labels != ignored
    index = torch.where(valid, labels, 0)[:, None]
    loss = -(log_probability.gather(1, index)[:, 0] * valid).sum()
    gradient = (log_probability.exp().scatter_add(1, index, torch.full_like(log_probability[:, :1], -1.0))) * valid[
        :, None
    ]
    return loss, _made_small(gradient, logits.shape[-2:])


def _made_small(gradient: Tensor, size: torch.Size) -> Tensor:
    """Return the gradient of `enlarge`: (batch, classes, height, width) -> (batch, classes, rows, columns)."""
    if gradient.shape[-2:] == size:
        return gradient
    across = _weights(size[1], gradient.shape[3], gradient.dtype, gradient.device)
    down = _weights(size[0], gradient.shape[2], gradient.dtype, gradient.device)
    return down.T @ (gradient @ across)


def _weights(cells: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the weights of the cells at each pixel along one side: (size, cells)."""
    if torch.compiler.is_compiling():
        return _compute(cells, size, dtype, device)
    return _cached(cells, size, dtype, device)


def _compute(cells: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    each = torch.eye(cells, dtype=dtype, device=device)[None, None]
    return enlarge(each, (size, cells))[0, 0]


@lru_cache(maxsize=64)
def _cached(cells: int, size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return _compute(cells, size, dtype, device)
