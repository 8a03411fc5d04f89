"""How the kernel of separable projections is launched, by the width of tokens.

Figures of a Hopper GPU, for which the compiler was asked: two programs of 8 warps on each processor, with 128 registers
for each thread and 113 KB of shared memory for each program, or one of 16 warps.
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


PLANS = {
    64: Plan(3, 128, 32, 32, 8, 2, 128),
    96: Plan(3, 128, 32, 32, 8, 2, 128),
    128: Plan(3, 64, 32, 64, 8, 2),
    192: Plan(1, 128, 64, 32, 8, 2),
    256: Plan(1, 128, 64, 32, 8, 2),
    384: Plan(1, 128, 64, 32, 16, 2),  # one program on each processor, whose tokens fill the shared memory
    512: Plan(1, 128, 64, 32, 16, 2),
}


def is_known(width: int) -> bool:
    return width in PLANS


def launch(width: int) -> Plan:
    return PLANS[width]
