"""How the kernels of narrow products are launched, by their sizes.

Figures of a Hopper GPU, for which the compiler was asked: nothing spills. Small programs of 4 warps with 64 rows, of
which a processor holds several, so that many tokens are on their way.
"""

from functools import cache
from typing import NamedTuple

from patchword.kernels.feed_forward_plan import parts

WIDTHS = (64, 96, 128)  # not tried with wider tokens, whose matrix is read more often than they are themselves
_SHARED = 228 * 1024  # of a processor
_STAYS = 56 * 1024  # bytes of a matrix: two programs can hold one each
_ROWS = 64
_WARPS = 4
_MOST = 4  # programs for which a processor has registers


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


def is_known(width: int, outputs: int) -> bool:
    return width in WIDTHS and outputs % 32 == 0


@cache
def launch(width: int, outputs: int, size: int, *, adds: bool) -> Plan:
    """size: bytes of a number of the tokens. adds: a sum stands behind it, else a norm before it"""
    matrix = 2 * width * outputs
    stays = matrix <= _STAYS
    main, rest = (32, 0) if adds and not stays else _chunk(outputs)  # small ones leave room for other programs
    held = matrix + _ROWS * width * (size + 2) + 9216  # tokens as they are read, what is multiplied, what is turned
    programs = max(1, min(_MOST, _SHARED // (held + 1024)))
    return Plan(stays, *parts(width), _ROWS, main, rest, _WARPS, 2, programs)


def _chunk(outputs: int) -> tuple[int, int]:
    """two powers of two, the second of which may be 0, whose sum divides the outputs"""
    known = ((64, 0), (64, 32), (32, 0))
    return next((main, rest) for main, rest in known if outputs % (main + rest) == 0)
