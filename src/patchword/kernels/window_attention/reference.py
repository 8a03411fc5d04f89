"""Window attention in operations of torch: the reference of the kernels.

The self-test of the kernels compares with it, and second derivatives are computed with it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.counter_rng import lowest_kept, random_bits
from patchword.kernels.window_attention.tiling import Rectangles


def window_attention_reference(
    qkv: list[Tensor], tables: list[Tensor], taps: list[Tensor], cuts: list[Rectangles], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """Computes window attention. taps: two tensors per head group, the weight and bias of its convolution"""
    parts = [part.chunk(len(cuts), -1) for part in split_qkv(qkv)]
    outputs, (batch, tokens, _) = [], qkv[0].shape
    shape = torch.Size((batch, len(cuts) * heads, tokens, tokens))
    dropout_factor = (
        None if seeds is None else (random_bits(shape, seeds) >= lowest_kept(rate)).to(qkv[0].dtype) / (1 - rate)
    )
    for number, cut in enumerate(cuts):
        query, key, value = (part[number] for part in parts)
        own_factor = None if dropout_factor is None else dropout_factor[:, number * heads : (number + 1) * heads]
        filtering = taps[2 * number : 2 * number + 2]
        outputs.append(_attend(query, key, value, tables[number], filtering, cut, heads, scale, own_factor))
    return torch.cat(outputs, -1)


def split_qkv(qkv: list[Tensor]) -> list[Tensor]:
    """Returns queries, keys and values, which may be fused in one tensor."""
    return list(qkv[0].chunk(3, -1)) if len(qkv) == 1 else qkv


def _attend(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor, taps: list[Tensor], cut: Rectangles, heads: int,
    scale: float, dropout_factor: Tensor | None,
) -> Tensor:  # fmt: skip
    """dropout_factor: (batch, heads, tokens, tokens), what the weights are multiplied with"""
    token, valid, shift_region = cut.member_indices(query.device)
    q, k, v = (part[:, token].unflatten(-1, (heads, -1)).transpose(2, 3) for part in (query, key, value))
    scores = q @ k.transpose(-2, -1) * scale  # (batch, groups, heads, size, size)
    if table.numel():
        scores = scores + table[_offsets(cut, query.device)].permute(2, 0, 1).to(scores.dtype)
    allowed = valid[:, None, :] & (shift_region[:, :, None] == shift_region[:, None, :])
    weights = scores.masked_fill(~allowed[:, None], torch.finfo(scores.dtype).min / 2).softmax(-1)
    if dropout_factor is not None:
        weights = weights * dropout_factor[:, :, token[:, :, None], token[:, None, :]].transpose(1, 2)
    output: Tensor = (weights @ v).transpose(2, 3).flatten(3)  # (batch, groups, size, width)
    if taps[0].numel():
        output = output + _filtered(value[:, token] * valid[..., None], cut, *taps)
    return output[:, valid][:, token[valid].argsort()]


def _filtered(value: Tensor, cut: Rectangles, taps: Tensor, constant: Tensor) -> Tensor:
    """Convolves the values inside each group: (batch, groups, size, width) -> (batch, groups, size, width)"""
    tiles: Tensor = value.flatten(0, 1).transpose(1, 2).unflatten(2, (cut.rows.members, cut.columns.members))
    filtered = F.conv2d(tiles, taps.to(value.dtype), constant.to(value.dtype), padding=1, groups=len(taps))
    return filtered.flatten(2).transpose(1, 2).reshape(value.shape)


def _offsets(cut: Rectangles, device: torch.device) -> Tensor:
    """Returns the row of the table for each query and key, (size, size)."""
    rows, columns = cut.rows.members, cut.columns.members
    member = torch.arange(cut.size, device=device)
    along = member // columns * (2 * columns - 1) + member % columns
    return along[:, None] - along[None, :] + (rows - 1) * (2 * columns - 1) + columns - 1
