"""The gradient of a residual stream, in the precision that it was computed in."""

from typing import Any

import torch
from torch import Tensor


def short_gradient(stream: Tensor) -> Tensor:
    """The same tokens; where a compiled model computes in bfloat16, what comes back along the stream is kept in it.

    Tokens of the stream stay float32. Their gradient is made of products in bfloat16; rounding it once more adds
    nothing to its error, and a compiled model then writes and reads it once in 16 bits, for the branch and for the
    stream alike. Without a compiler that would be a copy more.
    """
    if not torch.compiler.is_compiling() or stream.dtype != torch.float32 or not stream.requires_grad:
        return stream
    kind = stream.device.type
    short = torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind) == torch.bfloat16
    return _Short.apply(stream) if short else stream  # type: ignore[no-untyped-call]  # torch's own


class _Short(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, stream: Tensor) -> Tensor:
        return stream.view_as(stream)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.bfloat16().to(gradient.dtype)
