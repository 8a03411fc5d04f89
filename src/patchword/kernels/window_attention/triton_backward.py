# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The gradient of attention inside rectangles: weights are computed anew from the kept sums, nothing else is held.

With P the weights and dO the gradient of the answer: dV = P' dO, dP = dO V', dS = P * (dP - rows' sums of P * dP),
dQ = dS K * scale, dK = dS' Q * scale, and dS is the gradient of the biases. Where weights are dropped, dV is made of
what is left of P, and dP loses the same places. Only to be imported where Triton is.
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import bias_of, product, read, scores_of, spread, token_of, write
from patchword.kernels.window_attention.triton import dropped, part_of


@triton.jit
def whole_back(
    query, key, value, table, gradient, sums, to_query, to_key, to_value, to_bias, seeds,
    start, beside, image_stride, stride, back, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, biased: tl.constexpr, masked: tl.constexpr,
    tile: tl.constexpr, width: tl.constexpr, lowest: tl.constexpr, raised: tl.constexpr,
):  # fmt: skip
    """Groups that fit into one tile. A program stays with a head and a place on the map and walks over the images; it
    sums the gradients of the biases as it goes."""
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, first, answers = rows[0] * columns[0], start + head * head_width, all_heads * head_width
    total = tl.zeros((tile, tile), tl.float32)
    for inner in range(tl.program_id(1), rows[2] * columns[2], tl.num_programs(1)):
        token, there = token_of(rows, columns, inner, member)
        places, mask = spread(token, there, stride, head_width, width)
        grown, _ = spread(token, there, answers, head_width, width)
        bias = bias_of(table, rows, columns, inner, member, member, head, heads, biased, masked)
        for image in range(tl.program_id(2), batch, tl.num_programs(2)):
            far = tl.cast(image, tl.int64)
            above, slopes_at = far * image_stride + first, gradient + far * tokens * answers + first
            q = tl.load(query + above + places, mask=mask, other=0.0)
            k = tl.load(key + above + beside + places, mask=mask, other=0.0)
            v = tl.load(value + above + 2 * beside + places, mask=mask, other=0.0)
            g = tl.load(slopes_at + grown, mask=mask, other=0.0)
            row = far * all_heads + start // head_width + head
            kept = tl.load(sums + row * tokens + token, mask=there, other=0.0)
            weights = tl.exp2(scores_of(q, k, bias, scale) - kept[:, None])
            below = far * tokens * back + first
            left = weights
            if raised > 0:
                left = dropped(weights, seeds, row, tokens, token, token, lowest, raised)
            for_value = product(tl.trans(left.to(g.dtype)), g)
            write(to_value + below + 2 * beside, token, there, back, for_value, head_width, width)
            passed = product(g, tl.trans(v))
            if raised > 0:
                passed = dropped(passed, seeds, row, tokens, token, token, lowest, raised)
            slopes = weights * (passed - tl.sum(weights * passed, 1)[:, None])
            if biased:
                total += slopes
            short = slopes.to(q.dtype)
            for_key = product(tl.trans(short), q) * scale
            write(to_key + below + beside, token, there, back, for_key, head_width, width)
            for_query = product(short, k) * scale
            write(to_query + below, token, there, back, for_query, head_width, width)
    if biased:
        part = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * heads + head
        tl.store(to_bias + part * tile * tile + member[:, None] * tile + member[None, :], total)


@triton.jit
def queries_back(
    query, key, value, table, merged, gradient, sums, means, to_query,
    start, beside, image_stride, stride, back, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, biased: tl.constexpr, masked: tl.constexpr,
    tile: tl.constexpr, width: tl.constexpr, met: tl.constexpr, local: tl.constexpr,
):  # fmt: skip
    """Larger groups: a tile of queries meets the keys. `means` keeps the rows' sums of P * dP for the rest: they are
    those of dO * O, but where O holds a filter of the values, too (`local`), the keys are met once more for them."""
    tokens, size, answers = rows[0] * columns[0], rows[1] * columns[1], all_heads * head_width
    head, image, inner, member = part_of(rows, columns, heads, tile)
    first, above = start + head * head_width, image * image_stride + start + head * head_width
    token, there = token_of(rows, columns, inner, member)
    q = read(query + above, token, there, stride, head_width, width)
    g = read(gradient + image * tokens * answers + first, token, there, answers, head_width, width)
    at = (image * all_heads + start // head_width + head) * tokens + token
    kept = tl.load(sums + at, mask=there, other=0.0)
    mean = tl.zeros((tile,), tl.float32)
    if local:
        for begin in range(0, size, met):
            other = begin + tl.arange(0, met)
            key_token, key_there = token_of(rows, columns, inner, other)
            k = read(key + above + beside, key_token, key_there, stride, head_width, width)
            v = read(value + above + 2 * beside, key_token, key_there, stride, head_width, width)
            bias = bias_of(table, rows, columns, inner, member, other, head, heads, biased, masked)
            weights = tl.exp2(scores_of(q, k, bias, scale) - kept[:, None])
            mean += tl.sum(weights * product(g, tl.trans(v)), 1)
    else:
        answer = read(merged + image * tokens * answers + first, token, there, answers, head_width, width)
        mean = tl.sum(g.to(tl.float32) * answer.to(tl.float32), 1)
    tl.store(means + at, mean, mask=there)
    total = tl.zeros((tile, width), tl.float32)
    for begin in range(0, size, met):
        other = begin + tl.arange(0, met)
        key_token, key_there = token_of(rows, columns, inner, other)
        k = read(key + above + beside, key_token, key_there, stride, head_width, width)
        v = read(value + above + 2 * beside, key_token, key_there, stride, head_width, width)
        bias = bias_of(table, rows, columns, inner, member, other, head, heads, biased, masked)
        weights = tl.exp2(scores_of(q, k, bias, scale) - kept[:, None])
        slopes = weights * (product(g, tl.trans(v)) - mean[:, None])
        total += product(slopes.to(k.dtype), k)
    write(to_query + image * tokens * back + first, token, there, back, total * scale, head_width, width)


@triton.jit
def keys_back(
    query, key, value, table, gradient, sums, means, to_key, to_value,
    start, beside, image_stride, stride, back, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, biased: tl.constexpr, masked: tl.constexpr,
    tile: tl.constexpr, width: tl.constexpr, met: tl.constexpr,
):  # fmt: skip
    """Larger groups: a tile of keys and their values meets the queries."""
    tokens, size, answers = rows[0] * columns[0], rows[1] * columns[1], all_heads * head_width
    head, image, inner, member = part_of(rows, columns, heads, tile)
    first, above = start + head * head_width, image * image_stride + start + head * head_width
    token, there = token_of(rows, columns, inner, member)
    k = read(key + above + beside, token, there, stride, head_width, width)
    v = read(value + above + 2 * beside, token, there, stride, head_width, width)
    slopes_at = gradient + image * tokens * answers + first
    for_key, for_value = tl.zeros((tile, width), tl.float32), tl.zeros((tile, width), tl.float32)
    for begin in range(0, size, met):
        other = begin + tl.arange(0, met)
        reader, reader_there = token_of(rows, columns, inner, other)
        q = read(query + above, reader, reader_there, stride, head_width, width)
        g = read(slopes_at, reader, reader_there, answers, head_width, width)
        at = (image * all_heads + start // head_width + head) * tokens + reader
        kept = tl.load(sums + at, mask=reader_there, other=0.0)
        mean = tl.load(means + at, mask=reader_there, other=0.0)
        bias = bias_of(table, rows, columns, inner, other, member, head, heads, biased, masked)
        weights = tl.exp2(scores_of(q, k, bias, scale) - kept[:, None])
        slopes = weights * (product(g, tl.trans(v)) - mean[:, None])
        for_value += product(tl.trans(weights.to(g.dtype)), g)
        for_key += product(tl.trans(slopes.to(q.dtype)), q)
    below = image * tokens * back + first
    write(to_key + below + beside, token, there, back, for_key * scale, head_width, width)
    write(to_value + below + 2 * beside, token, there, back, for_value, head_width, width)
