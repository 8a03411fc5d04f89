"""Compares runs with and without one change: a table of all measures, and a figure with one panel per measure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, ScalarFormatter

from patchword.core.files import whole_file, write_json, write_text
from patchword.reports.comparison.study import Grid, data_part, group_of, write_csv
from patchword.reports.plots.figures import BLUE, INK, ORANGE, drawn, figure_style
from patchword.reports.plots.numbers import amount, counted, duration, heading, scale_of, shortened
from patchword.studies.spread import Spread
from patchword.studies.study import Result, Study, field_of

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")
_LOOKS = ((BLUE, "o", -0.17), (ORANGE, "s", 0.17))  # without, with: colour, marker, and offset beside the model


@dataclass(frozen=True)
class Column:
    """A measure. field: its name in the results. scale: the factor to its unit."""

    field: str
    title: str
    unit: str
    scale: float
    logarithmic: bool = False

    @property
    def label(self) -> str:
        """The label of its axis, in two lines if it is long."""
        between = " " if len(self.title) + len(self.unit) < 30 else "\n"
        return f"{self.title}{between}({self.unit})"

    def values(self, results: Sequence[Result]) -> list[float]:
        return [self.scale * result.measures[self.field] for result in results if self.field in result.measures]

    def digits(self, mean: float) -> int:
        """Return the number of decimals: three significant digits, or two for percent."""
        if self.scale != 1:
            return 2
        return max(0, 2 - math.floor(math.log10(abs(mean)))) if mean else 0

    def cell(self, results: Sequence[Result]) -> str:
        values = self.values(results)
        if not values:
            return ""
        spread = Spread.of(values)
        digits = self.digits(spread.mean)
        more = "" if spread.deviation is None else f" \N{PLUS-MINUS SIGN} {spread.deviation:,.{digits}f}"
        return f"{spread.mean:,.{digits}f}{more}"


@dataclass(frozen=True)
class Comparison:
    """The runs of each model, without and with the change, from all seeds."""

    study: Study
    results: Sequence[Result]
    columns: Sequence[Column]
    rows: Mapping[str, tuple[list[Result], list[Result]]]

    @classmethod
    def of(cls, study: Study, results: Sequence[Result]) -> "Comparison":
        columns = [_evaluated(results, name) for name in _shown(results)]
        for one in study.measured:
            columns.append(Column(field_of(one), one.name, one.unit, 100 if one.unit == "%" else 1, one.logarithmic))
        rows: dict[str, tuple[list[Result], list[Result]]] = {}
        with_change = f"-{study.against.lower()}"
        without_change = f"-{study.baseline.lower()}" if study.baseline else ""
        for result in results:
            label = group_of(result)
            changed = label.endswith(with_change)
            model = label.removesuffix(with_change if changed else without_change)
            rows.setdefault(model, ([], []))[changed].append(result)
        return cls(study, results, columns, rows)

    @property
    def seeds(self) -> int:
        return max(len(runs) for pair in self.rows.values() for runs in pair)

    @property
    def note(self) -> str:
        units = "; ".join(f"{column.title}: {column.unit}" for column in self.columns)
        over = f"Mean and standard deviation over {self.seeds} seeds. " if self.seeds > 1 else ""
        return f"{over}Units: {units}."

    def grid(self) -> Grid:
        """Return the table: the model, with or without the change, and the measures."""
        baseline, against = self.study.baseline, self.study.against
        words = (baseline, against) if baseline else ("no", "yes")
        head = ["model", "arm" if baseline else against]
        cells = [
            [model, word, *self._costs(runs), *(column.cell(runs) for column in self.columns)]
            for model, pair in self.rows.items()
            for word, runs in zip(words, pair, strict=True)
            if runs
        ]
        costs = ["parameters", "MACs", "training time"] if self.study.costs else []
        return Grid([*head, *costs, *(column.title for column in self.columns)], cells, words=2)

    def _costs(self, runs: Sequence[Result]) -> list[str]:
        """Return parameters, MACs and the mean training time, if the study shows them."""
        if not self.study.costs:
            return []
        first, seconds = runs[0], fmean(result.seconds for result in runs)
        return [f"{first.parameters:,}", amount(first.macs), duration(seconds)]

    def write(self, folder: Path) -> list[Path]:
        """Write results.md, results.json, results.csv and one figure into the study's folder."""
        conclusion = self.study.conclusion(self.results)
        lines = "".join(f"- {line}\n" for line in conclusion.splitlines())
        write_text(folder / "results.md", f"{self.study.about} {self.note}\n\n{self.grid().markdown()}\n{lines}")
        runs = [result.to_json() for result in self.results]
        kept = {"about": self.study.about, "conclusion": conclusion, "means": self._means(), "runs": runs}
        write_json(folder / "results.json", kept)
        for kind in _KINDS:
            with whole_file(folder / f"results.{kind}") as temporary:
                temporary.write_bytes(drawn(self.figure(), kind))
        figures = [folder / f"results.{kind}" for kind in _KINDS]
        return [folder / "results.md", folder / "results.json", write_csv(self.results, folder), *figures]

    def _means(self) -> dict[str, dict[str, object]]:
        """Return the mean of each measure, as measured: fractions, not percent."""
        return {
            group_of(runs[0]): {
                column.field: Spread.of([value / column.scale for value in values]).to_json()
                for column in self.columns
                if (values := column.values(runs))
            }
            for pair in self.rows.values()
            for runs in pair
            if runs
        }

    def figure(self) -> Figure:
        """Draw a panel per measure: per model a dot per seed and a line at their mean, without and with the change."""
        width = (1.1 * len(self.rows) + 1.0) * len(self.columns)
        with figure_style():
            figure = Figure(figsize=(max(width, 6.0), 4.0), layout="constrained")
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
            figure.legend(handles=handles, loc="outside upper center", ncols=2, fontsize=10)
            dots = f"{counted(self.seeds, 'seed')} each; dots: seeds; lines and numbers: means"
            figure.supxlabel(dots if self.seeds > 1 else "one seed each", size=9, color="#4d565f")
            return figure

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


def _shown(results: Sequence[Result]) -> list[str]:
    """Return the measures of the evaluation in the table: the main metric, and the AP of masks beside that of boxes."""
    with_masks = all("mask_ap" in result.measures for result in results)
    return ["box_ap", "mask_ap"] if results[0].metric == "box_ap" and with_masks else [results[0].metric]


def _evaluated(results: Sequence[Result], name: str) -> Column:
    scale, unit = scale_of(name)
    return Column(name, f"{data_part(results)} {heading(name)}", unit.strip(" ()"), scale)


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
