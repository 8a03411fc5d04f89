# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment, misc"
"""A filter of 3 x 3 and the matrix behind it by groups of warps (group_parts), where shared memory holds the whole
matrix and little else. The twin is plain_separable.

Three groups with 64 tokens each: while some filter, another multiplies. Only to be imported where Triton is.
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

from patchword.kernels.group_parts import ROWS, barrier, fetch, send

_GROUPS = gl.constexpr(3)
_BLOCK = gl.constexpr(64)  # channels that are filtered at a time
_LINES = gl.constexpr(16)  # tokens that are


@gluon.jit
def _filter(tokens, table, held, start, count, height: gl.constexpr, breadth: gl.constexpr):
    """table: (10, width), nine taps and what is added, norm and all (separable_triton.folded)"""
    width: gl.constexpr = held.shape[1]
    flat: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    small: gl.constexpr = gl.NVMMASharedLayout(128, 16)  # whose pieces, one behind the other, are the large one
    row, channel = gl.arange(0, _LINES, gl.SliceLayout(1, flat)), gl.arange(0, _BLOCK, gl.SliceLayout(0, flat))
    first = (start % (height * breadth)).to(gl.int32) + row
    here = tokens + start.to(gl.int64) * width + row[:, None] * width + channel[None, :]
    pieces = held._reinterpret(held.dtype, [ROWS * width // (_LINES * _BLOCK), _LINES, _BLOCK], small)
    for part in range(width // _BLOCK):
        taps = ()
        for tap in gl.static_range(10):
            taps += (gl.load(table + tap * width + part * _BLOCK + channel)[None, :],)
        for line in range(ROWS // _LINES):
            there = start + line * _LINES + row < count
            on_map = (first + line * _LINES) % (height * breadth)
            across, down = on_map % breadth, on_map // breadth
            total = taps[9]
            for tap in gl.static_range(9):
                below, right = down + (tap // 3 - 1), across + (tap % 3 - 1)
                inside = there & (below >= 0) & (below < height) & (right >= 0) & (right < breadth)
                far = (line * _LINES + (tap // 3 - 1) * breadth + tap % 3 - 1) * width + part * _BLOCK
                total = total + gl.load(here + far, mask=inside[:, None], other=0.0).to(gl.float32) * taps[tap]
            pieces.index(part * (ROWS // _LINES) + line).store(total.to(held.dtype))


@gluon.jit
def _take(given, held, matrix, whole, height: gl.constexpr, breadth: gl.constexpr, which: gl.constexpr):
    tokens, table, bias, answer, count = given
    width: gl.constexpr = held.shape[1]
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, width, 16])
    column = gl.arange(0, width, gl.SliceLayout(0, sums))
    mbarrier.wait(whole, 0)
    for tile in range(gl.program_id(0), gl.cdiv(count, ROWS * _GROUPS), gl.num_programs(0)):
        start = (tile * _GROUPS + which) * ROWS
        tma.store_wait(0)  # the answer before has left
        barrier()
        _filter(tokens, table, held, start, count, height, breadth)
        fence_async_shared()
        barrier()
        total = gl.zeros((ROWS, width), gl.float32, sums) + gl.load(bias + column).to(gl.float32)[None, :]
        total = warpgroup_mma(held, matrix.permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        barrier()  # all have multiplied
        held.store(total.to(held.dtype))
        fence_async_shared()
        barrier()
        send(answer, [start, 0], held)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def projected_by_groups(tokens, table, matrix, bias, answer, count, height: gl.constexpr, breadth: gl.constexpr):
    """matrix, answer: as `described` has them, in pieces of (width, width) and (ROWS, width)"""
    held = gl.allocate_shared_memory(answer.dtype, [_GROUPS, ROWS, answer.block_type.shape[1]], answer.layout)
    all_of_it = gl.allocate_shared_memory(matrix.dtype, matrix.block_type.shape, matrix.layout)
    whole = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout()).index(0)
    mbarrier.init(whole, count=1)
    mbarrier.expect(whole, matrix.block_type.shape[0] * matrix.block_type.shape[1] * 2)
    fetch(matrix, [0, 0], whole, all_of_it)
    given = (tokens, table, bias, answer, count)
    gl.warp_specialize(
        [
            (_take, (given, held.index(0), all_of_it, whole, height, breadth, 0)),
            (_take, (given, held.index(1), all_of_it, whole, height, breadth, 1)),
            (_take, (given, held.index(2), all_of_it, whole, height, breadth, 2)),
        ],
        [4, 4],
        [168, 168],
    )
