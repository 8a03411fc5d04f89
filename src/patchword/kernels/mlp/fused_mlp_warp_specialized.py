# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""x + down(gelu(up(norm(x)))) as a warp-specialised kernel: one group of warps computes GELU while another multiplies.

Reference: fused_mlp_reference; out_proj_mlp_reference if x is tokens + last(branch).

Each group takes 64 rows and walks over the hidden channels, a chunk at a time: its share of up, GELU, its share of
down. The next share of up is on its way while that of down is multiplied. `last` passes by in the places of down. Only
to be imported where Triton is.
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

from patchword.kernels.common.warp_specialized import ROWS, barrier, fetch, send
from patchword.kernels.mlp.gelu_triton import activation


@gluon.jit
def _bring(last, up, down, work, joins: gl.constexpr):
    ups, downs, bars, tiles, chunks = work
    up_ready, up_free, down_ready, down_free = bars
    slots: gl.constexpr = ups.shape[0]
    chunk: gl.constexpr = ups.shape[1]
    size: gl.constexpr = chunk * ups.shape[2] * 2
    raised, lowered = 0, 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for part in range(joins):
            slot = lowered % slots
            mbarrier.wait(down_free.index(slot), lowered // slots % 2 ^ 1)
            mbarrier.expect(down_ready.index(slot), size)
            fetch(last, [0, part * chunk], down_ready.index(slot), downs.index(slot))
            lowered += 1
        for part in range(chunks):
            slot = raised % slots
            mbarrier.wait(up_free.index(slot), raised // slots % 2 ^ 1)
            mbarrier.expect(up_ready.index(slot), size)
            fetch(up, [part * chunk, 0], up_ready.index(slot), ups.index(slot))
            raised += 1
            slot = lowered % slots
            mbarrier.wait(down_free.index(slot), lowered // slots % 2 ^ 1)
            mbarrier.expect(down_ready.index(slot), size)
            fetch(down, [0, part * chunk], down_ready.index(slot), downs.index(slot))
            lowered += 1


@gluon.jit
def _added(total, vector, column, inside):
    return total + gl.load(vector + column, mask=inside, other=0.0).to(gl.float32)[None, :]


@gluon.jit
def _norm(total, held, scale, shift, inside, eps, width: gl.constexpr, middle: gl.constexpr):
    """LayerNorm in float32 of the rows of a group, which lie in `held`, where they lay: a chunk at a time, since all
    sums are in registers. Mean and spread are of the sums before they were rounded. Beyond the width, 0."""
    chunk: gl.constexpr = middle.instr_shape[1]
    mean = gl.sum(total, 1) / width
    centred = gl.where(inside[None, :], total - mean[:, None], 0.0)
    spread = gl.rsqrt(gl.sum(centred * centred, 1) / width + eps)
    mean = gl.convert_layout(mean, gl.SliceLayout(1, middle))[:, None]
    spread = gl.convert_layout(spread, gl.SliceLayout(1, middle))[:, None]
    for part in gl.static_range(held.shape[1] // chunk):
        column = part * chunk + gl.arange(0, chunk, gl.SliceLayout(0, middle))
        by = gl.load(scale + column, mask=column < width, other=0.0).to(gl.float32)
        plus = gl.load(shift + column, mask=column < width, other=0.0).to(gl.float32)
        place = held.slice(part * chunk, chunk, 1)
        x = place.load(middle).to(gl.float32)
        place.store(((x - mean) * spread * by[None, :] + plus[None, :]).to(held.dtype))


@gluon.jit
def _take(
    given, vectors, held, here, work, width: gl.constexpr, form: gl.constexpr, groups: gl.constexpr,
    joins: gl.constexpr, which: gl.constexpr,
):  # fmt: skip
    tokens, branch, answer, count, eps = given
    ups, downs, bars, tiles, chunks = work
    last_bias, scale, shift, up_bias, down_bias = vectors
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
    raised, lowered, taken = 0, 0, 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        start = (tile * groups + which) * ROWS
        tma.store_wait(0)  # the answer before has left
        barrier()
        if joins > 0:
            mbarrier.expect(here, ROWS * wide * 2)
            fetch(branch, [start, 0], here, held)
        place = (start.to(gl.int64) + row)[:, None] * width + column[None, :]
        there = (start + row < count)[:, None] & inside[None, :]
        total = gl.load(tokens + place, mask=there, other=0.0).to(gl.float32)
        if joins > 0:
            total = _added(total, last_bias, column, inside)
            mbarrier.wait(here, taken)
            taken = 1 - taken
            for part in gl.static_range(joins):
                slot = lowered % slots
                mbarrier.wait(down_ready.index(slot), lowered // slots % 2)
                share = held.slice(part * chunk, chunk, 1)
                total = warpgroup_mma(share, downs.index(slot).permute((1, 0)), total, is_async=True)
                total = warpgroup_mma_wait(0, deps=(total,))
                mbarrier.arrive(down_free.index(slot), count=1)
                lowered += 1
            barrier()  # all have multiplied
        held.store(total.to(held.dtype))
        _norm(total, held, scale, shift, inside, eps, width, middle)
        fence_async_shared()
        barrier()
        total = _added(total, down_bias, column, inside)
        none = gl.zeros((ROWS, chunk), gl.float32, middle)
        slot = raised % slots
        mbarrier.wait(up_ready.index(slot), raised // slots % 2)
        between = warpgroup_mma(held, ups.index(slot).permute((1, 0)), none, use_acc=False, is_async=True)
        between = warpgroup_mma_wait(0, deps=(between,))
        mbarrier.arrive(up_free.index(slot), count=1)
        raised += 1
        for part in range(chunks - 1):
            bias = gl.load(up_bias + part * chunk + inner).to(gl.float32)
            hidden = gl.convert_layout(activation(between + bias[None, :], form).to(held.dtype), operand)
            slot = lowered % slots
            mbarrier.wait(down_ready.index(slot), lowered // slots % 2)
            total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
            following = raised % slots
            mbarrier.wait(up_ready.index(following), raised // slots % 2)
            between = warpgroup_mma(held, ups.index(following).permute((1, 0)), none, use_acc=False, is_async=True)
            total, hidden, between = warpgroup_mma_wait(1, deps=(total, hidden, between))
            mbarrier.arrive(down_free.index(slot), count=1)
            lowered += 1
            between = warpgroup_mma_wait(0, deps=(between,))
            mbarrier.arrive(up_free.index(following), count=1)
            raised += 1
        bias = gl.load(up_bias + (chunks - 1) * chunk + inner).to(gl.float32)
        hidden = gl.convert_layout(activation(between + bias[None, :], form).to(held.dtype), operand)
        slot = lowered % slots
        mbarrier.wait(down_ready.index(slot), lowered // slots % 2)
        total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        mbarrier.arrive(down_free.index(slot), count=1)
        lowered += 1
        barrier()  # all have multiplied
        held.store(total.to(held.dtype))
        fence_async_shared()
        barrier()
        send(answer, [start, 0], held)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def warp_specialized(
    tokens, branch, last, last_bias, scale, shift, up, up_bias, down, down_bias, answer, count, eps, chunks,
    width: gl.constexpr, form: gl.constexpr, slots: gl.constexpr, groups: gl.constexpr, joins: gl.constexpr,
):  # fmt: skip
    """up, down, answer: as `described` has them, in pieces of (chunk, wide), (wide, chunk) and (ROWS, wide). joins: the
    pieces of `last`, which lies as down does, and `branch` as answer; or 0, where neither is read."""
    chunk: gl.constexpr = up.block_type.shape[0]
    wide: gl.constexpr = up.block_type.shape[1]
    held = gl.allocate_shared_memory(answer.dtype, [groups, ROWS, wide], answer.layout)
    ups = gl.allocate_shared_memory(up.dtype, [slots, chunk, wide], up.layout)
    downs = gl.allocate_shared_memory(down.dtype, [slots, wide, chunk], down.layout)
    up_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    up_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    here = gl.allocate_shared_memory(gl.int64, [groups, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(up_ready.index(slot), count=1)
        mbarrier.init(down_ready.index(slot), count=1)
        mbarrier.init(up_free.index(slot), count=groups)
        mbarrier.init(down_free.index(slot), count=groups)
    for which in gl.static_range(groups):
        mbarrier.init(here.index(which), count=1)
    bars = (up_ready, up_free, down_ready, down_free)
    given, vectors = (tokens, branch, answer, count, eps), (last_bias, scale, shift, up_bias, down_bias)
    tiles = gl.cdiv(count, ROWS * groups)
    work = (ups, downs, bars, tiles, chunks)
    if groups == 2:
        gl.warp_specialize(
            [
                (_take, (given, vectors, held.index(0), here.index(0), work, width, form, groups, joins, 0)),
                (_take, (given, vectors, held.index(1), here.index(1), work, width, form, groups, joins, 1)),
                (_bring, (last, up, down, work, joins)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (_take, (given, vectors, held.index(0), here.index(0), work, width, form, groups, joins, 0)),
                (_take, (given, vectors, held.index(1), here.index(1), work, width, form, groups, joins, 1)),
                (_take, (given, vectors, held.index(2), here.index(2), work, width, form, groups, joins, 2)),
                (_bring, (last, up, down, work, joins)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )
