"""How the work of a depthwise 3 x 3 convolution is split between programs: blocks of channels, lanes, spans of rows."""

from typing import NamedTuple

# Derived from the registers that the compiler uses, not measured. benchmarks/depthwise_conv.py --tune tries others.
EACH = 8  # channels per thread: 16 bytes of 16-bit numbers, one load
WARPS, REGISTERS = 4, 128  # per program, per thread: four programs fill the registers of a multiprocessor
PROGRAMS = 4  # per multiprocessor
WALKERS = 3  # per multiprocessor, of the kernel that sums the gradients of the taps: it needs more registers
WIDEST = 64  # channels per block


class Strips(NamedTuple):
    """tile: lanes per program. block: channels per program. span: rows per program; 0 if it loops over all."""

    tile: int
    block: int
    span: int
    grid: tuple[int, int, int]
    warps: int
    registers: int | None


def strips(lanes: int, rows: int, channels: int, sm_count: int) -> Strips:
    """Chooses the fastest number of spans, if the cost of a program is its rows and one more on either side.

    lanes: columns of all groups of all images. rows: of a group
    """
    block, tile = _block(channels), _tile(channels)
    blocks, tiles, slots = -(-channels // block), -(-lanes // tile), PROGRAMS * sm_count

    def cost(parts: int) -> int:
        return -(-tiles * blocks * parts // slots) * (-(-rows // parts) + 2)

    span = -(-rows // min(range(1, rows + 1), key=cost))
    return Strips(tile, block, span, (tiles, blocks, -(-rows // span)), WARPS, REGISTERS)


def walkers(lanes: int, channels: int, sm_count: int) -> Strips:
    """Returns the launch parameters for programs that loop over groups and sum their results."""
    block, tile = _block(channels), _tile(channels)
    blocks, tiles = -(-channels // block), -(-lanes // tile)
    turns = -(-tiles * blocks // (WALKERS * sm_count))
    return Strips(tile, block, 0, (-(-tiles // turns), blocks, 1), WARPS, None)


def _block(channels: int) -> int:
    """Returns the largest block that divides the channels, else a power of two, with some padding."""
    divided = [block for block in (WIDEST, WIDEST // 2) if channels % block == 0]
    return divided[0] if divided else min(WIDEST, max(16, 1 << (channels - 1).bit_length()))


def _tile(channels: int) -> int:
    return 32 * WARPS * EACH // _block(channels)
