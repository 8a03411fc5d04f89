"""How the kernel of separable projections is launched, by the width of tokens.

Small programs, four and more on each processor: while some filter, others multiply.
"""

from typing import NamedTuple

from patchword.kernels import strips_plan


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


PLANS = {  # the quickest of those tried on an H200
    128: Plan(3, 64, 32, 32, 4, 2),
}


def is_narrow(width: int) -> bool:
    """Whether filters and matrices are one kernel; for other widths filters alone and torch's products are quicker."""
    return width in PLANS


def is_known(width: int) -> bool:
    return is_narrow(width) or strips_plan.is_known(width)


def launch(width: int) -> Plan:
    return PLANS[width]
