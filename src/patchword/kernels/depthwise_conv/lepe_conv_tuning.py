"""How the work of a filter of 3 x 3 is dealt out to programs: channels in blocks, columns of groups, rows in spans."""

from typing import NamedTuple

# Counted, not measured: by the registers that the compiler uses. benchmarks/neighbours.py --tune tries others.
EACH = 8  # channels that a thread has: 16 bytes of numbers of 16 bits, read at once
WARPS, REGISTERS = 4, 128  # of a program, of a thread: four programs fill the registers of a processor
PROGRAMS = 4
WALKERS = 3  # programs of a processor where sums are formed, which takes more registers
WIDEST = 64  # channels of a block


class Strips(NamedTuple):
    """tile: columns that a program has. block: channels. span: rows that it walks down."""

    tile: int
    block: int
    span: int
    grid: tuple[int, int, int]
    warps: int
    registers: int | None


def strips(lanes: int, rows: int, channels: int, sm_count: int) -> Strips:
    """lanes: columns of all groups of all images; rows: of a group.

    The quickest number of spans, if a program costs its rows and the one on either side.
    """
    block, tile = _block(channels), _tile(channels)
    blocks, tiles, places = -(-channels // block), -(-lanes // tile), PROGRAMS * sm_count

    def spent(parts: int) -> int:
        return -(-tiles * blocks * parts // places) * (-(-rows // parts) + 2)

    span = -(-rows // min(range(1, rows + 1), key=spent))
    return Strips(tile, block, span, (tiles, blocks, -(-rows // span)), WARPS, REGISTERS)


def walkers(lanes: int, channels: int, sm_count: int) -> Strips:
    """The same where a program walks over whole groups, one after the other, and sums what it finds."""
    block, tile = _block(channels), _tile(channels)
    blocks, tiles = -(-channels // block), -(-lanes // tile)
    turns = -(-tiles * blocks // (WALKERS * sm_count))
    return Strips(tile, block, 0, (-(-tiles // turns), blocks, 1), WARPS, None)


def _block(channels: int) -> int:
    """The widest that divides them, else one that holds them or some, with a rest that does nothing."""
    divided = [block for block in (WIDEST, WIDEST // 2) if channels % block == 0]
    return divided[0] if divided else min(WIDEST, max(16, 1 << (channels - 1).bit_length()))


def _tile(channels: int) -> int:
    return 32 * WARPS * EACH // _block(channels)
