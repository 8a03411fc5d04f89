# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Triton kernels of window attention, which read and write tokens in place; reference.py computes the same.

Import it only where Triton is installed. launch.Layout documents the integer arguments.
"""

import triton
import triton.language as tl

from patchword.kernels.common.counter_rng_triton import keep_mask
from patchword.kernels.window_attention.index_triton import (
    LOG2_E,
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


@triton.jit(do_not_specialize=UNSPECIALIZED)
def single_tile(
    query, key, value, table, output, logsumexp, seeds,
    start, qkv_step, image_stride, stride, output_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, has_bias: tl.constexpr,
    pads_tile: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
    lowest_kept: tl.constexpr, dropout_scale: tl.constexpr,
):  # fmt: skip
    """Attention in groups that fit into one tile.

    A program has one head and one group of the map and loops over the images, so that it computes token indices, biases
    and masks once for all of them. If dropout_scale is not 0, weights whose random number is below lowest_kept are
    dropped, and the others are multiplied by dropout_scale.
    """
    head, member = tl.program_id(0), tl.arange(0, tile)
    tokens, first_channel = row_length * column_length, start + head * head_width
    sizes = row_length, row_groups, column_length, column_groups
    for number in range(tl.program_id(1), row_groups * column_groups, tl.num_programs(1)):
        group = group_at(rows, columns, sizes, number)
        token, valid = token_of(rows, columns, group, member, pads_tile)
        offsets, mask = channel_offsets(token, valid, stride, head_width, width)
        bias = load_bias(table, rows, columns, group, member, member, head, heads, has_bias, pads_tile)
        for image in range(tl.program_id(2), batch, tl.num_programs(2)):
            base = tl.cast(image, tl.int64) * image_stride + first_channel
            q = tl.load(query + base + offsets, mask=mask, other=0.0)
            k = tl.load(key + base + qkv_step + offsets, mask=mask, other=0.0)
            v = tl.load(value + base + 2 * qkv_step + offsets, mask=mask, other=0.0)
            scores = compute_scores(q, k, bias, scale)
            row_max = tl.max(scores, 1)
            weights = tl.exp2(scores - row_max[:, None])
            total = tl.sum(weights, 1)
            row = tl.cast(image, tl.int64) * all_heads + start // head_width + head
            if dropout_scale > 0:
                weights = apply_dropout(weights, seeds, row, tokens, token, token, lowest_kept, dropout_scale)
            out = dot(weights.to(v.dtype), v) * (1.0 / total)[:, None]
            store_tokens(
                output + tl.cast(image, tl.int64) * tokens * output_stride + first_channel,
                token,
                valid,
                output_stride,
                out,
                head_width,
                width,
            )
            tl.store(logsumexp + row * tokens + token, row_max + tl.log2(total), mask=valid)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def tiled(
    query, key, value, table, output, logsumexp,
    start, qkv_step, image_stride, stride, output_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, has_bias: tl.constexpr, tile: tl.constexpr,
    width: tl.constexpr, key_block: tl.constexpr, last_block: tl.constexpr,
):  # fmt: skip
    """Attention in larger groups: a program has one tile of queries and loops over blocks of keys.

    last_block: size of the block after the last full one, some keys of which are padding; 0 if there is none.
    """
    tokens, size = row_length * column_length, rows[0] * columns[0]
    head, image, number, member = program_indices(rows, columns, row_groups * column_groups, heads, tile)
    group = group_at(rows, columns, (row_length, row_groups, column_length, column_groups), number)
    first_channel, base = start + head * head_width, image * image_stride + start + head * head_width
    token, valid = token_of(rows, columns, group, member, True)
    q = load_tokens(query + base, token, valid, stride, head_width, width)
    keys, values = key + base + qkv_step, value + base + 2 * qkv_step
    has_mask: tl.constexpr = rows[2] + rows[3] + columns[2] + columns[3] > 0
    row_max = tl.full((tile,), -1e38, tl.float32)
    total = tl.zeros((tile,), tl.float32)
    out = tl.zeros((tile, width), tl.float32)
    for begin in range(0, size // key_block * key_block, key_block):
        other = begin + tl.arange(0, key_block)
        bias = load_bias(table, rows, columns, group, member, other, head, heads, has_bias, False)
        k, v = _load_keys_values(keys, values, rows, columns, group, other, stride, head_width, width, False)
        row_max, total, out = _attend_block(q, k, v, bias, scale, row_max, total, out, has_bias or has_mask)
    if last_block > 0:
        other = size // key_block * key_block + tl.arange(0, last_block)
        bias = load_bias(table, rows, columns, group, member, other, head, heads, has_bias, True)
        k, v = _load_keys_values(keys, values, rows, columns, group, other, stride, head_width, width, True)
        row_max, total, out = _attend_block(q, k, v, bias, scale, row_max, total, out, True)
    out = out * (1.0 / total)[:, None]
    store_tokens(
        output + image * tokens * output_stride + first_channel, token, valid, output_stride, out, head_width, width
    )
    row = image * all_heads + start // head_width + head
    tl.store(logsumexp + row * tokens + token, row_max + tl.log2(total), mask=valid)


@triton.jit
def _load_keys_values(
    keys, values, rows: tl.constexpr, columns: tl.constexpr, group, other, stride, head_width: tl.constexpr,
    width: tl.constexpr, pads_tile: tl.constexpr,
):  # fmt: skip
    """Loads the keys and values of the members `other`."""
    token, valid = token_of(rows, columns, group, other, pads_tile)
    return load_tokens(keys, token, valid, stride, head_width, width), load_tokens(
        values, token, valid, stride, head_width, width
    )


@triton.jit
def _attend_block(q, k, v, bias, scale, row_max, total, out, has_bias: tl.constexpr):
    """Adds a block of keys and values to the running softmax. Without a bias the scale is applied inside the
    exponential, which saves one multiplication per score; scale must be positive."""
    if has_bias:
        scores = compute_scores(q, k, bias, scale)
        new_max = tl.maximum(row_max, tl.max(scores, 1))
        weights = tl.exp2(scores - new_max[:, None])
    else:
        scores = dot(q, tl.trans(k))
        new_max = tl.maximum(row_max, tl.max(scores, 1) * (scale * LOG2_E))
        weights = tl.exp2(scores * (scale * LOG2_E) - new_max[:, None])
    rescale = tl.exp2(row_max - new_max)
    total = total * rescale + tl.sum(weights, 1)
    return new_max, total, out * rescale[:, None] + dot(weights.to(v.dtype), v)


@triton.jit
def program_indices(rows: tl.constexpr, columns: tl.constexpr, groups, heads, tile: tl.constexpr):
    """Returns the head, image, number of the group and members of a program, for groups larger than a tile."""
    parts = tl.cdiv(rows[0] * columns[0], tile)
    part, pair = tl.program_id(0) % parts, tl.program_id(0) // parts
    group = pair // heads
    return pair % heads, tl.cast(group // groups, tl.int64), group % groups, part * tile + tl.arange(0, tile)


@triton.jit
def apply_dropout(weights, seeds, row, tokens, query, key, lowest_kept: tl.constexpr, dropout_scale: tl.constexpr):
    """Drops weights. row: index of the image and head. query, key: token indices"""
    index = (row.to(tl.int32) * tokens + query)[:, None] * tokens + key[None, :]
    return tl.where(keep_mask(seeds, index, lowest_kept), weights * dropout_scale, 0.0)
