"""Launch parameters of the norm_linear kernels, by their sizes.

For Hopper GPUs, without register spills as reported by the compiler. Small programs of 4 warps with 64 rows, several
per multiprocessor, so that many loads are in flight.
"""

from functools import cache
from typing import NamedTuple

from patchword.kernels.common.launch import parts

WIDTHS = (64, 96, 128, 192)
_SHARED = 228 * 1024  # per multiprocessor
_MOST = 96 * 1024  # bytes of a matrix, so that two programs can hold it; streaming a larger one is too slow
_ROWS = 64
_WARPS = 4


class Plan(NamedTuple):
    """first + second: the width. main + rest: output columns per chunk. programs: per multiprocessor"""

    first: int
    second: int
    rows: int
    main: int
    rest: int
    warps: int
    stages: int
    programs: int


def is_known(width: int, outputs: int) -> bool:
    return width in WIDTHS and outputs % 32 == 0 and 2 * width * outputs <= _MOST


@cache
def launch(width: int, outputs: int) -> Plan:
    held = 2 * width * outputs + 2 * _ROWS * width + 1024
    programs = max(1, min(4 if width < 128 else 3, _SHARED // held))  # as many as the registers allow
    return Plan(*parts(width), _ROWS, *_chunk(outputs), _WARPS, 1, programs)


def _chunk(outputs: int) -> tuple[int, int]:
    """Returns two powers of two whose sum divides the outputs; the second may be 0."""
    known = ((128, 0), (64, 0), (64, 32), (32, 0))
    return next((main, rest) for main, rest in known if outputs % (main + rest) == 0)
