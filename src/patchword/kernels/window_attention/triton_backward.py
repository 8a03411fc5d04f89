# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Triton kernels for the backward pass of window attention, which recompute the weights from the saved log-sum-exp.

With P the weights and dO the gradient of the output: dV = P' dO, dP = dO V', dS = P * (dP - row sums of P * dP),
dQ = dS K * scale, dK = dS' Q * scale, and dS is the gradient of the biases. With dropout, dV uses the weights that were
kept, and dP is dropped at the same indices. Import it only where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import (
    UNSPECIALIZED,
    channel_offsets,
    compute_scores,
    dot,
    group_at,
    load_bias,
    load_tokens,
    store_tokens,
    token_of,
)
from patchword.kernels.window_attention.triton import apply_dropout, program_indices


@triton.jit(do_not_specialize=UNSPECIALIZED)
def single_tile_backward(
    query, key, value, table, grad_output, logsumexp, grad_query, grad_key, grad_value, grad_bias, seeds,
    start, qkv_step, image_stride, stride, output_stride, grad_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, has_bias: tl.constexpr,
    pads_tile: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
    lowest_kept: tl.constexpr, dropout_scale: tl.constexpr,
):  # fmt: skip
    """All gradients of groups that fit into one tile. A program has one head and one group of the map, loops over the
    images, and sums the gradients of the biases."""
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, first_channel = row_length * column_length, start + head * head_width
    sizes = row_length, row_groups, column_length, column_groups
    total = tl.zeros((tile, tile), tl.float32)
    for number in range(tl.program_id(1), row_groups * column_groups, tl.num_programs(1)):
        group = group_at(rows, columns, sizes, number)
        token, valid = token_of(rows, columns, group, member, pads_tile)
        offsets, mask = channel_offsets(token, valid, stride, head_width, width)
        grad_offsets, _ = channel_offsets(token, valid, output_stride, head_width, width)
        bias = load_bias(table, rows, columns, group, member, member, head, heads, has_bias, pads_tile)
        for image in range(tl.program_id(2), batch, tl.num_programs(2)):
            image_index = tl.cast(image, tl.int64)
            base, grad_output_base = (
                image_index * image_stride + first_channel,
                grad_output + image_index * tokens * output_stride + first_channel,
            )
            q = tl.load(query + base + offsets, mask=mask, other=0.0)
            k = tl.load(key + base + qkv_step + offsets, mask=mask, other=0.0)
            v = tl.load(value + base + 2 * qkv_step + offsets, mask=mask, other=0.0)
            g = tl.load(grad_output_base + grad_offsets, mask=mask, other=0.0)
            row = image_index * all_heads + start // head_width + head
            lse = tl.load(logsumexp + row * tokens + token, mask=valid, other=0.0)
            weights = tl.exp2(compute_scores(q, k, bias, scale) - lse[:, None])
            grad_base = image_index * tokens * grad_stride + first_channel
            kept_weights = weights
            if dropout_scale > 0:
                kept_weights = apply_dropout(weights, seeds, row, tokens, token, token, lowest_kept, dropout_scale)
            dv = dot(tl.trans(kept_weights.to(g.dtype)), g)
            store_tokens(grad_value + grad_base + 2 * qkv_step, token, valid, grad_stride, dv, head_width, width)
            weight_grad = dot(g, tl.trans(v))
            if dropout_scale > 0:
                weight_grad = apply_dropout(weight_grad, seeds, row, tokens, token, token, lowest_kept, dropout_scale)
            score_grad = weights * (weight_grad - tl.sum(weights * weight_grad, 1)[:, None])
            if has_bias:
                total += score_grad
            score_grad_cast = score_grad.to(q.dtype)
            dk = dot(tl.trans(score_grad_cast), q) * scale
            store_tokens(grad_key + grad_base + qkv_step, token, valid, grad_stride, dk, head_width, width)
            dq = dot(score_grad_cast, k) * scale
            store_tokens(grad_query + grad_base, token, valid, grad_stride, dq, head_width, width)
    if has_bias:
        part = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * heads + head
        tl.store(grad_bias + part * tile * tile + member[:, None] * tile + member[None, :], total)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def query_backward(
    query, key, value, table, output, grad_output, logsumexp, delta, grad_query,
    start, qkv_step, image_stride, stride, output_stride, grad_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, has_bias: tl.constexpr,
    pads_tile: tl.constexpr, tile: tl.constexpr, width: tl.constexpr, key_block: tl.constexpr, local: tl.constexpr,
):  # fmt: skip
    """The gradient of a tile of queries, for larger groups.

    Stores the row sums of P * dP in `delta`, for the other kernels. They equal the row sums of dO * O, except where O
    also contains a convolution of the values (`local`): then they are computed in a loop over the keys of their own.
    """
    tokens, size = row_length * column_length, rows[0] * columns[0]
    head, image, number, member = program_indices(rows, columns, row_groups * column_groups, heads, tile)
    group = group_at(rows, columns, (row_length, row_groups, column_length, column_groups), number)
    first_channel, base = start + head * head_width, image * image_stride + start + head * head_width
    token, valid = token_of(rows, columns, group, member, pads_tile)
    q = load_tokens(query + base, token, valid, stride, head_width, width)
    g = load_tokens(
        grad_output + image * tokens * output_stride + first_channel, token, valid, output_stride, head_width, width
    )
    row_index = (image * all_heads + start // head_width + head) * tokens + token
    lse = tl.load(logsumexp + row_index, mask=valid, other=0.0)
    row_delta = tl.zeros((tile,), tl.float32)
    if local:
        for begin in range(0, size, key_block):
            other = begin + tl.arange(0, key_block)
            key_token, key_valid = token_of(rows, columns, group, other, pads_tile)
            k = load_tokens(key + base + qkv_step, key_token, key_valid, stride, head_width, width)
            v = load_tokens(value + base + 2 * qkv_step, key_token, key_valid, stride, head_width, width)
            bias = load_bias(table, rows, columns, group, member, other, head, heads, has_bias, pads_tile)
            weights = tl.exp2(compute_scores(q, k, bias, scale) - lse[:, None])
            row_delta += tl.sum(weights * dot(g, tl.trans(v)), 1)
    else:
        out = load_tokens(
            output + image * tokens * output_stride + first_channel, token, valid, output_stride, head_width, width
        )
        row_delta = tl.sum(g.to(tl.float32) * out.to(tl.float32), 1)
    tl.store(delta + row_index, row_delta, mask=valid)
    total = tl.zeros((tile, width), tl.float32)
    for begin in range(0, size, key_block):
        other = begin + tl.arange(0, key_block)
        key_token, key_valid = token_of(rows, columns, group, other, pads_tile)
        k = load_tokens(key + base + qkv_step, key_token, key_valid, stride, head_width, width)
        v = load_tokens(value + base + 2 * qkv_step, key_token, key_valid, stride, head_width, width)
        bias = load_bias(table, rows, columns, group, member, other, head, heads, has_bias, pads_tile)
        weights = tl.exp2(compute_scores(q, k, bias, scale) - lse[:, None])
        score_grad = weights * (dot(g, tl.trans(v)) - row_delta[:, None])
        total += dot(score_grad.to(k.dtype), k)
    store_tokens(
        grad_query + image * tokens * grad_stride + first_channel,
        token,
        valid,
        grad_stride,
        total * scale,
        head_width,
        width,
    )


@triton.jit(do_not_specialize=UNSPECIALIZED)
def key_value_backward(
    query, key, value, table, grad_output, logsumexp, delta, grad_key, grad_value,
    start, qkv_step, image_stride, stride, output_stride, grad_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, has_bias: tl.constexpr,
    pads_tile: tl.constexpr, tile: tl.constexpr, width: tl.constexpr, key_block: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of keys and values, for larger groups: loops over blocks of queries."""
    tokens, size = row_length * column_length, rows[0] * columns[0]
    head, image, number, member = program_indices(rows, columns, row_groups * column_groups, heads, tile)
    group = group_at(rows, columns, (row_length, row_groups, column_length, column_groups), number)
    first_channel, base = start + head * head_width, image * image_stride + start + head * head_width
    token, valid = token_of(rows, columns, group, member, pads_tile)
    k = load_tokens(key + base + qkv_step, token, valid, stride, head_width, width)
    v = load_tokens(value + base + 2 * qkv_step, token, valid, stride, head_width, width)
    grad_output_base = grad_output + image * tokens * output_stride + first_channel
    dk, dv = tl.zeros((tile, width), tl.float32), tl.zeros((tile, width), tl.float32)
    for begin in range(0, size, key_block):
        other = begin + tl.arange(0, key_block)
        query_token, query_valid = token_of(rows, columns, group, other, pads_tile)
        q = load_tokens(query + base, query_token, query_valid, stride, head_width, width)
        g = load_tokens(grad_output_base, query_token, query_valid, output_stride, head_width, width)
        row_index = (image * all_heads + start // head_width + head) * tokens + query_token
        lse = tl.load(logsumexp + row_index, mask=query_valid, other=0.0)
        row_delta = tl.load(delta + row_index, mask=query_valid, other=0.0)
        bias = load_bias(table, rows, columns, group, other, member, head, heads, has_bias, pads_tile)
        weights = tl.exp2(compute_scores(q, k, bias, scale) - lse[:, None])
        score_grad = weights * (dot(g, tl.trans(v)) - row_delta[:, None])
        dv += dot(tl.trans(weights.to(g.dtype)), g)
        dk += dot(tl.trans(score_grad.to(q.dtype)), q)
    grad_base = image * tokens * grad_stride + first_channel
    store_tokens(grad_key + grad_base + qkv_step, token, valid, grad_stride, dk * scale, head_width, width)
    store_tokens(grad_value + grad_base + 2 * qkv_step, token, valid, grad_stride, dv, head_width, width)
