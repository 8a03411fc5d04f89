# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""Triton kernels for non-maximum suppression of batches; reference.py computes the same, bit for bit.

The first kernel writes which boxes would suppress which, as one bit per pair, in words of 64 boxes. The second visits
the boxes of an image by falling score, one word at a time; nothing waits for the host. Import it only where Triton is
installed.

Launch `overlap_bits` without fused multiply-adds: a different rounding would change which boxes are kept.
"""

import triton
import triton.language as tl

_SMALLEST_UNION = tl.constexpr(1e-6)  # EPSILON of core.geometry.boxes


@triton.jit
def _or(first, second):
    return first | second


@triton.jit
def _corners(boxes, index, valid):
    """Return x1, y1, x2, y2 and the area of boxes."""
    x1 = tl.load(boxes + index * 4, valid, other=0.0)
    y1 = tl.load(boxes + index * 4 + 1, valid, other=0.0)
    x2 = tl.load(boxes + index * 4 + 2, valid, other=0.0)
    y2 = tl.load(boxes + index * 4 + 3, valid, other=0.0)
    return x1, y1, x2, y2, _side(x1, x2) * _side(y1, y2)


@triton.jit
def _side(low, high):
    return tl.maximum(high - low, 0.0, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def _overlap(low, high, other_low, other_high):
    """Return the length of the intersection of each pair along one axis."""
    start = tl.maximum(low[:, None], other_low[None, :], propagate_nan=tl.PropagateNan.ALL)
    end = tl.minimum(high[:, None], other_high[None, :], propagate_nan=tl.PropagateNan.ALL)
    return _side(start, end)


@triton.jit(do_not_specialize=["count", "words"])
def overlap_bits(boxes, valid, groups, order, bits, count, words, threshold, grouped: tl.constexpr):
    """Write 64 x 64 bits: bit c of word w of row r is 1 if the r-th box suppresses box 64 w + c, should it be kept.

    boxes: (images, count, 4) in float32. order: (images, count), the boxes by falling score. bits: (images, count,
    words) in int64; words left of the diagonal stay as they are, and nothing reads them.
    """
    column_word, row_word, image = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    if column_word >= row_word:
        lane = tl.arange(0, 64)
        row, column = row_word * 64 + lane, column_word * 64 + lane
        start = image * count
        row_box = start + tl.load(order + start + row, row < count, other=0)
        column_box = start + tl.load(order + start + column, column < count, other=0)
        row_valid = tl.load(valid + row_box, row < count, other=0) != 0
        column_valid = tl.load(valid + column_box, column < count, other=0) != 0
        x1, y1, x2, y2, area = _corners(boxes, row_box, row_valid)
        other_x1, other_y1, other_x2, other_y2, other_area = _corners(boxes, column_box, column_valid)
        intersection = _overlap(x1, x2, other_x1, other_x2) * _overlap(y1, y2, other_y1, other_y2)
        union = (area[:, None] + other_area[None, :]) - intersection
        union = tl.maximum(union, _SMALLEST_UNION, propagate_nan=tl.PropagateNan.ALL)
        suppressed = (tl.div_rn(intersection, union) > threshold) & (column[None, :] > row[:, None])
        suppressed = suppressed & row_valid[:, None] & column_valid[None, :]
        if grouped:
            row_group = tl.load(groups + row_box, row_valid, other=0)
            column_group = tl.load(groups + column_box, column_valid, other=0)
            suppressed = suppressed & (row_group[:, None] == column_group[None, :])
        bit = tl.full([64], 1, tl.int64) << lane.to(tl.int64)
        word = tl.sum(tl.where(suppressed, bit[None, :], 0), 1)
        tl.store(bits + (start + row) * words + column_word, word, row < count)


@triton.jit(do_not_specialize=["count", "words"])
def sweep(bits, valid, order, keep, count, words, word_block: tl.constexpr, row_block: tl.constexpr):
    """Decide which boxes of an image are kept, 64 at a time: those that no kept box before them suppresses.

    Among the 64 boxes of a word, keep <- not suppressed by a kept one is repeated until nothing changes, which ends
    after the longest chain of suppressions. Then the kept ones remove boxes of later words.
    """
    start = tl.program_id(0).to(tl.int64) * count
    lane, word = tl.arange(0, 64), tl.arange(0, word_block)
    place, bit = lane.to(tl.int64), tl.full([64], 1, tl.int64) << lane.to(tl.int64)
    removed = tl.zeros([word_block], tl.int64)
    for number in range(words):
        row = number * 64 + lane
        box = start + tl.load(order + start + row, row < count, other=0)
        is_valid = tl.load(valid + box, row < count, other=0) != 0
        own = tl.load(bits + (start + row) * words + number, row < count, other=0)
        removed_here = tl.sum(tl.where(word == number, removed, 0), 0)
        free = tl.sum(tl.where(is_valid, bit, 0), 0) & ~removed_here
        before, kept = ~free, free
        while before != kept:
            before = kept
            kept = free & ~tl.reduce(tl.where(((kept >> place) & 1) != 0, own, 0), 0, _or)
        tl.store(keep + box, ((kept >> place) & 1).to(tl.uint8), row < count)
        for first in range(0, 64, row_block):
            some = first + tl.arange(0, row_block)
            is_kept = ((kept >> some.to(tl.int64)) & 1) != 0
            source = bits + (start + number * 64 + some)[:, None] * words + word[None, :]
            mask = is_kept[:, None] & ((word > number) & (word < words))[None, :]
            removed = removed | tl.reduce(tl.load(source, mask, other=0), 0, _or)
