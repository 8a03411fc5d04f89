"""The sigmoid focal loss of each class, differentiable.

Torch's own operations write eight tensors of the size of the logits; the kernel writes one, and its gradient another.
The autograd formula is registered by hand, as for window attention.
"""

from typing import Any, cast

import torch
from torch import Tensor

from patchword.kernels.common.availability import SelfTest, TestInputs, is_usable
from patchword.kernels.focal_loss.reference import focal_loss_reference
from patchword.kernels.focal_loss.tuning import BLOCK, WARPS
from patchword.kernels.window_attention.torch_op import LIBRARY, TAGS, allocate, on_device

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_GIVEN = "Tensor logits, Tensor labels, float gamma, float alpha"
LIBRARY.define(f"focal_loss({_GIVEN}, ScalarType dtype) -> Tensor", tags=TAGS)
LIBRARY.define(f"focal_loss_forward({_GIVEN}, ScalarType dtype) -> Tensor", tags=TAGS)
LIBRARY.define(f"focal_loss_back(Tensor gradient, {_GIVEN}) -> Tensor", tags=TAGS)
_forward = torch.ops.patchword.focal_loss_forward.default
_backward = torch.ops.patchword.focal_loss_back.default


def has_focal_loss_kernel(logits: Tensor) -> bool:
    return logits.is_cuda and logits.dtype in _DTYPES and is_usable(logits, SELF_TEST)


def focal_loss(logits: Tensor, labels: Tensor, *, gamma: float, alpha: float) -> Tensor:
    """Return the sigmoid focal loss of each class: (..., classes), (...) -> (..., classes) (Lin et al., 2017).

    labels: 0 .. classes - 1; any other number means background. The loss is -a (1 - p)^gamma log(p), where p is the
    probability given to the binary target and a is alpha for the labelled class and 1 - alpha for the others.
    """
    if not has_focal_loss_kernel(logits):
        return focal_loss_reference(logits, labels, gamma, alpha)
    return fused_focal_loss(logits, labels, gamma, alpha)


def fused_focal_loss(logits: Tensor, labels: Tensor, gamma: float, alpha: float) -> Tensor:
    """Run the kernel. Like the reference, it returns float32 under autocast."""
    dtype = torch.float32 if torch.is_autocast_enabled(logits.device.type) else logits.dtype
    found: Tensor = torch.ops.patchword.focal_loss.default(logits, labels, gamma, alpha, dtype)
    return found


@torch.library.impl(LIBRARY, "focal_loss_forward", "CompositeExplicitAutograd")
def _losses(logits: Tensor, labels: Tensor, gamma: float, alpha: float, dtype: torch.dtype) -> Tensor:
    from patchword.kernels.focal_loss.triton import losses

    output = allocate(logits, logits.shape, dtype)
    if output.numel():
        tensors = logits.contiguous(), labels.contiguous(), output
        with on_device(output):
            losses[_programs(logits),](*tensors, *_numbers(logits, gamma, alpha), num_warps=WARPS)
    return output


@torch.library.impl(LIBRARY, "focal_loss_back", "CompositeExplicitAutograd")
def _gradients(gradient: Tensor, logits: Tensor, labels: Tensor, gamma: float, alpha: float) -> Tensor:
    from patchword.kernels.focal_loss.triton import gradients

    output = allocate(logits, logits.shape)
    if output.numel():
        tensors = logits.contiguous(), labels.contiguous(), gradient.contiguous(), output
        with on_device(output):
            gradients[_programs(logits),](*tensors, *_numbers(logits, gamma, alpha), num_warps=WARPS)
    return output


def _losses_fake(logits: Tensor, labels: Tensor, gamma: float, alpha: float, dtype: torch.dtype) -> Tensor:
    return allocate(logits, logits.shape, dtype)


def _gradients_fake(gradient: Tensor, logits: Tensor, labels: Tensor, gamma: float, alpha: float) -> Tensor:
    return allocate(logits, logits.shape)


LIBRARY.impl("focal_loss", _losses, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::focal_loss", _losses_fake, lib=LIBRARY)
torch.library.register_fake("patchword::focal_loss_forward", _losses_fake, lib=LIBRARY)
torch.library.register_fake("patchword::focal_loss_back", _gradients_fake, lib=LIBRARY)


def _programs(logits: Tensor) -> int:
    return -(-logits.numel() // BLOCK)


def _numbers(logits: Tensor, gamma: float, alpha: float) -> tuple[int | float | bool, ...]:
    return logits.numel(), gamma, alpha, logits.shape[-1], gamma == 2, BLOCK


class _FocalLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, gamma: float, alpha: float, dtype: torch.dtype) -> Tensor:
        ctx.rest = gamma, alpha
        ctx.save_for_backward(logits, labels)
        return cast(Tensor, _forward(logits, labels, gamma, alpha, dtype))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        logits, labels = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is needed
            own = logits.view_as(logits)
            output = focal_loss_reference(own, labels, *ctx.rest)
            found = torch.autograd.grad(output, own, gradient.to(output.dtype), create_graph=True)[0]
        else:
            found = _backward(gradient, logits, labels, *ctx.rest)
        return found, None, None, None, None


@torch.library.impl(LIBRARY, "focal_loss", "Autograd")
def _with_autograd(logits: Tensor, *rest: Any) -> Tensor:
    if torch.is_grad_enabled() and logits.requires_grad:
        return cast(Tensor, _FocalLoss.apply(logits, *rest))  # type: ignore[no-untyped-call]  # torch's own
    return cast(Tensor, _forward(logits, *rest))


def matches_reference(device: torch.device) -> bool:
    """True if losses and gradients agree with the reference, for two exponents."""
    logits = TestInputs(device)(37, 5, size=8.0)
    labels = torch.arange(37, device=device) % 7 - 1
    for gamma in (2.0, 1.5):
        own, exact = logits.clone().requires_grad_(), logits.double().requires_grad_()
        found, expected = fused_focal_loss(own, labels, gamma, 0.25), focal_loss_reference(exact, labels, gamma, 0.25)
        slopes = (torch.autograd.grad(loss.sin().sum(), leaf)[0] for loss, leaf in ((found, own), (expected, exact)))
        for one, other in ((found, expected), tuple(slopes)):
            if not (one.double() - other).norm() <= 1e-5 * other.norm():
                return False
    return True


SELF_TEST = SelfTest("focal_loss", matches_reference)
