# mypy: disable-error-code="import-not-found, import-untyped, untyped-decorator, no-untyped-def, no-untyped-call"
# mypy: disable-error-code="assignment"
"""x + down(gelu(up(norm(x)))) as a warp-specialised kernel: one group of warps computes GELU while another multiplies.

Reference: fused_mlp_reference; out_proj_mlp_reference if x is tokens + out_proj(branch).

Each group has 64 rows and loops over chunks of the hidden channels: it multiplies with a chunk of `up`, applies GELU,
and multiplies with a chunk of `down`. The next chunk of `up` is loaded during the product with `down`. Tiles of
`out_proj` use the slots of `down`. Import it only where Triton is installed.
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
def _load_tiles(out_proj, up, down, work, out_proj_tiles: gl.constexpr):
    """The producer: loads the tiles of all matrices in the order in which the consumers need them."""
    ups, downs, barriers, tiles, chunks = work
    up_ready, up_free, down_ready, down_free = barriers
    slots: gl.constexpr = ups.shape[0]
    chunk: gl.constexpr = ups.shape[1]
    size: gl.constexpr = chunk * ups.shape[2] * 2
    up_step, down_step = 0, 0
    for _ in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for part in range(out_proj_tiles):
            slot = down_step % slots
            mbarrier.wait(down_free.index(slot), down_step // slots % 2 ^ 1)
            mbarrier.expect(down_ready.index(slot), size)
            fetch(out_proj, [0, part * chunk], down_ready.index(slot), downs.index(slot))
            down_step += 1
        for part in range(chunks):
            slot = up_step % slots
            mbarrier.wait(up_free.index(slot), up_step // slots % 2 ^ 1)
            mbarrier.expect(up_ready.index(slot), size)
            fetch(up, [part * chunk, 0], up_ready.index(slot), ups.index(slot))
            up_step += 1
            slot = down_step % slots
            mbarrier.wait(down_free.index(slot), down_step // slots % 2 ^ 1)
            mbarrier.expect(down_ready.index(slot), size)
            fetch(down, [0, part * chunk], down_ready.index(slot), downs.index(slot))
            down_step += 1


@gluon.jit
def _add_vector(total, vector, column, inside):
    return total + gl.load(vector + column, mask=inside, other=0.0).to(gl.float32)[None, :]


@gluon.jit
def _norm(total, rows_tile, scale, shift, inside, eps, width: gl.constexpr, hidden_layout: gl.constexpr):
    """Replaces the rows in `rows_tile` by their LayerNorm, computed in float32; channels beyond the width are 0.

    In chunks, because all sums are in registers. The mean and the variance are those of the sums before rounding.
    """
    chunk: gl.constexpr = hidden_layout.instr_shape[1]
    mean = gl.sum(total, 1) / width
    centred = gl.where(inside[None, :], total - mean[:, None], 0.0)
    inv_std = gl.rsqrt(gl.sum(centred * centred, 1) / width + eps)
    mean = gl.convert_layout(mean, gl.SliceLayout(1, hidden_layout))[:, None]
    inv_std = gl.convert_layout(inv_std, gl.SliceLayout(1, hidden_layout))[:, None]
    for part in gl.static_range(rows_tile.shape[1] // chunk):
        column = part * chunk + gl.arange(0, chunk, gl.SliceLayout(0, hidden_layout))
        scale_part = gl.load(scale + column, mask=column < width, other=0.0).to(gl.float32)
        shift_part = gl.load(shift + column, mask=column < width, other=0.0).to(gl.float32)
        tile = rows_tile.slice(part * chunk, chunk, 1)
        x = tile.load(hidden_layout).to(gl.float32)
        tile.store(((x - mean) * inv_std * scale_part[None, :] + shift_part[None, :]).to(rows_tile.dtype))


@gluon.jit
def _compute_rows(
    inputs, vectors, rows_tile, rows_ready, work, width: gl.constexpr, form: gl.constexpr, groups: gl.constexpr,
    out_proj_tiles: gl.constexpr, which: gl.constexpr,
):  # fmt: skip
    tokens, branch, output, count, eps = inputs
    ups, downs, barriers, tiles, chunks = work
    out_proj_bias, scale, shift, up_bias, down_bias = vectors
    up_ready, up_free, down_ready, down_free = barriers
    slots: gl.constexpr = ups.shape[0]
    chunk: gl.constexpr = ups.shape[1]
    wide: gl.constexpr = ups.shape[2]
    hidden_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, chunk, 16])
    output_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, wide, 16])
    operand: gl.constexpr = gl.DotOperandLayout(0, output_layout, 2)
    inner = gl.arange(0, chunk, gl.SliceLayout(0, hidden_layout))
    row = gl.arange(0, ROWS, gl.SliceLayout(1, output_layout))
    column = gl.arange(0, wide, gl.SliceLayout(0, output_layout))
    inside = column < width
    up_step, down_step, phase = 0, 0, 0
    for tile in range(gl.program_id(0), tiles, gl.num_programs(0)):
        start = (tile * groups + which) * ROWS
        tma.store_wait(0)  # the previous output is stored
        barrier()
        if out_proj_tiles > 0:
            mbarrier.expect(rows_ready, ROWS * wide * 2)
            fetch(branch, [start, 0], rows_ready, rows_tile)
        offsets = (start.to(gl.int64) + row)[:, None] * width + column[None, :]
        valid = (start + row < count)[:, None] & inside[None, :]
        total = gl.load(tokens + offsets, mask=valid, other=0.0).to(gl.float32)
        if out_proj_tiles > 0:
            total = _add_vector(total, out_proj_bias, column, inside)
            mbarrier.wait(rows_ready, phase)
            phase = 1 - phase
            for part in gl.static_range(out_proj_tiles):
                slot = down_step % slots
                mbarrier.wait(down_ready.index(slot), down_step // slots % 2)
                branch_tile = rows_tile.slice(part * chunk, chunk, 1)
                total = warpgroup_mma(branch_tile, downs.index(slot).permute((1, 0)), total, is_async=True)
                total = warpgroup_mma_wait(0, deps=(total,))
                mbarrier.arrive(down_free.index(slot), count=1)
                down_step += 1
            barrier()  # all warps have multiplied
        rows_tile.store(total.to(rows_tile.dtype))
        _norm(total, rows_tile, scale, shift, inside, eps, width, hidden_layout)
        fence_async_shared()
        barrier()
        total = _add_vector(total, down_bias, column, inside)
        zeros = gl.zeros((ROWS, chunk), gl.float32, hidden_layout)
        slot = up_step % slots
        mbarrier.wait(up_ready.index(slot), up_step // slots % 2)
        hidden_sums = warpgroup_mma(rows_tile, ups.index(slot).permute((1, 0)), zeros, use_acc=False, is_async=True)
        hidden_sums = warpgroup_mma_wait(0, deps=(hidden_sums,))
        mbarrier.arrive(up_free.index(slot), count=1)
        up_step += 1
        for part in range(chunks - 1):
            bias = gl.load(up_bias + part * chunk + inner).to(gl.float32)
            hidden = gl.convert_layout(activation(hidden_sums + bias[None, :], form).to(rows_tile.dtype), operand)
            slot = down_step % slots
            mbarrier.wait(down_ready.index(slot), down_step // slots % 2)
            total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
            following = up_step % slots
            mbarrier.wait(up_ready.index(following), up_step // slots % 2)
            matrix = ups.index(following).permute((1, 0))
            hidden_sums = warpgroup_mma(rows_tile, matrix, zeros, use_acc=False, is_async=True)
            total, hidden, hidden_sums = warpgroup_mma_wait(1, deps=(total, hidden, hidden_sums))
            mbarrier.arrive(down_free.index(slot), count=1)
            down_step += 1
            hidden_sums = warpgroup_mma_wait(0, deps=(hidden_sums,))
            mbarrier.arrive(up_free.index(following), count=1)
            up_step += 1
        bias = gl.load(up_bias + (chunks - 1) * chunk + inner).to(gl.float32)
        hidden = gl.convert_layout(activation(hidden_sums + bias[None, :], form).to(rows_tile.dtype), operand)
        slot = down_step % slots
        mbarrier.wait(down_ready.index(slot), down_step // slots % 2)
        total = warpgroup_mma(hidden, downs.index(slot).permute((1, 0)), total, is_async=True)
        total = warpgroup_mma_wait(0, deps=(total,))
        mbarrier.arrive(down_free.index(slot), count=1)
        down_step += 1
        barrier()  # all warps have multiplied
        rows_tile.store(total.to(rows_tile.dtype))
        fence_async_shared()
        barrier()
        send(output, [start, 0], rows_tile)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["count"])
def warp_specialized(
    tokens, branch, out_proj, out_proj_bias, scale, shift, up, up_bias, down, down_bias, output, count, eps, chunks,
    width: gl.constexpr, form: gl.constexpr, slots: gl.constexpr, groups: gl.constexpr, out_proj_tiles: gl.constexpr,
):  # fmt: skip
    """up, down, output: descriptors (`described`) with tiles of (chunk, wide), (wide, chunk) and (ROWS, wide).

    out_proj_tiles: number of tiles of `out_proj`, which are like those of `down`; `branch` has tiles like those of
    `output`. If it is 0, neither is read.
    """
    chunk: gl.constexpr = up.block_type.shape[0]
    wide: gl.constexpr = up.block_type.shape[1]
    rows_tile = gl.allocate_shared_memory(output.dtype, [groups, ROWS, wide], output.layout)
    ups = gl.allocate_shared_memory(up.dtype, [slots, chunk, wide], up.layout)
    downs = gl.allocate_shared_memory(down.dtype, [slots, wide, chunk], down.layout)
    up_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    up_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_ready = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    down_free = gl.allocate_shared_memory(gl.int64, [slots, 1], mbarrier.MBarrierLayout())
    rows_ready = gl.allocate_shared_memory(gl.int64, [groups, 1], mbarrier.MBarrierLayout())
    for slot in gl.static_range(slots):
        mbarrier.init(up_ready.index(slot), count=1)
        mbarrier.init(down_ready.index(slot), count=1)
        mbarrier.init(up_free.index(slot), count=groups)
        mbarrier.init(down_free.index(slot), count=groups)
    for which in gl.static_range(groups):
        mbarrier.init(rows_ready.index(which), count=1)
    barriers = (up_ready, up_free, down_ready, down_free)
    inputs, vectors = (tokens, branch, output, count, eps), (out_proj_bias, scale, shift, up_bias, down_bias)
    tiles = gl.cdiv(count, ROWS * groups)
    work = (ups, downs, barriers, tiles, chunks)
    if groups == 2:
        gl.warp_specialize(
            [
                (
                    _compute_rows,
                    (
                        inputs,
                        vectors,
                        rows_tile.index(0),
                        rows_ready.index(0),
                        work,
                        width,
                        form,
                        groups,
                        out_proj_tiles,
                        0,
                    ),
                ),
                (
                    _compute_rows,
                    (
                        inputs,
                        vectors,
                        rows_tile.index(1),
                        rows_ready.index(1),
                        work,
                        width,
                        form,
                        groups,
                        out_proj_tiles,
                        1,
                    ),
                ),
                (_load_tiles, (out_proj, up, down, work, out_proj_tiles)),
            ],
            [4, 1],
            [240, 24],
        )
    else:
        gl.warp_specialize(
            [
                (
                    _compute_rows,
                    (
                        inputs,
                        vectors,
                        rows_tile.index(0),
                        rows_ready.index(0),
                        work,
                        width,
                        form,
                        groups,
                        out_proj_tiles,
                        0,
                    ),
                ),
                (
                    _compute_rows,
                    (
                        inputs,
                        vectors,
                        rows_tile.index(1),
                        rows_ready.index(1),
                        work,
                        width,
                        form,
                        groups,
                        out_proj_tiles,
                        1,
                    ),
                ),
                (
                    _compute_rows,
                    (
                        inputs,
                        vectors,
                        rows_tile.index(2),
                        rows_ready.index(2),
                        work,
                        width,
                        form,
                        groups,
                        out_proj_tiles,
                        2,
                    ),
                ),
                (_load_tiles, (out_proj, up, down, work, out_proj_tiles)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )
