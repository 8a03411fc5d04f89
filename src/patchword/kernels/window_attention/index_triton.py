# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""What the kernels of windows share: where a member of a group lies, and which scores two members have.

Only to be imported where Triton is installed. `rows` and `columns` are the two sides of window_plan.Rectangles, known
when a kernel is built, so that nothing is divided while it runs.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)  # the softmax is computed with powers of two
FORBIDDEN = tl.constexpr(-1e30)  # finite, so that a member that reads nothing is no NaN


@triton.jit
def along(side: tl.constexpr, group, member):
    """its place on one side of the map"""
    place = group * side[4] + member * side[3] + side[5]
    if side[5] > 0:
        place = tl.where(place >= side[2] * side[1], place - side[2] * side[1], place)
    return place


@triton.jit
def spot(rows: tl.constexpr, columns: tl.constexpr, group, member):
    """of a member of a group: its token, whether it is there, and on which side of the seams it lies"""
    down, right = member // columns[1], member % columns[1]
    return spot_at(rows, columns, group, down, right)


@triton.jit
def token_of(rows: tl.constexpr, columns: tl.constexpr, group, member):
    """of a member of a group: its token, and whether it is there"""
    token, there, _ = spot(rows, columns, group, member)
    return token, there


@triton.jit
def spot_at(rows: tl.constexpr, columns: tl.constexpr, group, down, right):
    """the same of the member `down` and `right` in its group; outside of the group there is none"""
    row, column = along(rows, group // columns[2], down), along(columns, group % columns[2], right)
    inside = (down >= 0) & (down < rows[1]) & (right >= 0) & (right < columns[1])
    there = inside & (row < rows[0]) & (column < columns[0])
    seam = 2 * (row < rows[5]).to(tl.int32) + (column < columns[5]).to(tl.int32)
    return row * columns[0] + column, there, seam


@triton.jit
def spread(token, there, stride, head_width: tl.constexpr, width: tl.constexpr):
    """(tokens, width): where the channels of one head lie, and whether they are there"""
    channel = tl.arange(0, width)
    mask = there[:, None] & (channel < head_width)[None, :]
    return token[:, None] * stride + channel[None, :], mask


@triton.jit
def read(base, token, there, stride, head_width: tl.constexpr, width: tl.constexpr):
    """(tokens, width) of one head; zeros where there is nothing"""
    places, mask = spread(token, there, stride, head_width, width)
    return tl.load(base + places, mask=mask, other=0.0)


@triton.jit
def write(base, token, there, stride, values, head_width: tl.constexpr, width: tl.constexpr):
    places, mask = spread(token, there, stride, head_width, width)
    tl.store(base + places, values.to(base.dtype.element_ty), mask=mask)


@triton.jit
def bias_of(
    table, rows: tl.constexpr, columns: tl.constexpr, inner, query, key, head, heads,
    biased: tl.constexpr, masked: tl.constexpr,
):  # fmt: skip
    """(queries, keys) or (1, keys): what is added to the scores of two members, for powers of two.

    It is the entry of the table for the offset between them, and FORBIDDEN where one may not read the other. Queries
    that are not there may read: they are zeros, and so is what comes of them.
    """
    bias = tl.zeros((1, key.shape[0]), tl.float32)
    if biased:
        span, size = 2 * columns[1] - 1, rows[1] * columns[1]
        from_query = query // columns[1] * span + query % columns[1]
        from_key = key // columns[1] * span + key % columns[1]
        offset = from_query[:, None] - from_key[None, :] + (rows[1] - 1) * span + columns[1] - 1
        inside = (query < size)[:, None] & (key < size)[None, :]
        bias = tl.load(table + offset * heads + head, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    if masked:
        _, key_there, key_seam = spot(rows, columns, inner, key)
        may = key_there[None, :]
        if rows[5] + columns[5] > 0:
            _, _, query_seam = spot(rows, columns, inner, query)
            may = may & (query_seam[:, None] == key_seam[None, :])
        bias = tl.where(may, bias, FORBIDDEN)
    return bias


@triton.jit
def product(one, other):
    return tl.dot(one, other, input_precision="ieee")


@triton.jit
def scores_of(q, k, bias, scale):
    """(queries, keys), for powers of two"""
    return product(q, tl.trans(k)) * (scale * LOG2_E) + bias
