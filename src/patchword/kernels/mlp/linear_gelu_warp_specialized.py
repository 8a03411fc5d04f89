# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""gelu(up(x)) as a warp-specialised kernel: one group of warps computes GELU while the other multiplies.

Reference: linear_gelu_reference.

Each group has 64 rows and loops over all tiles of the matrix, of SIDE x DEEP. During the products with the last SIDE
hidden channels, the next rows are loaded into the tiles that are no longer needed. Import it only where Triton is
installed.
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
HALF = gl.constexpr(64)  # columns that are stored at a time
_GROUPS = gl.constexpr(2)


@gluon.jit
def _load_tiles(up, ups, barriers, tiles, hidden_tiles, width_tiles: gl.constexpr):
    """The producer: loads the tiles of the matrix."""
    ready, free = barriers
    slots: gl.constexpr = ups.shape[0]
    step = 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for number in range(hidden_tiles * width_tiles):
            slot = step % slots
            mbarrier.wait(free.index(slot), step // slots % 2 ^ 1)
            mbarrier.expect(ready.index(slot), SIDE * DEEP * 2)
            fetch(up, [number // width_tiles * SIDE, number % width_tiles * DEEP], ready.index(slot), ups.index(slot))
            step += 1


@gluon.jit
def _halves(x):
    """Splits the columns into two halves."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, HALF, 16])
    one, other = gl.split(gl.permute(gl.reshape(x, (ROWS, 2, HALF)), (0, 2, 1)))
    return gl.convert_layout(one, layout), gl.convert_layout(other, layout)


@gluon.jit
def _compute_rows(
    inputs,
    rows_tile,
    output_tile,
    rows_ready,
    ups,
    barriers,
    tiles,
    hidden_tiles,
    form: gl.constexpr,
    which: gl.constexpr,
):
    tokens, bias, output = inputs
    ready, free = barriers
    slots: gl.constexpr = ups.shape[0]
    width_tiles: gl.constexpr = rows_tile.shape[0]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    column = gl.arange(0, SIDE, gl.SliceLayout(0, layout))
    start = (gl.program_id(0) * _GROUPS + which) * ROWS
    mbarrier.expect(rows_ready, width_tiles * ROWS * DEEP * 2)
    for width_tile in gl.static_range(width_tiles):
        fetch(tokens, [start, width_tile * DEEP], rows_ready, rows_tile.index(width_tile))
    step, phase = 0, 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        start = (tile * _GROUPS + which) * ROWS
        following = start + gl.num_programs(0) * _GROUPS * ROWS
        mbarrier.wait(rows_ready, phase)
        phase = 1 - phase
        for part in range(hidden_tiles):
            bias_row = gl.load(bias + part * SIDE + column).to(gl.float32)
            loads_next_rows = (part == hidden_tiles - 1) & (tile + gl.num_programs(0) < tiles)
            if loads_next_rows:
                mbarrier.expect(rows_ready, width_tiles * ROWS * DEEP * 2)
            total = gl.zeros((ROWS, SIDE), gl.float32, layout)
            for width_tile in gl.static_range(width_tiles):
                slot = (step + width_tile) % slots
                mbarrier.wait(ready.index(slot), (step + width_tile) // slots % 2)
                matrix = ups.index(slot).permute((1, 0))
                total = warpgroup_mma(rows_tile.index(width_tile), matrix, total, use_acc=width_tile > 0, is_async=True)
                if width_tile > 0:
                    total = warpgroup_mma_wait(1, deps=(total,))
                    mbarrier.arrive(free.index((step + width_tile - 1) % slots), count=1)
                    if loads_next_rows:
                        fetch(tokens, [following, (width_tile - 1) * DEEP], rows_ready, rows_tile.index(width_tile - 1))
            total = warpgroup_mma_wait(0, deps=(total,))
            mbarrier.arrive(free.index((step + width_tiles - 1) % slots), count=1)
            if loads_next_rows:
                fetch(tokens, [following, (width_tiles - 1) * DEEP], rows_ready, rows_tile.index(width_tiles - 1))
            step += width_tiles
            halves = _halves(total + bias_row[None, :])
            for half in gl.static_range(SIDE // HALF):
                activated = activation(halves[half], form).to(output_tile.dtype)
                tma.store_wait(0)  # the previous half is stored
                barrier()
                output_tile.store(activated)
                fence_async_shared()
                barrier()
                send(output, [start, part * SIDE + half * HALF], output_tile)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def warp_specialized_kernel(
    tokens, up, bias, output, count, hidden_tiles, width_tiles: gl.constexpr, form: gl.constexpr, slots: gl.constexpr
):
    """tokens, up, output: descriptors (`described`) with tiles of (ROWS, DEEP), (SIDE, DEEP) and (ROWS, HALF)"""
    first = gl.allocate_shared_memory(tokens.dtype, [width_tiles, ROWS, DEEP], tokens.layout)
    second = gl.allocate_shared_memory(tokens.dtype, [width_tiles, ROWS, DEEP], tokens.layout)
    output_tile = gl.allocate_shared_memory(output.dtype, [_GROUPS, ROWS, HALF], output.layout)
    ups = gl.allocate_shared_memory(up.dtype, [slots, SIDE, DEEP], up.layout)
    ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    rows_ready = gl.allocate_shared_memory(gl.int64, [_GROUPS, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(ready.index(slot), count=1)
        mbarrier.init(free.index(slot), count=_GROUPS)
    for which in gl.static_range(_GROUPS):
        mbarrier.init(rows_ready.index(which), count=1)
    tiles = gl.cdiv(count, ROWS * _GROUPS)
    inputs, barriers = (tokens, bias, output), (ready, free)
    gl.warp_specialize(
        [
            (
                _compute_rows,
                (inputs, first, output_tile.index(0), rows_ready.index(0), ups, barriers, tiles, hidden_tiles, form, 0),
            ),
            (
                _compute_rows,
                (
                    inputs,
                    second,
                    output_tile.index(1),
                    rows_ready.index(1),
                    ups,
                    barriers,
                    tiles,
                    hidden_tiles,
                    form,
                    1,
                ),
            ),
            (_load_tiles, (up, ups, barriers, tiles, hidden_tiles, width_tiles)),
        ],
        [4, 1],
        [240, 24],
    )
