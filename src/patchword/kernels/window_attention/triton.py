# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Attention inside rectangles of a map, as one kernel that reads and writes tokens where they lie. The twin: windows.

Only to be imported where Triton is installed. What the numbers of a kernel mean is told in window_launch.Lying.
"""

import triton
import triton.language as tl

from patchword.kernels.common.counter_rng_triton import kept_of
from patchword.kernels.window_attention.index_triton import (
    LOG2_E,
    bias_of,
    product,
    read,
    scores_of,
    spread,
    token_of,
    write,
)


@triton.jit
def whole(
    query, key, value, table, merged, sums, seeds,
    start, beside, image_stride, stride, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, biased: tl.constexpr, masked: tl.constexpr,
    tile: tl.constexpr, width: tl.constexpr, lowest: tl.constexpr, raised: tl.constexpr,
):  # fmt: skip
    """Groups that fit into one tile. A program stays with a head and a place on the map and walks over the images, so
    that where tokens lie, their biases and who meets whom is found once for all of them. Weights whose number is lower
    than `lowest` are dropped, and the others `raised`, if that is not 0."""
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, first, answers = rows[0] * columns[0], start + head * head_width, all_heads * head_width
    for inner in range(tl.program_id(1), rows[2] * columns[2], tl.num_programs(1)):
        token, there = token_of(rows, columns, inner, member)
        places, mask = spread(token, there, stride, head_width, width)
        bias = bias_of(table, rows, columns, inner, member, member, head, heads, biased, masked)
        for image in range(tl.program_id(2), batch, tl.num_programs(2)):
            above = tl.cast(image, tl.int64) * image_stride + first
            q = tl.load(query + above + places, mask=mask, other=0.0)
            k = tl.load(key + above + beside + places, mask=mask, other=0.0)
            v = tl.load(value + above + 2 * beside + places, mask=mask, other=0.0)
            scores = scores_of(q, k, bias, scale)
            most = tl.max(scores, 1)
            weights = tl.exp2(scores - most[:, None])
            total = tl.sum(weights, 1)
            row = tl.cast(image, tl.int64) * all_heads + start // head_width + head
            if raised > 0:
                weights = dropped(weights, seeds, row, tokens, token, token, lowest, raised)
            answer = product(weights.to(v.dtype), v) * (1.0 / total)[:, None]
            write(
                merged + tl.cast(image, tl.int64) * tokens * answers + first,
                token,
                there,
                answers,
                answer,
                head_width,
                width,
            )
            tl.store(sums + row * tokens + token, most + tl.log2(total), mask=there)


@triton.jit
def pieces(
    query, key, value, table, merged, sums, start, beside, image_stride, stride, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, biased: tl.constexpr, masked: tl.constexpr,
    tile: tl.constexpr, width: tl.constexpr, met: tl.constexpr, rest: tl.constexpr,
):  # fmt: skip
    """Larger groups: a program has one tile of queries and meets the keys, `met` at a time, and then the last `rest`,
    if that is not 0, of which some are not there. masked: not all that come before are there for all."""
    tokens, size, answers = rows[0] * columns[0], rows[1] * columns[1], all_heads * head_width
    head, image, inner, member = part_of(rows, columns, heads, tile)
    first, above = start + head * head_width, image * image_stride + start + head * head_width
    token, there = token_of(rows, columns, inner, member)
    q = read(query + above, token, there, stride, head_width, width)
    keys, values = key + above + beside, value + above + 2 * beside
    most = tl.full((tile,), -1e38, tl.float32)
    total = tl.zeros((tile,), tl.float32)
    answer = tl.zeros((tile, width), tl.float32)
    for begin in range(0, size // met * met, met):
        other = begin + tl.arange(0, met)
        bias = bias_of(table, rows, columns, inner, member, other, head, heads, biased, masked)
        k, v = _others(keys, values, rows, columns, inner, other, stride, head_width, width, masked)
        most, total, answer = _meet(q, k, v, bias, scale, most, total, answer, biased or masked)
    if rest > 0:
        other = size // met * met + tl.arange(0, rest)
        bias = bias_of(table, rows, columns, inner, member, other, head, heads, biased, True)
        k, v = _others(keys, values, rows, columns, inner, other, stride, head_width, width, True)
        most, total, answer = _meet(q, k, v, bias, scale, most, total, answer, True)
    answer = answer * (1.0 / total)[:, None]
    write(merged + image * tokens * answers + first, token, there, answers, answer, head_width, width)
    row = image * all_heads + start // head_width + head
    tl.store(sums + row * tokens + token, most + tl.log2(total), mask=there)


@triton.jit
def _others(
    keys, values, rows: tl.constexpr, columns: tl.constexpr, inner, other, stride, head_width: tl.constexpr,
    width: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """their keys and values"""
    token, there = token_of(rows, columns, inner, other)
    if not masked:
        there = tl.full(other.shape, True, tl.int1)
    return read(keys, token, there, stride, head_width, width), read(values, token, there, stride, head_width, width)


@triton.jit
def _meet(q, k, v, bias, scale, most, total, answer, biased: tl.constexpr):
    """Queries that have met others meet these, too. Scores without a bias are scaled where they are raised, which saves
    a step for each; scale: more than 0"""
    if biased:
        scores = scores_of(q, k, bias, scale)
        higher = tl.maximum(most, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
    else:
        scores = product(q, tl.trans(k))
        higher = tl.maximum(most, tl.max(scores, 1) * (scale * LOG2_E))
        weights = tl.exp2(scores * (scale * LOG2_E) - higher[:, None])
    fading = tl.exp2(most - higher)
    total = total * fading + tl.sum(weights, 1)
    return higher, total, answer * fading[:, None] + product(weights.to(v.dtype), v)


@triton.jit
def part_of(rows: tl.constexpr, columns: tl.constexpr, heads, tile: tl.constexpr):
    """what a program has where groups are larger than a tile: its head, image, group and members"""
    parts, groups = tl.cdiv(rows[1] * columns[1], tile), rows[2] * columns[2]
    part, pair = tl.program_id(0) % parts, tl.program_id(0) // parts
    group = pair // heads
    return pair % heads, tl.cast(group // groups, tl.int64), group % groups, part * tile + tl.arange(0, tile)


@triton.jit
def dropped(weights, seeds, row, tokens, query, key, lowest: tl.constexpr, raised: tl.constexpr):
    """row: the number of the image and its head; query and key: their tokens"""
    place = (row.to(tl.int32) * tokens + query)[:, None] * tokens + key[None, :]
    return tl.where(kept_of(seeds, place, lowest), weights * raised, 0.0)
