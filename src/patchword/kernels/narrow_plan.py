"""How the kernels of narrow products are launched, by their sizes.

Figures of a Hopper GPU, for which the compiler was asked: nothing spills. Small programs of 4 warps with 64 rows, of
which a processor holds several, so that many tokens are on their way.
"""

from functools import cache
from typing import NamedTuple

from patchword.kernels.feed_forward_plan import parts

WIDTHS = (64, 96, 128)  # the matrices of wider ones pass by, which takes longer than a norm or a sum of its own
SUMMED = (*WIDTHS, 192)  # with a sum, whose matrix is smaller
_SHARED = 228 * 1024  # of a processor
_STAYS = 96 * 1024  # bytes of a matrix: two programs can hold one each
_ROWS = 64
_WARPS = 4


class Plan(NamedTuple):
    """stays: the matrix stays in shared memory, and `programs` on each processor walk over tiles of rows; else there is
    a program for each tile. first + second: the width. main + rest: columns of the answer at a time"""

    stays: bool
    first: int
    second: int
    rows: int
    main: int
    rest: int
    warps: int
    stages: int
    programs: int


def is_known(width: int, outputs: int, *, adds: bool) -> bool:
    return width in (SUMMED if adds else WIDTHS) and outputs % 32 == 0


@cache
def launch(width: int, outputs: int, *, adds: bool) -> Plan:
    """adds: a sum stands behind it, else a norm before it"""
    matrix = 2 * width * outputs
    stays = matrix <= _STAYS
    main, rest = (32, 0) if adds and not stays else _chunk(outputs, 128 if stays else 64)
    held = matrix + 2 * _ROWS * width + 1024
    programs = max(1, min(4 if width < 128 else 3, _SHARED // held))  # for which a processor has registers
    return Plan(stays, *parts(width), _ROWS, main, rest, _WARPS, 1 if stays else 2, programs)


def _chunk(outputs: int, most: int) -> tuple[int, int]:
    """two powers of two, the second of which may be 0, whose sum divides the outputs"""
    known = ((128, 0), (64, 0), (64, 32), (32, 0))
    return next((main, rest) for main, rest in known if main <= most and outputs % (main + rest) == 0)
