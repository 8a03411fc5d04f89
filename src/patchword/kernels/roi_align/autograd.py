"""RoIAlign as one differentiable operation of torch, which models call. The maps get gradients, the boxes none.

Its autograd rule is registered by hand, as for window attention.
"""

from typing import Any, cast

import torch
from torch import Tensor

from patchword.kernels.roi_align.reference import roi_align_reference
from patchword.kernels.roi_align.torch_op import (
    GIVEN,
    LIBRARY,
    TAGS,
    pool_maps,
    pool_maps_fake,
    roi_align_backward,
    roi_align_forward,
)

LIBRARY.define(f"roi_align({GIVEN}) -> Tensor", tags=TAGS)
LIBRARY.impl("roi_align", pool_maps, "CompositeExplicitAutograd")
torch.library.register_fake("patchword::roi_align", pool_maps_fake, lib=LIBRARY)
roi_align_kernel = torch.ops.patchword.roi_align.default


class _RoIAlign(torch.autograd.Function):
    """rest: strides, size, aligned, samples, channels_last, dtype"""

    @staticmethod
    def forward(ctx: Any, rest: tuple[Any, ...], boxes: Tensor, levels: Tensor, *maps: Tensor) -> Tensor:
        ctx.rest = rest
        ctx.save_for_backward(boxes, levels, *maps)
        return cast(Tensor, roi_align_forward(list(maps), boxes, levels, *rest))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        boxes, levels, *maps = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative is needed
            return None, None, None, *_reference_gradients(gradient, maps, boxes, levels, *ctx.rest[:4])
        return None, None, None, *roi_align_backward(gradient, maps, boxes, levels, *ctx.rest[:-1])


@torch.library.impl(LIBRARY, "roi_align", "Autograd")
def _with_autograd(maps: list[Tensor], boxes: Tensor, levels: Tensor, *rest: Any) -> Tensor:
    if torch.is_grad_enabled() and any(part.requires_grad for part in maps):
        return cast(Tensor, _RoIAlign.apply(rest, boxes, levels, *maps))  # type: ignore[no-untyped-call]  # torch's own
    return cast(Tensor, roi_align_forward(maps, boxes, levels, *rest))


def _reference_gradients(
    gradient: Tensor, maps: list[Tensor], boxes: Tensor, levels: Tensor, strides: list[float], size: list[int],
    aligned: bool, samples: int,
) -> list[Tensor | None]:  # fmt: skip
    """Differentiates the reference with respect to views of the maps, because one may depend on another."""
    maps = [part.view_as(part) for part in maps]
    output = roi_align_reference(maps, boxes, levels, strides, (size[0], size[1]), aligned, samples or None)
    inputs = [part for part in maps if part.requires_grad]
    found = iter(torch.autograd.grad(output, inputs, gradient.to(output.dtype), create_graph=True))
    return [next(found) if part.requires_grad else None for part in maps]
