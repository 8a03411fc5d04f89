"""Prints possible mistakes in the data before training; they do not stop it."""

from collections.abc import Sequence

from rich.console import Console

from patchword.data.faults import Fault, fault_lines

SHOWN = 3  # of each kind


def print_notes(doubts: Sequence[Fault], console: Console, most: int | None = SHOWN) -> None:
    for line in fault_lines(doubts, most):
        console.print(line if line.startswith(" ") else f"note: {line}", highlight=False, markup=False)
