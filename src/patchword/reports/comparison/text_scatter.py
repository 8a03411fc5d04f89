"""Text models as points: a published score over size and speed, and speed over cost."""

from collections.abc import Hashable, Sequence

from patchword.analysis.published.text import MNLI
from patchword.analysis.published.text_comparison import Condition, TextRow
from patchword.reports.colors import style_of
from patchword.reports.comparison import scatter
from patchword.reports.comparison.comparison import Figures
from patchword.reports.comparison.scatter import Point, beyond_size

_CAPTION = "Accuracy on the matched part of MNLI, as published; filled: test set, hollow: development set."


def figures(rows: Sequence[TextRow], conditions: Sequence[Condition], where: str) -> Figures:
    """Draw the scatter figures. conditions: the measured ones; the first one is drawn."""
    condition, measured, caption = None, "", ""
    if conditions:
        condition = conditions[0]
        measured = f"tokens per second ({condition})"
        caption = f"Measured on this machine with texts of {rows[0].tokens} tokens: {where}."
    speeds = {
        row.model: row.speeds[condition].rate * row.tokens for row in rows if condition and condition in row.speeds
    }
    sizes = {row.model: row.parameters / 1e6 for row in rows}
    points = [
        _point(row, row.macs / row.tokens / 1e6, speeds[row.model], _series(row)) for row in rows if row.model in speeds
    ]
    cost = "multiply-accumulates per token (M, counted)"
    return {
        "mnli-over-parameters": scatter.scatter_figure(
            _scores(rows, sizes), "parameters (M, counted)", _PERCENT, _CAPTION
        ),
        "mnli-over-speed": scatter.scatter_figure(_scores(rows, speeds), measured, _PERCENT, f"{_CAPTION} {caption}"),
        "speed-over-macs": scatter.scatter_figure(points, cost, measured, caption, factors=True),
    }


_PERCENT = f"{MNLI} (%)"


def _scores(rows: Sequence[TextRow], across: dict[str, float]) -> list[Point]:
    return [
        _point(row, across[row.model], score.value, (*_series(row), score.part), score.part == "test")
        for row in rows
        if row.model in across and (score := row.published.score(MNLI))
    ]


def _point(row: TextRow, across: float, value: float, line: Hashable, filled: bool = True) -> Point:
    return Point(row.family, row.size, across, value, line, style_of(row.family), filled)


def _series(row: TextRow) -> tuple[Hashable, ...]:
    return row.family, beyond_size(row.size)
