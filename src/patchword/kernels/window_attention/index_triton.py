# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Shared by the window attention kernels: token indices of a group's members, loads and stores, scores of two members.

Import it only where Triton is installed. `rows` and `columns` are the two sides of tiling.Rectangles. They are
constants of a compiled kernel, so that it needs no division by a variable.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)  # the softmax is computed with powers of two
FORBIDDEN = tl.constexpr(-1e30)  # finite, so that a row without any key is not NaN


@triton.jit
def side_index(side: tl.constexpr, group, member):
    """Returns the index of a member along one side of the map."""
    index = group * side[4] + member * side[3] + side[5]
    if side[5] > 0:
        index = tl.where(index >= side[2] * side[1], index - side[2] * side[1], index)
    return index


@triton.jit
def member_index(rows: tl.constexpr, columns: tl.constexpr, group, member):
    """Returns the token of a member of a group, whether it is valid (not padding), and its shift region."""
    down, right = member // columns[1], member % columns[1]
    return member_index_at(rows, columns, group, down, right)


@triton.jit
def token_of(rows: tl.constexpr, columns: tl.constexpr, group, member):
    """Returns the token of a member of a group, and whether it is valid."""
    token, valid, _ = member_index(rows, columns, group, member)
    return token, valid


@triton.jit
def member_index_at(rows: tl.constexpr, columns: tl.constexpr, group, down, right):
    """Like member_index, for the member at row `down` and column `right` of its group; invalid outside."""
    row, column = side_index(rows, group // columns[2], down), side_index(columns, group % columns[2], right)
    inside = (down >= 0) & (down < rows[1]) & (right >= 0) & (right < columns[1])
    valid = inside & (row < rows[0]) & (column < columns[0])
    shift_region = 2 * (row < rows[5]).to(tl.int32) + (column < columns[5]).to(tl.int32)
    return row * columns[0] + column, valid, shift_region


@triton.jit
def channel_offsets(token, valid, stride, head_width: tl.constexpr, width: tl.constexpr):
    """Returns the offsets (tokens, width) of the channels of one head, and which of them are valid."""
    channel = tl.arange(0, width)
    mask = valid[:, None] & (channel < head_width)[None, :]
    return token[:, None] * stride + channel[None, :], mask


@triton.jit
def load_tokens(base, token, valid, stride, head_width: tl.constexpr, width: tl.constexpr):
    """Loads (tokens, width) of one head; zeros where invalid."""
    offsets, mask = channel_offsets(token, valid, stride, head_width, width)
    return tl.load(base + offsets, mask=mask, other=0.0)


@triton.jit
def store_tokens(base, token, valid, stride, values, head_width: tl.constexpr, width: tl.constexpr):
    offsets, mask = channel_offsets(token, valid, stride, head_width, width)
    tl.store(base + offsets, values.to(base.dtype.element_ty), mask=mask)


@triton.jit
def load_bias(
    table, rows: tl.constexpr, columns: tl.constexpr, map_group, query, key, head, heads,
    has_bias: tl.constexpr, has_mask: tl.constexpr,
):  # fmt: skip
    """Returns what is added to the scores, (queries, keys) or (1, keys), scaled for powers of two.

    It is the table's entry for the offset between query and key, and FORBIDDEN where the query may not attend to the
    key. Queries of padding are not masked: they are zero, and their outputs are not stored.
    """
    bias = tl.zeros((1, key.shape[0]), tl.float32)
    if has_bias:
        span, size = 2 * columns[1] - 1, rows[1] * columns[1]
        from_query = query // columns[1] * span + query % columns[1]
        from_key = key // columns[1] * span + key % columns[1]
        offset = from_query[:, None] - from_key[None, :] + (rows[1] - 1) * span + columns[1] - 1
        inside = (query < size)[:, None] & (key < size)[None, :]
        bias = tl.load(table + offset * heads + head, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    if has_mask:
        _, key_valid, key_region = member_index(rows, columns, map_group, key)
        allowed = key_valid[None, :]
        if rows[5] + columns[5] > 0:
            _, _, query_region = member_index(rows, columns, map_group, query)
            allowed = allowed & (query_region[:, None] == key_region[None, :])
        bias = tl.where(allowed, bias, FORBIDDEN)
    return bias


@triton.jit
def dot(one, other):
    return tl.dot(one, other, input_precision="ieee")


@triton.jit
def compute_scores(q, k, bias, scale):
    """Returns (queries, keys), scaled for powers of two."""
    return dot(q, tl.trans(k)) * (scale * LOG2_E) + bias
