# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The gradient of a table of relative positions. Sums are formed in a fixed order: the same run gives the same bits.

Only to be imported where Triton is installed.
"""

import triton
import triton.language as tl

from patchword.kernels.window_attention.index_triton import bias_of, product, read, scores_of, token_of


@triton.jit
def biases_back(
    query, key, value, table, gradient, sums, means, to_bias,
    start, beside, image_stride, stride, batch, heads, all_heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, head_width: tl.constexpr, masked: tl.constexpr, tile: tl.constexpr,
    width: tl.constexpr,
):  # fmt: skip
    """Larger groups: one tile of the biases of one head, summed over the groups that a program walks over."""
    sides, groups = tl.cdiv(rows[1] * columns[1], tile), rows[2] * columns[2]
    tokens, answers, side = rows[0] * columns[0], all_heads * head_width, sides * tile
    head, piece = tl.program_id(0) % heads, tl.program_id(0) // heads
    first = start + head * head_width
    member, other = piece // sides * tile + tl.arange(0, tile), piece % sides * tile + tl.arange(0, tile)
    total = tl.zeros((tile, tile), tl.float32)
    for group in range(tl.program_id(1), batch * groups, tl.num_programs(1)):
        image, inner = tl.cast(group // groups, tl.int64), group % groups
        token, there = token_of(rows, columns, inner, member)
        key_token, key_there = token_of(rows, columns, inner, other)
        above = image * image_stride + first
        q = read(query + above, token, there, stride, head_width, width)
        g = read(gradient + image * tokens * answers + first, token, there, answers, head_width, width)
        k = read(key + above + beside, key_token, key_there, stride, head_width, width)
        v = read(value + above + 2 * beside, key_token, key_there, stride, head_width, width)
        at = (image * all_heads + start // head_width + head) * tokens + token
        kept, mean = tl.load(sums + at, mask=there, other=0.0), tl.load(means + at, mask=there, other=0.0)
        bias = bias_of(table, rows, columns, inner, member, other, head, heads, True, masked)
        weights = tl.exp2(scores_of(q, k, bias, scale) - kept[:, None])
        total += weights * (product(g, tl.trans(v)) - mean[:, None])
    place = (tl.program_id(1) * heads + head) * side * side + member[:, None] * side + other[None, :]
    tl.store(to_bias + place, total)


@triton.jit
def fold(
    biases, to_table, parts, heads, rows: tl.constexpr, columns: tl.constexpr, side: tl.constexpr, some: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """One entry of the table: the sum over all parts and over all pairs of members that are its offset apart.

    biases: (parts, heads, side, side)
    """
    offset, head = tl.program_id(0), tl.program_id(1)
    span, size = 2 * columns[1] - 1, rows[1] * columns[1]
    down, right = offset // span - rows[1] + 1, offset % span - columns[1] + 1
    total = tl.zeros((some, block), tl.float32)
    for begin in range(0, size, block):
        member = begin + tl.arange(0, block)
        row, column = member // columns[1] - down, member % columns[1] - right
        inside = (row >= 0) & (row < rows[1]) & (column >= 0) & (column < columns[1]) & (member < size)
        place = member * side + row * columns[1] + column
        for begun in range(0, parts, some):
            part = begun + tl.arange(0, some)
            at = (part * heads + head)[:, None] * side * side + place[None, :]
            total += tl.load(biases + at, mask=(part < parts)[:, None] & inside[None, :], other=0.0)
    tl.store(to_table + offset * heads + head, tl.sum(tl.sum(total, 1), 0))
