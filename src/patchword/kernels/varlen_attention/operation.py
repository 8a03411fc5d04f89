"""Attention of texts that lie in one row, each reading itself alone, without padding."""

from typing import Any, cast

import torch
from torch import Tensor

from patchword.core.text import Packed


def has_varlen_attention_kernel(query: Tensor, width: int, dropout: float = 0.0) -> bool:
    """torch's kernel for rows of different length runs on NVIDIA's GPUs since Ampere, in 16 bits, for heads whose
    width is a multiple of 8 and 256 at most; with dropout, 192 on most of them."""
    fits = width % 8 == 0 and width <= 256 and query.dtype in (torch.float16, torch.bfloat16)
    if not query.is_cuda or not fits or not _has_sm80(query.get_device()):
        return False
    drops: bool = not dropout or (dropout < 1 and _drops(query.get_device(), width))
    return drops


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def _has_sm80(index: int) -> bool:
    return torch.version.hip is None and torch.cuda.get_device_capability(index) >= (8, 0)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # a compiler need not look inside
def _drops(index: int, width: int) -> bool:
    """Of kernels that can be put in the place of torch's own, none knows dropout."""
    others = getattr(torch.nn.attention, "current_flash_attention_impl", lambda: None)()
    return others is None and (width <= 192 or torch.cuda.get_device_capability(index) in ((8, 0), (9, 0)))


def varlen_attention(
    query: Tensor, key: Tensor, value: Tensor, rows: Packed, scale: float, causal: bool, dropout: float = 0.0
) -> Tensor:
    """(tokens, heads, head width) thrice -> (tokens, heads, head width); causal: each reads what comes before it"""
    from torch.nn.attention.varlen import varlen_attn

    longest, ends = rows.max_seqlen, rows.cu_seqlens
    if dropout:  # varlen_attn knows none, but the operation it calls does
        run = torch.ops.aten._flash_attention_forward.default
        found = run(query, key, value, ends, ends, longest, longest, dropout, causal, False, scale=scale)
        return cast(Tensor, found[0])
    window: dict[str, Any] = {"window_size": (-1, 0)} if causal else {}
    return cast(Tensor, varlen_attn(query, key, value, ends, ends, longest, longest, scale=scale, **window))
