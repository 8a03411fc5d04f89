"""The lines that a run prints: a table with one row per epoch, and the position within an epoch.

A line is never longer than the terminal is wide: columns that matter less are left out instead.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PERCENT = ("accuracy", "f1", "exact", "error_reduction")  # metrics that are shown in percent
_GAP = "  "
_DIGITS = 7  # of a number, with its point


@dataclass(frozen=True)
class Cell:
    """A value of a line. rank: cells of the highest rank are left out first; 0 always stays."""

    label: str
    text: str
    rank: int
    least: int = 0

    @property
    def width(self) -> int:
        return max(len(self.label), len(self.text), self.least)


def epoch_lines(record: Mapping[str, float], metric: str, epochs: int, best: bool, width: int) -> tuple[str, str]:
    """Return the header and the row of an epoch. record: its line of metrics.jsonl; best: its weights are the best."""
    score = record[f"validation_{metric}"]
    cells = [
        Cell("epoch", f"{record['epoch']}/{epochs}", 0, 2 * len(str(epochs)) + 1),
        Cell("loss", number(record["loss"]), 2, _DIGITS),
        *([Cell("accuracy", percent(record["accuracy"]), 4)] if "accuracy" in record else []),
        Cell("val loss", number(record["validation_loss"]), 1),
        Cell(f"val {metric}", percent(score) if metric in PERCENT else number(score), 0),
        Cell("best", "*" if best else "", 5),
        Cell("time", duration(record["seconds"]), 3, len("00:00:00")),
    ]
    kept = fitted(cells, width)
    header = _GAP.join(cell.label.rjust(cell.width) for cell in kept)
    return header, _GAP.join(cell.text.rjust(cell.width) for cell in kept).rstrip()


def step_text(loss: float, accuracy: float, speed: float, unit: str, seconds_left: float, width: int) -> str:
    """Return the position within an epoch as text of at most `width` characters."""
    cells = [
        Cell("", f"loss {number(loss)}", 0),
        *([] if math.isnan(accuracy) else [Cell("", f"accuracy {percent(accuracy)}", 3)]),
        Cell("", f"{speed:,.0f} {unit}/s", 2),
        Cell("", f"{duration(seconds_left)} left", 1),
    ]
    return _GAP.join(cell.text for cell in fitted(cells, width))


def fitted(cells: Sequence[Cell], width: int) -> list[Cell]:
    """Return the cells that fit into a line of this width."""
    kept = list(cells)
    while sum(cell.width for cell in kept) + len(_GAP) * (len(kept) - 1) > width:
        last = max(kept, key=lambda cell: cell.rank)
        if not last.rank:
            break
        kept.remove(last)
    return kept


def number(value: float) -> str:
    """Return a number with 4 decimals, or with fewer if it is large.

    >>> number(0.5), number(1234.56789), number(-3e12)
    ('0.5000', '1234.57', '-3e+12')
    """
    texts = (f"{value:.{decimals}f}" for decimals in range(4, -1, -1))
    return next((text for text in texts if len(text) <= _DIGITS), f"{value:.0e}")


def percent(value: float) -> str:
    return f"{value:.2%}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
