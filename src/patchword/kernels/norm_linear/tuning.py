"""How the kernels of narrow products are launched, by their sizes.

Figures of a Hopper GPU, for which the compiler was asked: nothing spills. Small programs of 4 warps with 64 rows, of
which a processor holds several, so that many tokens are on their way.
"""

from functools import cache
from typing import NamedTuple

from patchword.kernels.common.launch import parts

WIDTHS = (64, 96, 128, 192)
_SHARED = 228 * 1024  # of a processor
_MOST = 96 * 1024  # bytes of a matrix: two programs can hold one each; larger ones would pass by, which takes too long
_ROWS = 64
_WARPS = 4


class Plan(NamedTuple):
    """first + second: the width. main + rest: columns of the answer at a time. programs: on each processor"""

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
    programs = max(1, min(4 if width < 128 else 3, _SHARED // held))  # for which a processor has registers
    return Plan(*parts(width), _ROWS, *_chunk(outputs), _WARPS, 1, programs)


def _chunk(outputs: int) -> tuple[int, int]:
    """two powers of two, the second of which may be 0, whose sum divides the outputs"""
    known = ((128, 0), (64, 0), (64, 32), (32, 0))
    return next((main, rest) for main, rest in known if outputs % (main + rest) == 0)
