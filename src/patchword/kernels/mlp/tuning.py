"""Launch parameters of the MLP kernels, by their sizes.

Those of fused_mlp are for Hopper GPUs, as reported by the compiler: a program of 8 warps per multiprocessor holds 128
rows without spilling registers, and there are 227 KB of shared memory.
"""

from functools import cache
from typing import NamedTuple

from patchword.kernels.common.launch import parts

WIDTHS = (64, 96, 128, 160, 192, 256)  # sums of two powers of two, 32 at least
_SHARED = 227 * 1024
_UNROLLED = 512  # hidden channels up to which the loop over chunks is unrolled where the matrices stay
_ROWS = 128
_WARPS = 8

# bias_gelu
BIAS_GELU_ROWS, BIAS_GELU_ROWS_BACKWARD, BIAS_GELU_WARPS = 32, 8, 4  # per program and step
BIAS_GELU_COLUMNS = 256  # per program, or half as many
BIAS_GELU_PROGRAMS = 7  # per multiprocessor: as many as its registers hold in the backward pass


class LinearGelu(NamedTuple):
    """The tiles of linear_gelu, the fastest of those tried on an H200, and the widths for which it is used."""

    rows: int = 128
    columns: int = 128
    depth: int = 64
    warps: int = 8
    stages: int = 3
    min_width: int = 256  # channels of a token
    max_width: int = 384


LINEAR_GELU = LinearGelu()


class Plan(NamedTuple):
    """stays: both matrices stay in shared memory, and a program loops over tiles of rows. first + second: the width"""

    stays: bool
    first: int
    second: int
    rows: int
    chunk: int
    warps: int
    stages: int


class Groups(NamedTuple):
    """Warp-specialised: groups of consumer warps with 64 rows each. slots: tiles per matrix, of `chunk` channels"""

    chunk: int
    slots: int
    groups: int


_THREE, _TWO = Groups(64, 4, 3), Groups(64, 2, 2)  # the fastest of those tried on an H200
GROUPED = {64: _THREE, 96: _THREE, 128: _THREE, 192: _TWO, 256: _TWO}  # by the width


def is_warp_specialized(width: int, hidden: int) -> bool:
    return width in GROUPED and hidden % GROUPED[width].chunk == 0


def is_known(width: int, hidden: int) -> bool:
    return width in WIDTHS and hidden % 32 == 0


@cache
def launch(width: int, hidden: int, size: int) -> Plan:
    """size: bytes per element of the tokens"""
    first, second = parts(width)
    chunk = next(chunk for chunk in (128, 64, 32) if hidden % chunk == 0)
    held = 4 * width * hidden + (2 + size) * _ROWS * width  # both matrices, the tokens, and the normalised tokens
    if chunk > 32 and hidden <= _UNROLLED and held <= _SHARED - 16384:  # 16 KB for biases and transposed tiles
        return Plan(True, first, second, _ROWS, chunk, _WARPS, 2)
    chunk = min(chunk, 64 if 128 < width <= 192 else 32)  # 128 sums of 256 channels leave few registers for more
    divisor = 2 if width <= 128 else 1  # three small programs per multiprocessor, where registers are left
    return Plan(False, first, second, _ROWS // divisor, chunk, _WARPS // divisor, 3)
