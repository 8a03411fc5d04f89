"""The plain twin of attention inside the rectangles of a map, in operations of torch.

It gives the gradient's own gradient, and it is what the kernel is tried against before it is used.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from patchword.kernels.common.counter_rng import lowest_kept, mixed
from patchword.kernels.window_attention.tiling import Rectangles


def window_attention_reference(
    held: list[Tensor], tables: list[Tensor], taps: list[Tensor], cuts: list[Rectangles], heads: int, scale: float,
    seeds: Tensor | None = None, rate: float = 0.0,
) -> Tensor:  # fmt: skip
    """What windows.windows computes."""
    parts = [part.chunk(len(cuts), -1) for part in three(held)]
    answers, (batch, tokens, _) = [], held[0].shape
    shape = torch.Size((batch, len(cuts) * heads, tokens, tokens))
    left = None if seeds is None else (mixed(shape, seeds) >= lowest_kept(rate)).to(held[0].dtype) / (1 - rate)
    for number, cut in enumerate(cuts):
        query, key, value = (part[number] for part in parts)
        own = None if left is None else left[:, number * heads : (number + 1) * heads]
        filtering = taps[2 * number : 2 * number + 2]
        answers.append(_attend(query, key, value, tables[number], filtering, cut, heads, scale, own))
    return torch.cat(answers, -1)


def three(held: list[Tensor]) -> list[Tensor]:
    """queries, keys and values, which may lie side by side in one tensor"""
    return list(held[0].chunk(3, -1)) if len(held) == 1 else held


def _attend(
    query: Tensor, key: Tensor, value: Tensor, table: Tensor, taps: list[Tensor], cut: Rectangles, heads: int,
    scale: float, left: Tensor | None,
) -> Tensor:  # fmt: skip
    """left: (batch, heads, tokens, tokens), what weights are multiplied with where some are dropped"""
    token, there, seam = cut.spots(query.device)
    q, k, v = (part[:, token].unflatten(-1, (heads, -1)).transpose(2, 3) for part in (query, key, value))
    scores = q @ k.transpose(-2, -1) * scale  # (batch, groups, heads, size, size)
    if table.numel():
        scores = scores + table[_offsets(cut, query.device)].permute(2, 0, 1).to(scores.dtype)
    meets = there[:, None, :] & (seam[:, :, None] == seam[:, None, :])
    weights = scores.masked_fill(~meets[:, None], torch.finfo(scores.dtype).min / 2).softmax(-1)
    if left is not None:
        weights = weights * left[:, :, token[:, :, None], token[:, None, :]].transpose(1, 2)
    merged: Tensor = (weights @ v).transpose(2, 3).flatten(3)  # (batch, groups, size, width)
    if taps[0].numel():
        merged = merged + _filtered(value[:, token] * there[..., None], cut, *taps)
    return merged[:, there][:, token[there].argsort()]


def _filtered(value: Tensor, cut: Rectangles, taps: Tensor, constant: Tensor) -> Tensor:
    """(batch, groups, size, width) -> the same"""
    tiles: Tensor = value.flatten(0, 1).transpose(1, 2).unflatten(2, (cut.rows.members, cut.columns.members))
    filtered = F.conv2d(tiles, taps.to(value.dtype), constant.to(value.dtype), padding=1, groups=len(taps))
    return filtered.flatten(2).transpose(1, 2).reshape(value.shape)


def _offsets(cut: Rectangles, device: torch.device) -> Tensor:
    """(size, size): the row of the table for a query and a key"""
    rows, columns = cut.rows.members, cut.columns.members
    member = torch.arange(cut.size, device=device)
    along = member // columns * (2 * columns - 1) + member % columns
    return along[:, None] - along[None, :] + (rows - 1) * (2 * columns - 1) + columns - 1
