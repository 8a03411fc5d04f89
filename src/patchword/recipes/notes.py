"""Prints faulty samples that are skipped, and possible mistakes in the data, before training."""

from collections.abc import Sequence

from rich.console import Console

from patchword.data.faults import Fault, FaultReport, note_lines
from patchword.data.skipping import skipped_lines

SHOWN = 3  # of each kind


def print_report(report: FaultReport, console: Console) -> None:
    """Print a warning that names the skipped samples, and possible mistakes."""
    for line in skipped_lines(report.skipped):
        console.print(line, highlight=False, markup=False)
    print_notes(report.doubts, console)


def print_notes(doubts: Sequence[Fault], console: Console, most: int | None = SHOWN) -> None:
    for line in note_lines(doubts, most):
        console.print(line, highlight=False, markup=False)
