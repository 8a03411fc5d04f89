"""Attention of packed sequences, by torch's kernel where it can run and by padding elsewhere."""

from typing import Any, cast

import torch
from torch import Tensor

from patchword.core.text import Packed
from patchword.core.tracing import trace_constant
from patchword.kernels.varlen_attention.reference import varlen_attention_reference
from patchword.kernels.varlen_attention.tuning import (
    DTYPES,
    HEAD_WIDTH_MULTIPLE,
    MAX_HEAD_WIDTH,
    MAX_HEAD_WIDTH_WITH_DROPOUT,
    MIN_CAPABILITY,
    WIDE_DROPOUT_CAPABILITIES,
)


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Attends inside each packed sequence: (tokens, heads, head width) thrice -> (tokens, heads, head width).

    packed: where each sequence begins and ends. causal: each token attends to itself and to the tokens before it.
    """
    given = query, key, value, packed, scale, causal, dropout
    if has_varlen_attention_kernel(query, query.shape[-1], dropout):
        return varlen_attention_kernel(*given)
    return varlen_attention_reference(*given)


def varlen_attention_kernel(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Computes `varlen_attention` with torch's kernel, which must support the inputs."""
    from torch.nn.attention.varlen import varlen_attn

    longest, ends = packed.max_seqlen, packed.cu_seqlens
    if dropout:  # varlen_attn has no dropout, but the operation it calls has
        run = torch.ops.aten._flash_attention_forward.default
        found = run(query, key, value, ends, ends, longest, longest, dropout, causal, False, scale=scale)
        return cast(Tensor, found[0])
    window: dict[str, Any] = {"window_size": (-1, 0)} if causal else {}
    return cast(Tensor, varlen_attn(query, key, value, ends, ends, longest, longest, scale=scale, **window))


def has_varlen_attention_kernel(query: Tensor, width: int, dropout: float = 0.0) -> bool:
    """True if torch's kernel supports queries of this dtype and device, heads of this width, and this dropout."""
    fits = width % HEAD_WIDTH_MULTIPLE == 0 and width <= MAX_HEAD_WIDTH and query.dtype in DTYPES
    if not query.is_cuda or not fits or not _is_recent(query.get_device()):
        return False
    drops: bool = not dropout or (dropout < 1 and _has_dropout(query.get_device(), width))
    return drops


@trace_constant
def _is_recent(index: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(index) >= MIN_CAPABILITY


@trace_constant
def _has_dropout(index: int, width: int) -> bool:
    """True if the kernel has dropout for heads of this width; kernels that replace torch's own have none."""
    replacement = getattr(torch.nn.attention, "current_flash_attention_impl", lambda: None)()
    wide = torch.cuda.get_device_capability(index) in WIDE_DROPOUT_CAPABILITIES
    return replacement is None and (width <= MAX_HEAD_WIDTH_WITH_DROPOUT or wide)
