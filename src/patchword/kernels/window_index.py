# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""What the kernels of windows share: where a member of a group lies, and which scores two members have.

Only to be imported where Triton is installed. `rows` and `columns` are the two sides of window_plan.Rectangles.
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)  # the softmax is computed with powers of two


@triton.jit
def along(side, group, member):
    """its place on one side of the map"""
    place = group * side[4] + member * side[3] + side[5]
    return tl.where(place >= side[2] * side[1], place - side[2] * side[1], place)


@triton.jit
def spot(rows, columns, group, member):
    """of a member of a group: its token, whether it is there, and on which side of the seams it lies"""
    return spot_at(rows, columns, group, member // columns[1], member % columns[1])


@triton.jit
def spot_at(rows, columns, group, down, right):
    """the same of the member `down` and `right` in its group; outside of the group there is none"""
    row, column = along(rows, group // columns[2], down), along(columns, group % columns[2], right)
    inside = (down >= 0) & (down < rows[1]) & (right >= 0) & (right < columns[1])
    there = inside & (row < rows[0]) & (column < columns[0])
    seam = 2 * (row < rows[5]).to(tl.int32) + (column < columns[5]).to(tl.int32)
    return row * columns[0] + column, there, seam


@triton.jit
def read(base, token, there, stride, head_width, width: tl.constexpr):
    """(tokens, width) of one head; zeros where there is nothing"""
    channel = tl.arange(0, width)
    places = base + token[:, None] * stride + channel[None, :]
    return tl.load(places, mask=there[:, None] & (channel < head_width)[None, :], other=0.0)


@triton.jit
def write(base, token, there, stride, head_width, values, width: tl.constexpr):
    channel = tl.arange(0, width)
    places = base + token[:, None] * stride + channel[None, :]
    mask = there[:, None] & (channel < head_width)[None, :]
    tl.store(places, values.to(base.dtype.element_ty), mask=mask)


@triton.jit
def image_of(group, rows, columns):
    """the image of a group, 64 bits wide so that offsets do not overflow, and the group's number in it"""
    groups = rows[2] * columns[2]
    return (group // groups).to(tl.int64), group % groups


@triton.jit
def bias_of(table, rows, columns, query, key, head, heads, biased: tl.constexpr):
    """(queries, keys): the entry of the table for the offset between two members, for powers of two"""
    if biased:
        span, size = 2 * columns[1] - 1, rows[1] * columns[1]
        from_query = query // columns[1] * span + query % columns[1]
        from_key = key // columns[1] * span + key % columns[1]
        offset = from_query[:, None] - from_key[None, :] + (rows[1] - 1) * span + columns[1] - 1
        inside = (query < size)[:, None] & (key < size)[None, :]
        bias = tl.load(table + offset * heads + head, mask=inside, other=0.0).to(tl.float32) * LOG2_E
    else:
        bias = 0.0
    return bias


@triton.jit
def product(one, other):
    return tl.dot(one, other, input_precision="ieee")


@triton.jit
def meets(query_there, key_there, query_seam, key_seam, seams: tl.constexpr):
    """(queries, keys): whether a query may read a key"""
    may = query_there[:, None] & key_there[None, :]
    if seams:
        may = may & (query_seam[:, None] == key_seam[None, :])
    return may


@triton.jit
def weights_of(
    q, k, bias, kept, query_there, key_there, query_seam, key_seam, scale, biased: tl.constexpr, seams: tl.constexpr
):
    """(queries, keys): the weights once more, from the kept logarithms of their sums"""
    scores = product(q, tl.trans(k)) * (scale * LOG2_E)
    if biased:
        scores += bias
    may = meets(query_there, key_there, query_seam, key_seam, seams)
    return tl.where(may, tl.exp2(scores - kept[:, None]), 0.0)
