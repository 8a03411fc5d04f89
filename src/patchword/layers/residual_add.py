"""The sum of a residual, with its gradient in the precision that it is computed in."""

from typing import Any, cast

import torch
from torch import Tensor


def residual_add(stream: Tensor, branch: Tensor) -> Tensor:
    """stream + branch; where a compiled model computes branches in bfloat16, the gradient is kept in it.

    The sum stays float32. Its gradient comes from products in bfloat16; rounding it once more does not add to its
    error, and a compiled model then writes it once in 16 bits, for both the branch and the stream. In eager mode that
    would be one more copy.
    """
    short = stream.dtype == torch.float32 and branch.dtype == torch.bfloat16 and stream.shape == branch.shape
    if short and torch.compiler.is_compiling() and stream.requires_grad and branch.requires_grad:
        return cast(Tensor, _Sum.apply(stream, branch))  # type: ignore[no-untyped-call]  # torch's own
    return stream + branch


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream: Tensor, branch: Tensor) -> Tensor:
        return stream + branch

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """The flatten keeps the compiler from seeing two conversions in sequence, which it would remove."""
        short = gradient.bfloat16()
        return short.flatten(0, -2).to(gradient.dtype).view_as(gradient), short
