# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""x + down(gelu(up(norm(x)))) by groups of warps (group_parts): one computes GELU while another multiplies. The twin is
plain_feed_forward.

Each group takes 64 rows and walks over the hidden channels, a chunk at a time: its share of up, GELU, its share of
down. The next share of up is on its way while that of down is multiplied. Only to be imported where Triton is.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from patchword.kernels.feed_forward_forms import activation
from patchword.kernels.group_parts import ROWS, barrier, fetch, send


@gluon.jit
def _bring(up, down, places, bars, tiles, chunks):
    ups, downs = places
    up_ready, up_free, down_ready, down_free = bars
    slots: gl.constexpr = ups.shape[0]
    chunk: gl.constexpr = ups.shape[1]
    size: gl.constexpr = chunk * ups.shape[2] * 2
    step = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for part in range(chunks):
            slot = step % slots
            other = step // slots % 2 ^ 1
            mbarrier.wait(up_free.index(slot), other)
            mbarrier.expect(up_ready.index(slot), size)
            fetch(up, [part * chunk, 0], up_ready.index(slot), ups.index(slot))
            mbarrier.wait(down_free.index(slot), other)
            mbarrier.expect(down_ready.index(slot), size)
            fetch(down, [0, part * chunk], down_ready.index(slot), downs.index(slot))
            step += 1


@gluon.jit
def _normed(tokens, scale, shift, start, count, eps, width: gl.constexpr, wide: gl.constexpr):
    """LayerNorm in float32 of the rows of a group; beyond the width, 0"""
    lanes: gl.constexpr = wide // 8
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [32 // lanes, lanes], [4, 1], [1, 0])
    row, column = gl.arange(0, ROWS, gl.SliceLayout(1, flat)), gl.arange(0, wide, gl.SliceLayout(0, flat))
    inside = column < width
    there = (start + row < count)[:, None] & inside[None, :]
    place = (start.to(gl.int64) + row)[:, None] * width + column[None, :]
    x = gl.load(tokens + place, mask=there, other=0.0).to(gl.float32)
    x = gl.where(inside[None, :], x - (gl.sum(x, 1) / width)[:, None], 0.0)
    spread = gl.rsqrt(gl.sum(x * x, 1) / width + eps)
    by = gl.load(scale + column, mask=inside, other=0.0).to(gl.float32)
    plus = gl.load(shift + column, mask=inside, other=0.0).to(gl.float32)
    return x * spread[:, None] * by[None, :] + plus[None, :]


@gluon.jit
def _take(
    given, vectors, held, places, bars, tiles, chunks, width: gl.constexpr, form: gl.constexpr, groups: gl.constexpr,
    which: gl.constexpr,
):  # fmt: skip
    tokens, answer, count, eps = given
    ups, downs = places
    scale, shift, up_bias, down_bias = vectors
    up_ready, up_free, down_ready, down_free = bars
    slots: gl.constexpr = ups.shape[0]
    chunk: gl.constexpr = ups.shape[1]
    wide: gl.constexpr = ups.shape[2]
    middle: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, chunk, 16])
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, wide, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, sums, 2)
    inner = gl.arange(0, chunk, gl.SliceLayout(0, middle))
    row, column = gl.arange(0, ROWS, gl.SliceLayout(1, sums)), gl.arange(0, wide, gl.SliceLayout(0, sums))
    inside = column < width
    step = 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        start = (tile * groups + which) * ROWS
        x = _normed(tokens, scale, shift, start, count, eps, width, wide).to(held.dtype)
        tma.store_wait(0)  # the answer before has left
        barrier()
        held.store(x)
        fence_async_shared()
        barrier()
        place = (start.to(gl.int64) + row)[:, None] * width + column[None, :]
        there = (start + row < count)[:, None] & inside[None, :]
        total = gl.load(tokens + place, mask=there, other=0.0).to(gl.float32)
        total += gl.load(down_bias + column, mask=inside, other=0.0).to(gl.float32)[None, :]
        none = gl.zeros((ROWS, chunk), gl.float32, middle)
        slot = step % slots
        mbarrier.wait(up_ready.index(slot), step // slots % 2)
        between = warpgroup_mma(held, ups.index(slot).permute((1, 0)), none, use_acc=False, is_async=True)
        between = warpgroup_mma_wait(0, deps=(between,))
        mbarrier.arrive(up_free.index(slot), count=1)
        for part in range(chunks - 1):
            bias = gl.load(up_bias + part * chunk + inner).to(gl.float32)
            hidden = gl.convert_layout(activation(between + bias[None, :], form).to(held.dtype), operand)
            slot = step % slots
            mbarrier.wait(down_ready.index(slot), step // slots % 2)
            total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
            step += 1
            following = step % slots
            mbarrier.wait(up_ready.index(following), step // slots % 2)
            between = warpgroup_mma(held, ups.index(following).permute((1, 0)), none, use_acc=False, is_async=True)
            total, hidden, between = warpgroup_mma_wait(1, deps=(total, hidden, between))
            mbarrier.arrive(down_free.index(slot), count=1)
            between = warpgroup_mma_wait(0, deps=(between,))
            mbarrier.arrive(up_free.index(following), count=1)
        bias = gl.load(up_bias + (chunks - 1) * chunk + inner).to(gl.float32)
        hidden = gl.convert_layout(activation(between + bias[None, :], form).to(held.dtype), operand)
        slot = step % slots
        mbarrier.wait(down_ready.index(slot), step // slots % 2)
        total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        mbarrier.arrive(down_free.index(slot), count=1)
        step += 1
        barrier()  # all have multiplied
        held.store(total.to(held.dtype))
        fence_async_shared()
        barrier()
        send(answer, [start, 0], held)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def by_groups(
    tokens, scale, shift, up, up_bias, down, down_bias, answer, count, eps, chunks,
    width: gl.constexpr, form: gl.constexpr, slots: gl.constexpr, groups: gl.constexpr,
):  # fmt: skip
    """up, down, answer: as `described` has them, in pieces of (chunk, wide), (wide, chunk) and (ROWS, wide)"""
    chunk: gl.constexpr = up.block_type.shape[0]
    wide: gl.constexpr = up.block_type.shape[1]
    held = gl.allocate_shared_memory(answer.dtype, [groups, ROWS, wide], answer.layout)
    ups = gl.allocate_shared_memory(up.dtype, [slots, chunk, wide], up.layout)
    downs = gl.allocate_shared_memory(down.dtype, [slots, wide, chunk], down.layout)
    up_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    up_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(up_ready.index(slot), count=1)
        mbarrier.init(down_ready.index(slot), count=1)
        mbarrier.init(up_free.index(slot), count=groups)
        mbarrier.init(down_free.index(slot), count=groups)
    bars = (up_ready, up_free, down_ready, down_free)
    given, vectors = (tokens, answer, count, eps), (scale, shift, up_bias, down_bias)
    tiles = gl.cdiv(count, ROWS * groups)
    places = (ups, downs)
    if groups == 2:
        gl.warp_specialize(
            [
                (_take, (given, vectors, held.index(0), places, bars, tiles, chunks, width, form, groups, 0)),
                (_take, (given, vectors, held.index(1), places, bars, tiles, chunks, width, form, groups, 1)),
                (_bring, (up, down, places, bars, tiles, chunks)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_take, (given, vectors, held.index(0), places, bars, tiles, chunks, width, form, groups, 0)),
                (_take, (given, vectors, held.index(1), places, bars, tiles, chunks, width, form, groups, 1)),
                (_take, (given, vectors, held.index(2), places, bars, tiles, chunks, width, form, groups, 2)),
                (_bring, (up, down, places, bars, tiles, chunks)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )
