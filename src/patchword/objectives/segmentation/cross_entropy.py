"""Cross-entropy of enlarged logits, without all enlarged logits in memory at once."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.layers.dense.segmentation.blocks import enlarge

_LARGEST = 2**27  # most values of enlarged logits at once: 0.5 GiB in float32


def enlarged_cross_entropy(logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
    """Return the sum over pixels of the cross-entropy of logits that are enlarged bilinearly to the size of the labels.

    logits: (batch, classes, rows, columns). labels: (batch, height, width), int64; the pixels whose label is `ignored`
    have no loss. The gradient is computed in the forward pass, for a few images at a time; in a compiled graph, which
    fuses these operations, all images are processed together.
    """
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or not logits.requires_grad:
        return _sum(logits, labels, ignored)
    found: Tensor = _ChunkedCrossEntropy.apply(logits, labels, ignored)  # type: ignore[no-untyped-call]  # torch's own
    return found


def _sum(logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
    return F.cross_entropy(enlarge(logits, labels.shape[-2:]), labels, ignore_index=ignored, reduction="sum")


class _ChunkedCrossEntropy(torch.autograd.Function):
    """The sum above. Only the gradient of the small logits is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, ignored: int) -> Tensor:
        count = max(1, _LARGEST // (logits.shape[1] * labels.shape[1] * labels.shape[2]))
        losses, gradients = [], []
        for some, wanted in zip(logits.split(count), labels.split(count), strict=True):
            with torch.enable_grad():
                leaf = some.detach().requires_grad_()
                loss = _sum(leaf, wanted, ignored)
            gradients += torch.autograd.grad(loss, leaf)
            losses.append(loss.detach())
        ctx.save_for_backward(torch.cat(gradients))
        return torch.stack(losses).sum()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grad_outputs[0], None, None
