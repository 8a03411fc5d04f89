"""Compares runs with and without one change: a table of all measures, and a figure with one panel per measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from patchword.reports.colors import BLUE, INK, ORANGE, TEXT
from patchword.reports.comparison.measures import (
    Column,
    Written,
    columns_of,
    cost_cells,
    cost_titles,
    means_of,
    named_measures,
    note_of,
    write_measures,
)
from patchword.reports.comparison.study import Grid, group_of
from patchword.reports.plots.figures import figure_style
from patchword.reports.plots.numbers import counted, shortened
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study

_LOOKS = ((BLUE, "o", -0.17), (ORANGE, "s", 0.17))  # without, with: colour, marker, and offset beside the model


@dataclass(frozen=True)
class Comparison:
    """The runs of each model, without and with the change, from all seeds."""

    study: Study
    results: Sequence[Result]
    columns: Sequence[Column]
    rows: Mapping[str, tuple[list[Result], list[Result]]]

    @classmethod
    def of(cls, study: Study, results: Sequence[Result]) -> "Comparison":
        rows: dict[str, tuple[list[Result], list[Result]]] = {}
        with_change = f"-{study.against.lower()}"
        without_change = f"-{study.baseline.lower()}" if study.baseline else ""
        for result in results:
            label = group_of(result)
            changed = label.endswith(with_change)
            model = label.removesuffix(with_change if changed else without_change)
            rows.setdefault(model, ([], []))[changed].append(result)
        return cls(study, results, columns_of(study, results), rows)

    @property
    def seeds(self) -> int:
        return max(len(runs) for pair in self.rows.values() for runs in pair)

    @property
    def note(self) -> str:
        return note_of(self.columns, self.seeds)

    def grid(self) -> Grid:
        """Return the table: the model, with or without the change, and the measures."""
        baseline, against = self.study.baseline, self.study.against
        words = (baseline, against) if baseline else ("no", "yes")
        head = ["model", "arm" if baseline else against]
        cells = [
            [model, word, *cost_cells(self.study, runs), *(column.cell(runs) for column in self.columns)]
            for model, pair in self.rows.items()
            for word, runs in zip(words, pair, strict=True)
            if runs
        ]
        return Grid([*head, *cost_titles(self.study), *(column.title for column in self.columns)], cells, words=2)

    def write(self, folder: Path) -> list[Path]:
        """Write results.md, results.json, results.csv and one figure into the study's folder."""
        runs = [runs for pair in self.rows.values() for runs in pair if runs]
        means = means_of(self.columns, {group_of(found[0]): found for found in runs})
        return write_measures(self.study, self.results, Written(self.note, self.grid(), means, self.figure()), folder)

    def figure(self) -> Figure:
        """Draw a panel per measure: per model a dot per seed and a line at their mean, without and with the change."""
        width = (1.1 * len(self.rows) + 1.0) * len(self.columns)
        with figure_style():
            figure = Figure(figsize=(max(width, 6.0), 4.0), layout="constrained")
            figure.suptitle(self._title(), size=13, weight="bold")
            for number, column in enumerate(self.columns, 1):
                axes = figure.add_subplot(1, len(self.columns), number, xlabel="model")
                axes.set_ylabel(column.label)
                self._panel(axes, column)
            against, baseline = self.study.against, self.study.baseline
            names = [baseline, against] if baseline else [f"without {against}", f"with {against}"]
            handles = [
                axes.plot([], [], mark, color=colour, label=name)[0]
                for (colour, mark, _), name in zip(_LOOKS, names, strict=True)
            ]
            figure.legend(handles=handles, loc="outside right center", fontsize=10)
            dots = f"{counted(self.seeds, 'seed')} each; dots: seeds; lines and numbers: means"
            figure.supxlabel(dots if self.seeds > 1 else "one seed each", size=9, color=TEXT)
            return figure

    def _title(self) -> str:
        against, baseline = self.study.against, self.study.baseline
        arms = f"{baseline} or {against}" if baseline else f"with and without {against}"
        return f"{named_measures(self.columns)}: {arms}"

    def _panel(self, axes: Axes, column: Column) -> None:
        everything: list[float] = []
        for place, pair in enumerate(self.rows.values()):
            for (colour, mark, beside), runs in zip(_LOOKS, pair, strict=True):
                values = column.values(runs)
                if values:
                    everything += values
                    _dots(axes, values, place + beside, (colour, mark), column)
        if column.logarithmic and everything and min(everything) > 0:
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(ScalarFormatter())
            axes.yaxis.set_minor_locator(NullLocator())
        axes.set_xticks(range(len(self.rows)), [shortened(name, 20) for name in self.rows])
        axes.set_xlim(-0.5, len(self.rows) - 0.5)
        axes.grid(visible=False, axis="x")
        axes.margins(y=0.16)


def _dots(axes: Axes, values: Sequence[float], place: float, look: tuple[str, str], column: Column) -> None:
    colour, mark = look
    mean = Spread.of(values).mean
    axes.plot([place] * len(values), values, mark, color=colour, markersize=6, alpha=0.75)
    if len(values) > 1:
        axes.plot([place - 0.12, place + 0.12], [mean, mean], color=INK, linewidth=2)
    axes.annotate(
        f"{mean:,.{column.digits(mean)}f}",
        (place, max(values)),
        (0, 7),
        textcoords="offset points",
        ha="center",
        size=9,
    )
