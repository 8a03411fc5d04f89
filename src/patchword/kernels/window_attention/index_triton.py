# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""Shared by the window attention kernels: token indices of a group's members, loads and stores, scores of two members.

Import it only where Triton is installed.

rows, columns: constants of a compiled kernel for either side of the map: members of a group, whether they are
interlaced, shift, whether some may be beyond the end of the map (tiling.Rectangles.constants).
sizes: the numbers that depend on the size of the map, which are run-time arguments, so that a kernel is not compiled
for each size: length and groups along the rows, then along the columns (tiling.Rectangles.sizes).
group: a group of the map, as group_at returns it.
pads_tile: a constant, True if some members of a tile may be beyond the size of a group.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)  # the softmax is computed with powers of two
FORBIDDEN = tl.constexpr(-1e30)  # finite, so that a row without any key is not NaN
# Run-time arguments that Triton does not specialize: it would compile one kernel for 1, one for multiples of 16 and one
# for other numbers, and none would be faster.
UNSPECIALIZED = ("batch", "heads", "all_heads", "row_length", "row_groups", "column_length", "column_groups")


@triton.jit
def group_at(rows: tl.constexpr, columns: tl.constexpr, sizes, number):
    """Returns a group of the map: its index, all groups, the map's length and the number of members on the map, along
    the rows, then along the columns.

    It divides by run-time numbers. They are scalars, once per group; divisions per member are by constants.
    """
    row_length, row_groups, column_length, column_groups = sizes
    row_group, column_group = number // column_groups, number % column_groups
    row_end = _members_on_map(rows, row_groups, row_group, row_length)
    column_end = _members_on_map(columns, column_groups, column_group, column_length)
    return row_group, row_groups, row_length, row_end, column_group, column_groups, column_length, column_end


@triton.jit
def _members_on_map(side: tl.constexpr, groups, group, length):
    """Returns how many members of a group without shift are on the map; it may be more than there are members."""
    return tl.cdiv(length - group, groups) if side[1] else length - group * side[0]


@triton.jit
def side_index(members, groups, group, member, interlaced: tl.constexpr, shift: tl.constexpr):
    """Returns the index of a member along one side of the map."""
    index = (group + member * groups if interlaced else group * members + member) + shift
    if shift > 0:
        index = tl.where(index >= groups * members, index - groups * members, index)
    return index


@triton.jit
def member_index(rows: tl.constexpr, columns: tl.constexpr, group, member, pads_tile: tl.constexpr):
    """Returns the token of a member of a group, whether it is valid (not padding), and its shift region."""
    row_group, row_groups, row_length, row_end, column_group, column_groups, column_length, column_end = group
    down, right = member // columns[0], member % columns[0]
    row = side_index(rows[0], row_groups, row_group, down, rows[1], rows[2])
    column = side_index(columns[0], column_groups, column_group, right, columns[1], columns[2])
    valid = tl.full(member.shape, True, tl.int1)
    if pads_tile:
        valid = member < rows[0] * columns[0]
    if rows[3]:
        valid = valid & (row < row_length if rows[2] > 0 else member < row_end * columns[0])
    if columns[3]:
        valid = valid & (column < column_length if columns[2] > 0 else right < column_end)
    shift_region = 2 * (row < rows[2]).to(tl.int32) + (column < columns[2]).to(tl.int32)
    return row * column_length + column, valid, shift_region


@triton.jit
def token_of(rows: tl.constexpr, columns: tl.constexpr, group, member, pads_tile: tl.constexpr):
    """Returns the token of a member of a group, and whether it is valid."""
    token, valid, _ = member_index(rows, columns, group, member, pads_tile)
    return token, valid


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
    table, rows: tl.constexpr, columns: tl.constexpr, group, query, key, head, heads,
    has_bias: tl.constexpr, pads_tile: tl.constexpr,
):  # fmt: skip
    """Returns what is added to the scores, (queries, keys) or (1, keys), scaled for powers of two.

    It is the table's entry for the offset between query and key, and FORBIDDEN where the query may not attend to the
    key. Queries of padding are not masked: they are zero, and their outputs are not stored.
    """
    bias = tl.zeros((1, key.shape[0]), tl.float32)
    if has_bias:
        span, size = 2 * columns[0] - 1, rows[0] * columns[0]
        from_query = query // columns[0] * span + query % columns[0]
        from_key = key // columns[0] * span + key % columns[0]
        offset = from_query[:, None] - from_key[None, :] + (rows[0] - 1) * span + columns[0] - 1
        inside = (query < size)[:, None] & (key < size)[None, :]
        bias = tl.load(table + offset * heads + head, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    if pads_tile or rows[2] + rows[3] + columns[2] + columns[3] > 0:
        _, key_valid, key_region = member_index(rows, columns, group, key, pads_tile)
        allowed = key_valid[None, :]
        if rows[2] + columns[2] > 0:
            _, _, query_region = member_index(rows, columns, group, query, pads_tile)
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
