# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""tokens + branch @ matrix' + bias by groups of warps (group_parts), where one program's share of shared memory holds
the whole matrix and little else. The twin is plain_product_onto.

Three groups with 64 rows each, and nobody who brings: while one waits for its rows, the others multiply and add. Only
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

from patchword.kernels.group_parts import ROWS, barrier, fetch, send

_GROUPS = gl.constexpr(3)


@gluon.jit
def _take(given, held, matrix, here, whole, which: gl.constexpr):
    tokens, branch, bias, answer, count = given
    outputs: gl.constexpr = matrix.shape[0]
    width: gl.constexpr = matrix.shape[1]
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, outputs, 16])
    row, column = gl.arange(0, ROWS, gl.SliceLayout(1, sums)), gl.arange(0, outputs, gl.SliceLayout(0, sums))
    taken = 0
    mbarrier.wait(whole, 0)
    for tile in range(gl.program_id(0), gl.cdiv(count, ROWS * _GROUPS), gl.num_programs(0)):
        start = (tile * _GROUPS + which) * ROWS
        tma.store_wait(0)  # the answer before has left
        barrier()
        mbarrier.expect(here, ROWS * width * 2)
        fetch(branch, [start, 0], here, held)
        place = (start.to(gl.int64) + row)[:, None] * outputs + column[None, :]
        total = gl.load(tokens + place, mask=(start + row < count)[:, None], other=0.0).to(gl.float32)
        total += gl.load(bias + column).to(gl.float32)[None, :]
        mbarrier.wait(here, taken)
        taken = 1 - taken
        total = warpgroup_mma(held, matrix.permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        barrier()  # all have multiplied
        held.store(total.to(held.dtype))
        fence_async_shared()
        barrier()
        send(answer, [start, 0], held)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def onto_by_groups(tokens, branch, matrix, bias, answer, count):
    """branch, matrix, answer: as `described` has them, in pieces of (ROWS, width), (width, width) and (ROWS, width)"""
    held = gl.allocate_shared_memory(branch.dtype, [_GROUPS, ROWS, branch.block_type.shape[1]], branch.layout)
    all_of_it = gl.allocate_shared_memory(matrix.dtype, matrix.block_type.shape, matrix.layout)
    bars = gl.allocate_shared_memory(gl.int64, [_GROUPS + 1, 1], mbarrier.MBarrierLayout())
    for which in gl.static_range(_GROUPS + 1):
        mbarrier.init(bars.index(which), count=1)
    whole = bars.index(_GROUPS)
    mbarrier.expect(whole, matrix.block_type.shape[0] * matrix.block_type.shape[1] * 2)
    fetch(matrix, [0, 0], whole, all_of_it)
    given = (tokens, branch, bias, answer, count)
    gl.warp_specialize(
        [
            (_take, (given, held.index(0), all_of_it, bars.index(0), whole, 0)),
            (_take, (given, held.index(1), all_of_it, bars.index(1), whole, 1)),
            (_take, (given, held.index(2), all_of_it, bars.index(2), whole, 2)),
        ],
        [4, 4],
        [168, 168],
    )
