"""Tile sizes, warps, stages and registers of the window attention kernels, and where the kernels are worth it."""

from typing import NamedTuple

import torch
from torch import Tensor


class Launch(NamedTuple):
    """The configuration of a launch."""

    tile: int  # queries per program
    key_block: int  # keys per step of the loop
    width: int  # channels of a head, up to a power of two
    single_tile: bool  # a tile holds a whole group
    warps: int
    stages: int
    waves: int  # programs per multiprocessor at a time
    registers: int | None  # the most a thread may use


# Measured on an H200; benchmarks/window_kernel.py --tune tries other values.
# The largest group that is computed in a single tile, by work and by whether the dtype has 16 bits.
SINGLE_TILE = {("forward", True): 128, ("forward", False): 64, ("backward", True): 128, ("backward", False): 64}
WIDE = 64  # channels; for wider heads the largest single tile is half as large
# For larger groups, by whether the dtype has 16 bits: tile of queries, wider tile, block of keys. The wider tile is
# used if it needs no more padding.
TILE, WIDER_TILE, KEY_BLOCK = {True: 64, False: 32}, {True: 64, False: 32}, {True: 64, False: 32}
WARPS = {  # by work and tile
    ("forward", 16): 1, ("forward", 32): 2, ("forward", 64): 4, ("forward", 128): 8,
    ("backward", 16): 1, ("backward", 32): 2, ("backward", 64): 4, ("backward", 128): 8,
}  # fmt: skip
STAGES = {
    ("forward", True): 3,
    ("forward", False): 3,
    ("backward", True): 3,
    ("backward", False): 3,
}  # by work, single_tile
# By work, for single tiles and narrow heads. Values that are reused for many images may spill; the values of one image
# fit into these.
REGISTERS: dict[str, int | None] = {"forward": 128, "backward": None}
NARROW = 64  # channels of a head, in 16 bits
WAVES = {  # programs per multiprocessor at a time, by work and tile
    ("forward", 16): 4, ("forward", 32): 4, ("forward", 64): 4, ("forward", 128): 2,
    ("backward", 16): 2, ("backward", 32): 2, ("backward", 64): 2, ("backward", 128): 2,
}  # fmt: skip
SHARED_MEMORY = 227 * 1024  # bytes per program on an H200


# Where all tokens attend to all, torch's kernels are faster except for few tokens, and for some more with a gradient.
MAX_DENSE_TOKENS, MAX_DENSE_TOKENS_WITH_GRAD = 64, 128
MAX_DENSE_HEAD_WITH_GRAD = 64  # channels of a head


def is_faster_than_sdpa(query: Tensor, head: int) -> bool:
    """True if the kernel is faster than torch's where all tokens of (batch, tokens, width) attend to all.

    The kernel is compiled for each number of tokens. So it is only used in compiled models, which are specialised, too.
    """
    with_grad = query.requires_grad and head <= MAX_DENSE_HEAD_WITH_GRAD
    most = MAX_DENSE_TOKENS_WITH_GRAD if with_grad else MAX_DENSE_TOKENS
    fits = query.shape[1] <= most and query.dtype in (torch.float16, torch.bfloat16)
    return fits and torch.compiler.is_compiling()


def launch(work: str, size: int, head: int, dtype: torch.dtype, shared_memory: int = SHARED_MEMORY) -> Launch:
    """Chooses the configuration of a launch.

    work: "forward" or "backward". size: tokens of a group. head: channels of a head. shared_memory: bytes per program
    """
    is_16_bit, width = dtype.itemsize == 2, max(16, _next_power_of_2(head))
    largest = SINGLE_TILE[work, is_16_bit] // (2 if width > WIDE else 1)
    single_tile = _next_power_of_2(size) <= largest
    tile = max(16, _next_power_of_2(size)) if single_tile else _tile(size, width, is_16_bit)
    key_block = tile if single_tile else KEY_BLOCK[is_16_bit]
    # Stages hold queries, keys and values (and gradients) in shared memory, beside a tile of weights or outputs.
    per_stage, fixed = (3 if work == "forward" else 4) * key_block * width, tile * max(key_block, width)
    stages = max(1, min(STAGES[work, single_tile], (shared_memory // dtype.itemsize - fixed) // per_stage))
    warps = WARPS[work, tile]
    if warps == 1:
        stages = 1  # with Triton 3.6, copies for a later step overwrite values that other lanes of the warp still read
    registers = REGISTERS[work] if single_tile and is_16_bit and width <= NARROW else None
    return Launch(tile, key_block, width, single_tile, warps, stages, WAVES[work, tile], registers)


def _tile(size: int, width: int, is_16_bit: bool) -> int:
    tile = TILE[is_16_bit]
    wider = WIDER_TILE[is_16_bit] if width <= NARROW else tile
    return wider if -(-size // wider) * wider <= -(-size // tile) * tile else tile


def walkers(groups: int, heads: int, programs: int) -> int:
    """Returns the number of programs per head, so that their numbers of groups differ by one at most.

    programs: the desired number of programs of all heads
    """
    groups_each = -(-groups * heads // programs)
    return -(-groups // groups_each)


def walk(groups: int, heads: int, batch: int, programs: int) -> tuple[int, int]:
    """Returns the number of programs per head along the groups of a map, and along the images of a batch.

    The fastest choice, if `programs` run at a time, an image costs 1 and the setup of a group costs _SETUP.
    """
    along_groups = walkers(groups, heads, programs) if groups * heads > programs else groups
    groups_each = -(-groups // along_groups)

    def cost(along_images: int) -> int:
        rounds = -(-heads * along_groups * along_images // programs)
        return rounds * groups_each * (-(-batch // along_images) + _SETUP)

    most = max(1, _MAX_ROUNDS * programs // (heads * along_groups))
    return along_groups, min(range(1, min(batch, most) + 1), key=cost)


_SETUP, _MAX_ROUNDS = 3, 4


def last_key_block(size: int, key_block: int) -> int:
    """Returns a power of two that holds the keys after the last full block, or 0 if there are none."""
    left = size % key_block
    return max(16, _next_power_of_2(left)) if left else 0


def _next_power_of_2(number: int) -> int:
    return 1 << (number - 1).bit_length()
