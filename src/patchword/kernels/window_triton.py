# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Attention inside rectangles of a map, as one kernel that reads and writes tokens where they lie. The twin: windows.

Only to be imported where Triton is installed.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.window_index import LOG2_E, bias_of, image_of, meets, product, read, spot, write
from patchword.kernels.window_local import local_of
from patchword.kernels.window_plan import Rectangles, launch, walkers

_FORBIDDEN = tl.constexpr(-1e30)  # finite, so that a member that reads nothing is no NaN


@triton.jit
def _whole(
    query, key, value, table, taps, merged, sums, strides, rows, columns, shape, scale,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Groups that fit into one tile. A program stays with its head, whose biases it holds, and walks over groups."""
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, heads, head_width, all_heads, count = shape
    bias = bias_of(table, rows, columns, member, member, head, heads, biased)
    for group in range(tl.program_id(1), count, tl.num_programs(1)):
        image, inner = image_of(group, rows, columns)
        token, there, seam = spot(rows, columns, inner, member)
        start = head * head_width
        q = read(query + image * strides[0] + start, token, there, strides[1], head_width, width)
        k = read(key + image * strides[2] + start, token, there, strides[3], head_width, width)
        v = read(value + image * strides[4] + start, token, there, strides[5], head_width, width)
        scores = product(q, tl.trans(k)) * (scale * LOG2_E)
        if biased:
            scores += bias
        scores = tl.where(meets(there, there, seam, seam, seams), scores, _FORBIDDEN)
        most = tl.max(scores, 1)
        weights = tl.exp2(scores - most[:, None])
        total = tl.sum(weights, 1)
        answer = product(weights.to(v.dtype), v) / total[:, None]
        if local:
            values = value + image * strides[4] + start
            answer += local_of(values, taps, rows, columns, inner, member, start, strides[5], head_width, width, 1)
        write(merged + image * strides[6] + start, token, there, strides[7], head_width, answer, width)
        tl.store(sums + (image * all_heads + head) * tokens + token, most + tl.log2(total), mask=there)


@triton.jit
def _pieces(
    query, key, value, table, taps, merged, sums, strides, rows, columns, shape, scale,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Larger groups: a program has one tile of queries and meets the keys tile by tile."""
    tokens, heads, head_width, all_heads, _ = shape
    size = rows[1] * columns[1]
    pieces = tl.cdiv(size, tile)
    piece, pair = tl.program_id(0) % pieces, tl.program_id(0) // pieces
    head = pair % heads
    image, inner = image_of(pair // heads, rows, columns)
    member, start = piece * tile + tl.arange(0, tile), head * head_width
    token, there, seam = spot(rows, columns, inner, member)
    q = read(query + image * strides[0] + start, token, there, strides[1], head_width, width)
    most = tl.full((tile,), -1e38, tl.float32)
    total = tl.zeros((tile,), tl.float32)
    answer = tl.zeros((tile, width), tl.float32)
    for first in range(0, size, tile):
        other = first + tl.arange(0, tile)
        key_token, key_there, key_seam = spot(rows, columns, inner, other)
        k = read(key + image * strides[2] + start, key_token, key_there, strides[3], head_width, width)
        v = read(value + image * strides[4] + start, key_token, key_there, strides[5], head_width, width)
        scores = product(q, tl.trans(k)) * (scale * LOG2_E)
        if biased:
            scores += bias_of(table, rows, columns, member, other, head, heads, biased)
        scores = tl.where(meets(there, key_there, seam, key_seam, seams), scores, _FORBIDDEN)
        higher = tl.maximum(most, tl.max(scores, 1))
        fading = tl.exp2(most - higher)
        weights = tl.exp2(scores - higher[:, None])
        total = total * fading + tl.sum(weights, 1)
        answer = answer * fading[:, None] + product(weights.to(v.dtype), v)
        most = higher
    answer = answer / total[:, None]
    if local:
        values = value + image * strides[4] + start
        answer += local_of(values, taps, rows, columns, inner, member, start, strides[5], head_width, width, 1)
    write(merged + image * strides[6] + start, token, there, strides[7], head_width, answer, width)
    tl.store(sums + (image * all_heads + head) * tokens + token, most + tl.log2(total), mask=there)


def attend(
    three: list[Tensor], table: Tensor | None, taps: Tensor | None, merged: Tensor, sums: Tensor, cut: Rectangles,
    heads: int, scale: float,
) -> None:  # fmt: skip
    """One group of heads. three: queries, keys, values; merged: what is written; (batch, tokens, width) each.

    sums: (batch, heads, tokens), the logarithms of the sums of exponentials, which the gradient needs.
    """
    query = three[0]
    plan = launch("forward", cut.size, query.shape[2] // heads, query.dtype)
    given = (*three, table, taps, merged, sums, *numbers(three, merged, cut, sums, heads), scale)
    choices = options(table, taps, cut, plan.tile, plan.width) | {"num_warps": plan.warps, "num_stages": plan.stages}
    count = query.shape[0] * cut.groups
    if plan.whole:
        run: Any = _whole[heads, walkers(count, heads, plan.waves * processors(query.device))]
    else:
        run = _pieces[(count * heads * triton.cdiv(cut.size, plan.tile),)]
    run(*given, **choices)


def numbers(three: list[Tensor], merged: Tensor, cut: Rectangles, sums: Tensor, heads: int) -> tuple[Any, ...]:
    """strides of an image and of a token, both sides of the cut, sizes"""
    strides = tuple(stride for part in (*three, merged) for stride in part.stride()[:2])
    batch, tokens, width = three[0].shape
    shape = (tokens, heads, width // heads, sums.stride(0) // tokens, batch * cut.groups)
    return strides, tuple(cut.rows), tuple(cut.columns), shape


def options(table: Tensor | None, taps: Tensor | None, cut: Rectangles, tile: int, width: int) -> dict[str, Any]:
    seams = bool(cut.rows.shift or cut.columns.shift)
    return {"biased": table is not None, "local": taps is not None, "seams": seams, "tile": tile, "width": width}


def processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1
