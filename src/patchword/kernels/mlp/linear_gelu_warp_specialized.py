# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""gelu(up(x)) as a warp-specialised kernel: one group of warps computes GELU while the other multiplies.

Reference: linear_gelu_reference.

Each group holds 64 rows, and the whole matrix passes by, in pieces of SIDE x DEEP. While the last SIDE hidden channels
are multiplied, the next rows come into the places that are left. Only to be imported where Triton is.
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

SIDE = gl.constexpr(128)
DEEP = gl.constexpr(64)
HALF = gl.constexpr(64)  # columns that are sent at a time
_GROUPS = gl.constexpr(2)


@gluon.jit
def _bring(up, ups, bars, tiles, across, pieces: gl.constexpr):
    ready, free = bars
    slots: gl.constexpr = ups.shape[0]
    step = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for number in range(across * pieces):
            slot = step % slots
            mbarrier.wait(free.index(slot), step // slots % 2 ^ 1)
            mbarrier.expect(ready.index(slot), SIDE * DEEP * 2)
            fetch(up, [number // pieces * SIDE, number % pieces * DEEP], ready.index(slot), ups.index(slot))
            step += 1


@gluon.jit
def _halves(x):
    """the first columns and the others"""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    one, other = gl.split(gl.permute(gl.reshape(x, (ROWS, 2, HALF)), (0, 2, 1)))
    return gl.convert_layout(one, layout), gl.convert_layout(other, layout)


@gluon.jit
def _take(given, held, sent, here, ups, bars, tiles, across, form: gl.constexpr, which: gl.constexpr):
    tokens, bias, answer = given
    ready, free = bars
    slots: gl.constexpr = ups.shape[0]
    pieces: gl.constexpr = held.shape[0]
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    column = gl.arange(0, SIDE, gl.SliceLayout(0, sums))
    start = (gl.program_id(0) * _GROUPS + which) * ROWS
    mbarrier.expect(here, pieces * ROWS * DEEP * 2)
    for piece in gl.static_range(pieces):
        fetch(tokens, [start, piece * DEEP], here, held.index(piece))
    step, taken = 0, 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        start = (tile * _GROUPS + which) * ROWS
        following = start + gl.num_programs(0) * _GROUPS * ROWS
        mbarrier.wait(here, taken)
        taken = 1 - taken
        for part in range(across):
            plus = gl.load(bias + part * SIDE + column).to(gl.float32)
            leaves = (part == across - 1) & (tile + gl.num_programs(0) < tiles)
            if leaves:
                mbarrier.expect(here, pieces * ROWS * DEEP * 2)
            total = gl.zeros((ROWS, SIDE), gl.float32, sums)
            for piece in gl.static_range(pieces):
                slot = (step + piece) % slots
                mbarrier.wait(ready.index(slot), (step + piece) // slots % 2)
                matrix = ups.index(slot).permute((1, 0))
                total = warpgroup_mma(held.index(piece), matrix, total, use_acc=piece > 0, is_async=True)
                if piece > 0:
                    total = warpgroup_mma_wait(1, deps=(total,))
                    mbarrier.arrive(free.index((step + piece - 1) % slots), count=1)
                    if leaves:
                        fetch(tokens, [following, (piece - 1) * DEEP], here, held.index(piece - 1))
            total = warpgroup_mma_wait(0, deps=(total,))
            mbarrier.arrive(free.index((step + pieces - 1) % slots), count=1)
            if leaves:
                fetch(tokens, [following, (pieces - 1) * DEEP], here, held.index(pieces - 1))
            step += pieces
            halves = _halves(total + plus[None, :])
            for half in gl.static_range(SIDE // HALF):
                activated = activation(halves[half], form).to(sent.dtype)
                tma.store_wait(0)  # what was sent before has left
                barrier()
                sent.store(activated)
                fence_async_shared()
                barrier()
                send(answer, [start, part * SIDE + half * HALF], sent)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def warp_specialized_kernel(
    tokens, up, bias, answer, count, across, pieces: gl.constexpr, form: gl.constexpr, slots: gl.constexpr
):
    """tokens, up, answer: as `described` has them, in pieces of (ROWS, DEEP), (SIDE, DEEP) and (ROWS, HALF)"""
    first = gl.allocate_shared_memory(tokens.dtype, [pieces, ROWS, DEEP], tokens.layout)
    second = gl.allocate_shared_memory(tokens.dtype, [pieces, ROWS, DEEP], tokens.layout)
    sent = gl.allocate_shared_memory(answer.dtype, [_GROUPS, ROWS, HALF], answer.layout)
    ups = gl.allocate_shared_memory(up.dtype, [slots, SIDE, DEEP], up.layout)
    ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    here = gl.allocate_shared_memory(gl.int64, [_GROUPS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(free.index(slot), count=_GROUPS)
    for which in gl.static_range(_GROUPS):
        mbarrier.init(here.index(which), count=1)
    tiles = gl.cdiv(count, ROWS * _GROUPS)
    given, bars = (tokens, bias, answer), (ready, free)
    gl.warp_specialize(
        [
            (_take, (given, first, sent.index(0), here.index(0), ups, bars, tiles, across, form, 0)),
            (_take, (given, second, sent.index(1), here.index(1), ups, bars, tiles, across, form, 1)),
            (_bring, (up, ups, bars, tiles, across, pieces)),
        ],
        [4, 1],
        [240, 24],
    )
