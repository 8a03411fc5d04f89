# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The gradient of attention inside rectangles: weights are computed anew from the kept sums, nothing else is held.

With P the weights and dO the gradient of the answer: dV = P' dO, dP = dO V', dS = P * (dP - rows' sums of P * dP),
dQ = dS K * scale, dK = dS' Q * scale, and dS is the gradient of the biases. Only to be imported where Triton is.
"""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.window_index import bias_of, image_of, product, read, spot, weights_of, write
from patchword.kernels.window_local import local_of
from patchword.kernels.window_plan import Rectangles, launch, walkers
from patchword.kernels.window_table import biases_back, fold
from patchword.kernels.window_triton import numbers, options, processors


@triton.jit
def _whole(
    query, key, value, table, taps, gradient, sums, to_query, to_key, to_value, to_bias,
    strides, back, rows, columns, shape, scale,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Groups that fit into one tile. A program walks over groups of its head and sums the gradients of their biases."""
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, heads, head_width, all_heads, count = shape
    start, total = head * head_width, tl.zeros((tile, tile), tl.float32)
    bias = bias_of(table, rows, columns, member, member, head, heads, biased)
    for group in range(tl.program_id(1), count, tl.num_programs(1)):
        image, inner = image_of(group, rows, columns)
        token, there, seam = spot(rows, columns, inner, member)
        q = read(query + image * strides[0] + start, token, there, strides[1], head_width, width)
        k = read(key + image * strides[2] + start, token, there, strides[3], head_width, width)
        v = read(value + image * strides[4] + start, token, there, strides[5], head_width, width)
        above = gradient + image * strides[6] + start
        g = read(above, token, there, strides[7], head_width, width)
        kept = tl.load(sums + (image * all_heads + head) * tokens + token, mask=there, other=0.0)
        weights = weights_of(q, k, bias, kept, there, there, seam, seam, scale, biased, seams)
        passed = product(g, tl.trans(v))
        slopes = weights * (passed - tl.sum(weights * passed, 1)[:, None])
        if biased:
            total += slopes
        for_value = product(tl.trans(weights.to(g.dtype)), g)
        if local:
            for_value += local_of(above, taps, rows, columns, inner, member, start, strides[7], head_width, width, -1)
        write(to_value + image * back[4] + start, token, there, back[5], head_width, for_value, width)
        short = slopes.to(q.dtype)
        for_key = product(tl.trans(short), q) * scale
        write(to_key + image * back[2] + start, token, there, back[3], head_width, for_key, width)
        for_query = product(short, k) * scale
        write(to_query + image * back[0] + start, token, there, back[1], head_width, for_query, width)
    if biased:
        place = (tl.program_id(1) * heads + head) * tile * tile + member[:, None] * tile + member[None, :]
        tl.store(to_bias + place, total)


@triton.jit
def _queries(
    query, key, value, table, taps, merged, gradient, sums, means, to_query,
    strides, back, answers, rows, columns, shape, scale,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Larger groups: a tile of queries meets the keys. `means` keeps the rows' sums of P * dP = dO * O for the rest."""
    tokens, heads, head_width, all_heads, _ = shape
    size = rows[1] * columns[1]
    pieces = tl.cdiv(size, tile)
    piece, pair = tl.program_id(0) % pieces, tl.program_id(0) // pieces
    head = pair % heads
    image, inner = image_of(pair // heads, rows, columns)
    member, start = piece * tile + tl.arange(0, tile), head * head_width
    token, there, seam = spot(rows, columns, inner, member)
    q = read(query + image * strides[0] + start, token, there, strides[1], head_width, width)
    g = read(gradient + image * strides[6] + start, token, there, strides[7], head_width, width)
    answer = read(merged + image * answers[0] + start, token, there, answers[1], head_width, width).to(tl.float32)
    if local:
        values = value + image * strides[4] + start
        answer -= local_of(values, taps, rows, columns, inner, member, start, strides[5], head_width, width, 1)
    mean, at = tl.sum(g.to(tl.float32) * answer, 1), (image * all_heads + head) * tokens + token
    tl.store(means + at, mean, mask=there)
    kept = tl.load(sums + at, mask=there, other=0.0)
    total = tl.zeros((tile, width), tl.float32)
    for first in range(0, size, tile):
        other = first + tl.arange(0, tile)
        key_token, key_there, key_seam = spot(rows, columns, inner, other)
        k = read(key + image * strides[2] + start, key_token, key_there, strides[3], head_width, width)
        v = read(value + image * strides[4] + start, key_token, key_there, strides[5], head_width, width)
        bias = bias_of(table, rows, columns, member, other, head, heads, biased)
        weights = weights_of(q, k, bias, kept, there, key_there, seam, key_seam, scale, biased, seams)
        slopes = weights * (product(g, tl.trans(v)) - mean[:, None])
        total += product(slopes.to(k.dtype), k)
    write(to_query + image * back[0] + start, token, there, back[1], head_width, total * scale, width)


@triton.jit
def _keys(
    query, key, value, table, taps, gradient, sums, means, to_key, to_value,
    strides, back, rows, columns, shape, scale,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Larger groups: a tile of keys and their values meets the queries."""
    tokens, heads, head_width, all_heads, _ = shape
    size = rows[1] * columns[1]
    pieces = tl.cdiv(size, tile)
    piece, pair = tl.program_id(0) % pieces, tl.program_id(0) // pieces
    head = pair % heads
    image, inner = image_of(pair // heads, rows, columns)
    member, start = piece * tile + tl.arange(0, tile), head * head_width
    token, there, seam = spot(rows, columns, inner, member)
    k = read(key + image * strides[2] + start, token, there, strides[3], head_width, width)
    v = read(value + image * strides[4] + start, token, there, strides[5], head_width, width)
    above = gradient + image * strides[6] + start
    for_key, for_value = tl.zeros((tile, width), tl.float32), tl.zeros((tile, width), tl.float32)
    for first in range(0, size, tile):
        other = first + tl.arange(0, tile)
        reader, reader_there, reader_seam = spot(rows, columns, inner, other)
        q = read(query + image * strides[0] + start, reader, reader_there, strides[1], head_width, width)
        g = read(above, reader, reader_there, strides[7], head_width, width)
        at = (image * all_heads + head) * tokens + reader
        kept = tl.load(sums + at, mask=reader_there, other=0.0)
        mean = tl.load(means + at, mask=reader_there, other=0.0)
        bias = bias_of(table, rows, columns, other, member, head, heads, biased)
        weights = weights_of(q, k, bias, kept, reader_there, there, reader_seam, seam, scale, biased, seams)
        slopes = weights * (product(g, tl.trans(v)) - mean[:, None])
        for_value += product(tl.trans(weights.to(g.dtype)), g)
        for_key += product(tl.trans(slopes.to(q.dtype)), q)
    if local:
        for_value += local_of(above, taps, rows, columns, inner, member, start, strides[7], head_width, width, -1)
    write(to_key + image * back[2] + start, token, there, back[3], head_width, for_key * scale, width)
    write(to_value + image * back[4] + start, token, there, back[5], head_width, for_value, width)


def attend_back(
    three: list[Tensor], table: Tensor | None, taps: Tensor | None, merged: Tensor, gradient: Tensor, sums: Tensor,
    back: list[Tensor], cut: Rectangles, heads: int, scale: float,
) -> Tensor | None:  # fmt: skip
    """One group of heads. back: where the gradients of queries, keys and values are written. Returns the table's."""
    query = three[0]
    plan = launch("backward", cut.size, query.shape[2] // heads, query.dtype)
    strides, *others = numbers(three, gradient, cut, sums, heads)
    returned = tuple(stride for part in back for stride in part.stride()[:2])
    chosen = options(table, taps, cut, plan.tile, plan.width) | {"num_warps": plan.warps, "num_stages": plan.stages}
    count = query.shape[0] * cut.groups
    if plan.whole:
        programs = walkers(count, heads, plan.waves * processors(query.device))
        biases = None if table is None else sums.new_empty(programs, heads, plan.tile, plan.tile)
        run: Any = _whole[heads, programs]
        run(*three, table, taps, gradient, sums, *back, biases, strides, returned, *others, scale, **chosen)
        return None if table is None or biases is None else fold(biases, table, cut)
    means = sums.new_empty_strided(sums.shape, sums.stride())  # the heads of other shares lie between, as in sums
    programs = count * heads * triton.cdiv(cut.size, plan.tile)
    answers, run = merged.stride()[:2], _queries[(programs,)]
    run(
        *three,
        table,
        taps,
        merged,
        gradient,
        sums,
        means,
        back[0],
        strides,
        returned,
        answers,
        *others,
        scale,
        **chosen,
    )
    run = _keys[(programs,)]
    run(*three, table, taps, gradient, sums, means, *back[1:], strides, returned, *others, scale, **chosen)
    if table is None:
        return None
    return fold(biases_back(three, table, gradient, sums, means, cut, heads, scale, plan), table, cut)
