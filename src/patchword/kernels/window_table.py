# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
"""The gradient of a table of relative positions. Sums are formed in a fixed order: the same run gives the same bits.

Only to be imported where Triton is installed.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchword.kernels.window_index import bias_of, image_of, product, read, spot, weights_of
from patchword.kernels.window_plan import Launch, Rectangles, walkers
from patchword.kernels.window_triton import numbers, options, processors


@triton.jit
def _biases(
    query, key, value, table, gradient, sums, means, to_bias, strides, rows, columns, shape, scale, sides,
    biased: tl.constexpr, local: tl.constexpr, seams: tl.constexpr, tile: tl.constexpr, width: tl.constexpr,
):  # fmt: skip
    """Larger groups: one tile of the biases of one head, summed over the groups that a program walks over."""
    tokens, heads, head_width, all_heads, count = shape
    head, start = tl.program_id(0) % heads, tl.program_id(0) % heads * head_width
    piece, side = tl.program_id(0) // heads, sides * tile
    member, other = piece // sides * tile + tl.arange(0, tile), piece % sides * tile + tl.arange(0, tile)
    total = tl.zeros((tile, tile), tl.float32)
    bias = bias_of(table, rows, columns, member, other, head, heads, biased)
    for group in range(tl.program_id(1), count, tl.num_programs(1)):
        image, inner = image_of(group, rows, columns)
        token, there, seam = spot(rows, columns, inner, member)
        key_token, key_there, key_seam = spot(rows, columns, inner, other)
        q = read(query + image * strides[0] + start, token, there, strides[1], head_width, width)
        g = read(gradient + image * strides[6] + start, token, there, strides[7], head_width, width)
        k = read(key + image * strides[2] + start, key_token, key_there, strides[3], head_width, width)
        v = read(value + image * strides[4] + start, key_token, key_there, strides[5], head_width, width)
        at = (image * all_heads + head) * tokens + token
        kept, mean = tl.load(sums + at, mask=there, other=0.0), tl.load(means + at, mask=there, other=0.0)
        weights = weights_of(q, k, bias, kept, there, key_there, seam, key_seam, scale, biased, seams)
        total += weights * (product(g, tl.trans(v)) - mean[:, None])
    place = (tl.program_id(1) * heads + head) * side * side + member[:, None] * side + other[None, :]
    tl.store(to_bias + place, total)


@triton.jit
def _fold(biases, to_table, rows, columns, heads, side, some: tl.constexpr, block: tl.constexpr):
    """A few entries of the table: each the sum over all pairs of members that are its offset apart."""
    offset, head = tl.program_id(0) * some + tl.arange(0, some), tl.program_id(1)
    span, size = 2 * columns[1] - 1, rows[1] * columns[1]
    down, right = offset // span - rows[1] + 1, offset % span - columns[1] + 1
    total = tl.zeros((some,), tl.float32)
    for first in range(0, size, block):
        query = first + tl.arange(0, block)
        row = (query // columns[1])[None, :] - down[:, None]
        column = (query % columns[1])[None, :] - right[:, None]
        inside = (row >= 0) & (row < rows[1]) & (column >= 0) & (column < columns[1]) & (query < size)[None, :]
        place = (head * side + query)[None, :] * side + row * columns[1] + column
        total += tl.sum(tl.load(biases + place, mask=inside, other=0.0), 1)
    tl.store(to_table + offset * heads + head, total, mask=offset < (2 * rows[1] - 1) * span)


def biases_back(
    three: list[Tensor], table: Tensor, gradient: Tensor, sums: Tensor, means: Tensor, cut: Rectangles, heads: int,
    scale: float, plan: Launch,
) -> Tensor:  # fmt: skip
    """(parts, heads, side, side): the gradient of the biases of all pairs, in parts"""
    sides, count = triton.cdiv(cut.size, plan.tile), three[0].shape[0] * cut.groups
    programs = walkers(count, heads * sides * sides, plan.waves * processors(gradient.device))
    biases = sums.new_empty(programs, heads, sides * plan.tile, sides * plan.tile)
    run: Any = _biases[heads * sides * sides, programs]
    chosen = options(table, None, cut, plan.tile, plan.width) | {"num_warps": plan.warps, "num_stages": plan.stages}
    run(
        *three,
        table,
        gradient,
        sums,
        means,
        biases,
        *numbers(three, gradient, cut, sums, heads),
        scale,
        sides,
        **chosen,
    )
    return biases


def fold(biases: Tensor, table: Tensor, cut: Rectangles) -> Tensor:
    """(parts, heads, side, side) -> (offsets, heads)"""
    _, heads, side, _ = biases.shape
    answer = torch.empty_like(table, memory_format=torch.contiguous_format)
    run: Any = _fold[triton.cdiv(cut.offsets, 16), heads]
    run(biases.sum(0), answer, tuple(cut.rows), tuple(cut.columns), heads, side, some=16, block=64)
    return answer
