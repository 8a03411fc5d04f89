# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Triton kernels for the gradient of a relative position table. Sums have a fixed order and are reproducible.

Import it only where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import (
    UNSPECIALIZED,
    compute_scores,
    dot,
    group_at,
    load_bias,
    load_tokens,
    token_of,
)


@triton.jit(do_not_specialize=UNSPECIALIZED)
def bias_backward(
    query, key, value, table, grad_output, logsumexp, delta, grad_bias,
    start, qkv_step, image_stride, stride, output_stride, batch, heads, all_heads,
    row_length, row_groups, column_length, column_groups, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, pads_tile: tl.constexpr, tile: tl.constexpr,
    width: tl.constexpr,
):  # fmt: skip
    """The gradient of one tile of the biases of one head, for larger groups, summed over the groups of a program."""
    sides, groups = tl.cdiv(rows[0] * columns[0], tile), row_groups * column_groups
    tokens, side = row_length * column_length, sides * tile
    sizes = row_length, row_groups, column_length, column_groups
    head, tile_index = tl.program_id(0) % heads, tl.program_id(0) // heads
    first_channel = start + head * head_width
    member, other_member = (
        tile_index // sides * tile + tl.arange(0, tile),
        tile_index % sides * tile + tl.arange(0, tile),
    )
    total = tl.zeros((tile, tile), tl.float32)
    for number in range(tl.program_id(1), batch * groups, tl.num_programs(1)):
        image, group = tl.cast(number // groups, tl.int64), group_at(rows, columns, sizes, number % groups)
        token, valid = token_of(rows, columns, group, member, pads_tile)
        key_token, key_valid = token_of(rows, columns, group, other_member, pads_tile)
        base = image * image_stride + first_channel
        q = load_tokens(query + base, token, valid, stride, head_width, width)
        g = load_tokens(
            grad_output + image * tokens * output_stride + first_channel, token, valid, output_stride, head_width, width
        )
        k = load_tokens(key + base + qkv_step, key_token, key_valid, stride, head_width, width)
        v = load_tokens(value + base + 2 * qkv_step, key_token, key_valid, stride, head_width, width)
        row_index = (image * all_heads + start // head_width + head) * tokens + token
        lse, row_delta = (
            tl.load(logsumexp + row_index, mask=valid, other=0.0),
            tl.load(delta + row_index, mask=valid, other=0.0),
        )
        bias = load_bias(table, rows, columns, group, member, other_member, head, heads, True, pads_tile)
        weights = tl.exp2(compute_scores(q, k, bias, scale) - lse[:, None])
        total += weights * (dot(g, tl.trans(v)) - row_delta[:, None])
    index = (tl.program_id(1) * heads + head) * side * side + member[:, None] * side + other_member[None, :]
    tl.store(grad_bias + index, total)


@triton.jit(do_not_specialize=("heads",))  # parts stays specialized: its loop is shorter for multiples of 16
def reduce_bias_grad(
    biases, grad_table, parts, heads, rows: tl.constexpr, columns: tl.constexpr, side: tl.constexpr,
    part_block: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Computes one entry of the table: the sum over all parts and all pairs of members with that offset.

    biases: (parts, heads, side, side). rows, columns: members of a group along either side
    """
    offset, head = tl.program_id(0), tl.program_id(1)
    span, size = 2 * columns - 1, rows * columns
    down, right = offset // span - rows + 1, offset % span - columns + 1
    total = tl.zeros((part_block, block), tl.float32)
    for begin in range(0, size, block):
        member = begin + tl.arange(0, block)
        row, column = member // columns - down, member % columns - right
        inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns) & (member < size)
        index = member * side + row * columns + column
        for part_begin in range(0, parts, part_block):
            part = part_begin + tl.arange(0, part_block)
            row_index = (part * heads + head)[:, None] * side * side + index[None, :]
            total += tl.load(biases + row_index, mask=(part < parts)[:, None] & inside[None, :], other=0.0)
    tl.store(grad_table + offset * heads + head, tl.sum(tl.sum(total, 1), 0))
