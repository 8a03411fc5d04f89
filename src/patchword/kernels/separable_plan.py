"""How the kernel of separable projections is launched, by the width of tokens.

Small programs, four and more on each processor: while some filter, others multiply.
"""

from typing import NamedTuple


class Plan(NamedTuple):
    """each: projections of a program, 1 or 3. rows: its tokens. block: channels that are filtered at a time. chunk:
    columns of the matrix at a time; there must be two, or the compiler filters where products want their numbers, with
    many more registers. registers: the most of a thread, if not all that the compiler wants."""

    each: int
    rows: int
    block: int
    chunk: int
    warps: int
    stages: int
    registers: int | None = None


PLANS = {  # the quickest of those tried on an H200, but for 96, which is as 64
    64: Plan(3, 64, 32, 32, 4, 2, 128),
    96: Plan(3, 64, 32, 32, 4, 2, 128),
    128: Plan(3, 64, 32, 32, 4, 2),
}
ROWS, BLOCK, WARPS = 64, 32, 4  # of a program that filters alone


def is_narrow(width: int) -> bool:
    """Whether filters and matrices are one kernel; for wider tokens torch's own products are quicker."""
    return width in PLANS


def is_known(width: int) -> bool:
    return is_narrow(width) or width % BLOCK == 0


def launch(width: int) -> Plan:
    return PLANS[width]
