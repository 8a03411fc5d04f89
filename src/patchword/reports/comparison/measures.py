"""A study with several measures: one row per run, one column and one panel per measure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from matplotlib.figure import Figure

from patchword.core.files import whole_file, write_json, write_text
from patchword.reports.colors import TEXT
from patchword.reports.comparison.panels import draw_rows
from patchword.reports.comparison.study import Grid, data_part, write_csv
from patchword.reports.plots.figures import drawn, figure_style
from patchword.reports.plots.numbers import amount, counted, duration, heading, scale_of
from patchword.studies.spread import Spread
from patchword.studies.study import Result, ShownMeasure, Study, by_run, field_of

_KINDS: tuple[Literal["svg", "png"], ...] = ("svg", "png")


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


def columns_of(study: Study, results: Sequence[Result]) -> list[Column]:
    """Return the measures of the evaluation that the study shows and at least one run has, then those of
    `study.measured`."""
    metric = results[0].metric
    shown = [one for one in study.shown if any(one.field in result.measures for result in results)]
    columns = [_evaluated(results, one) for one in shown or [ShownMeasure(metric, heading(metric))]]
    for one in study.measured:
        columns.append(Column(field_of(one), one.name, one.unit, 100 if one.unit == "%" else 1, one.logarithmic))
    return columns


def _evaluated(results: Sequence[Result], shown: ShownMeasure) -> Column:
    scale, unit = scale_of(shown.field)
    return Column(shown.field, f"{data_part(results)} {shown.title}", unit.strip(" ()"), scale)


def cost_titles(study: Study) -> list[str]:
    """Return the columns of the costs, if the study shows them."""
    return ["parameters", "MACs", "training time"] if study.costs else []


def cost_cells(study: Study, runs: Sequence[Result]) -> list[str]:
    """Return parameters, MACs and the mean training time, if the study shows them."""
    if not study.costs:
        return []
    first, seconds = runs[0], fmean(result.seconds for result in runs)
    return [f"{first.parameters:,}", amount(first.macs), duration(seconds)]


def note_of(columns: Sequence[Column], seeds: int) -> str:
    """Return what the numbers of the table are, and their units."""
    units = "; ".join(f"{column.title}: {column.unit}" for column in columns)
    over = f"Mean and standard deviation over {seeds} seeds. " if seeds > 1 else ""
    return f"{over}Units: {units}."


def means_of(columns: Sequence[Column], groups: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Return the mean of each measure for the runs of each name, as measured: fractions, not percent."""
    return {
        name: {
            column.field: Spread.of([value / column.scale for value in values]).to_json()
            for column in columns
            if (values := column.values(runs))
        }
        for name, runs in groups.items()
    }


def named_measures(columns: Sequence[Column]) -> str:
    """Return the title of a figure: the measures that its panels show."""
    return ", ".join(dict.fromkeys(column.title for column in columns))


class Written(NamedTuple):
    """What the files of a study contain besides its runs."""

    note: str
    grid: Grid
    means: Mapping[str, Any]
    figure: Figure


def write_measures(study: Study, results: Sequence[Result], content: Written, folder: Path) -> list[Path]:
    """Write results.md, results.json, results.csv and one figure into the study's folder."""
    conclusion = study.conclusion(results)
    lines = "".join(f"- {line}\n" for line in conclusion.splitlines())
    write_text(folder / "results.md", f"{study.about} {content.note}\n\n{content.grid.markdown()}\n{lines}")
    runs = [result.to_json() for result in results]
    kept = {"about": study.about, "conclusion": conclusion, "means": content.means, "runs": runs}
    write_json(folder / "results.json", kept)
    for kind in _KINDS:
        with whole_file(folder / f"results.{kind}") as temporary:
            temporary.write_bytes(drawn(content.figure, kind))
    figures = [folder / f"results.{kind}" for kind in _KINDS]
    return [folder / "results.md", folder / "results.json", write_csv(results, folder), *figures]


@dataclass(frozen=True)
class MeasuresComparison:
    """The runs of each name, from all seeds, and their measures; a run may lack some of them."""

    study: Study
    results: Sequence[Result]
    columns: Sequence[Column]
    rows: Mapping[str, list[Result]]

    @classmethod
    def of(cls, study: Study, results: Sequence[Result]) -> "MeasuresComparison":
        return cls(study, results, columns_of(study, results), by_run(results))

    @property
    def seeds(self) -> int:
        return max(len(runs) for runs in self.rows.values())

    @property
    def note(self) -> str:
        return note_of(self.columns, self.seeds)

    def grid(self) -> Grid:
        """Return the table. A cell is empty if the runs do not have the measure."""
        head = ["model", *cost_titles(self.study), *(column.title for column in self.columns)]
        cells = [
            [name, *cost_cells(self.study, runs), *(column.cell(runs) for column in self.columns)]
            for name, runs in self.rows.items()
        ]
        return Grid(head, cells)

    def figure(self) -> Figure:
        """Draw a panel per measure; its row of a name is empty if the runs of that name do not have it."""
        with figure_style():
            size = 2.9 * len(self.columns) + 1.6, 0.42 * len(self.rows) + 1.3
            figure = Figure(figsize=(max(size[0], 6.0), size[1]), layout="constrained")
            figure.suptitle(named_measures(self.columns), size=13, weight="bold")
            panels = figure.subplots(1, len(self.columns), sharey=True, squeeze=False)[0]
            for axes, column in zip(panels, self.columns, strict=True):
                draw_rows(axes, {name: column.values(runs) for name, runs in self.rows.items()})
                axes.set_xlabel(column.label)
            dots = f"{counted(self.seeds, 'seed')} each; dots: seeds; lines and numbers: means"
            figure.supxlabel(dots if self.seeds > 1 else "one seed each", size=9, color=TEXT)
            return figure

    def write(self, folder: Path) -> list[Path]:
        """Write results.md, results.json, results.csv and one figure into the study's folder."""
        content = Written(self.note, self.grid(), means_of(self.columns, self.rows), self.figure())
        return write_measures(self.study, self.results, content, folder)
