"""Attention of packed sequences by padding: the reference of the kernel, and what runs where there is none."""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.core.text import Packed
from patchword.kernels.sdpa import without_cudnn


def varlen_attention_reference(
    query: Tensor, key: Tensor, value: Tensor, rows: Packed, scale: float, causal: bool, dropout: float = 0.0
) -> Tensor:
    """Pads the sequences to one length, attends with a mask, and packs the outputs again.

    (tokens, heads, head width) thrice -> (tokens, heads, head width)
    """
    heads = query.shape[1]
    q, k, v = (_to_heads(rows.pad(part.flatten(1)[None]), heads) for part in (query, key, value))
    mask = rows.mask[:, None, None]
    if causal:
        mask = mask & torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    with without_cudnn(q, k, mask):
        attended = F.scaled_dot_product_attention(q, k, v, mask, dropout, scale=scale)
    packed: Tensor = rows.join(attended.transpose(1, 2).flatten(2))[0].unflatten(-1, (heads, -1))
    return packed


def _to_heads(tokens: Tensor, heads: int) -> Tensor:
    """(sequences, tokens, width) -> (sequences, heads, tokens, head width)"""
    split: Tensor = tokens.unflatten(-1, (heads, -1))
    return split.transpose(1, 2)
