"""The runs of a study: a table, a CSV and figures."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.core.files import whole_file, write_json, write_text
from patchword.reports.plots import figures
from patchword.reports.plots.numbers import duration, heading, measured, scale_of
from patchword.studies.spread import Spread
from patchword.studies.study import Result

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Grid:
    """A table of texts. words: how many of the first columns are text. below: rows below a line.

    optional: columns that a printed table leaves out if it is too wide, the last first.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    below: Sequence[Sequence[str]] = ()
    optional: Sequence[str] = ()

    def print(self, out: "Console") -> None:
        from rich.table import Table

        shown, table = self.fitting(out.width), Table()
        for number, title in enumerate(shown.columns):
            table.add_column(title, justify="left" if number < shown.words else "right", no_wrap=True)
        for number, row in enumerate(shown.rows, 1):
            table.add_row(*row, end_section=number == len(shown.rows))
        for row in shown.below:
            table.add_row(*row)
        out.print()
        out.print(table)

    def fitting(self, width: int) -> "Grid":
        """Return the table without the optional columns that do not fit into this many characters."""
        if not self.optional:
            return self
        lines = [self.columns, *self.rows, *self.below]
        taken = [max(map(len, column)) + 3 for column in zip(*lines, strict=True)]  # a border, and a space on each side
        kept = list(range(len(self.columns)))
        for name in reversed(self.optional):
            if 1 + sum(taken[number] for number in kept) > width:
                kept.remove(self.columns.index(name))
        return self.with_columns(kept)

    def with_columns(self, kept: Sequence[int]) -> "Grid":
        """Return the table with these columns only."""
        columns, *rows = ([line[number] for number in kept] for line in (self.columns, *self.rows, *self.below))
        words = sum(number < self.words for number in kept)
        optional = [name for name in self.optional if name in columns]
        return Grid(columns, rows[: len(self.rows)], words, rows[len(self.rows) :], optional)

    def markdown(self) -> str:
        lines = [self.columns, ["---"] * self.words + ["---:"] * (len(self.columns) - self.words)]
        return "".join(f"| {' | '.join(line)} |\n" for line in [*lines, *self.rows, *self.below])


def grid(results: Sequence[Result]) -> Grid:
    """Return a table with all measures; the main metric comes first."""
    measures = list(dict.fromkeys([result.metric for result in results] + [n for r in results for n in r.measures]))
    part = data_part(results)
    columns = ["run", "model", "parameters", "MACs", *(f"{part} {heading(name)}" for name in measures)]
    main = {result.metric for result in results}
    return Grid(
        [*columns, f"{part} loss", "epochs", "training time"],
        [_cells(result, measures) for result in results],
        words=2,
        optional=[f"{part} {heading(name)}" for name in measures if name not in main],
    )


def data_part(results: Sequence[Result]) -> str:
    """Return the split of the data, if it is the same for all."""
    parts = {result.part for result in results}
    return parts.pop() if len(parts) == 1 else "final"


def _cells(result: Result, measures: Sequence[str]) -> list[str]:
    return [
        result.run,
        result.model,
        f"{result.parameters:,}",
        f"{result.macs:,}",
        *(measured(name, result.measures[name]) if name in result.measures else "" for name in measures),
        f"{result.loss:.4f}",
        str(result.epochs),
        duration(result.seconds),
    ]


def print_results(results: Sequence[Result], out: "Console") -> None:
    """Print the columns in which the runs differ, as far as they fit; the others are in results.md."""
    whole = grid(results)
    constant = [name for name in _SIZES if len({row[whole.columns.index(name)] for row in whole.rows}) == 1]
    kept = [number for number, name in enumerate(whole.columns) if name not in constant]
    part, shown = data_part(results), whole.with_columns(kept)
    columns, optional = ([name.removeprefix(f"{part} ") for name in names] for names in (shown.columns, shown.optional))
    replace(shown, columns=columns, optional=optional).print(out)
    out.print(f"[dim]measured on the {part} split; the whole table is in results.md[/dim]", highlight=False)
    for line in summaries(results):
        out.print(line, highlight=False, markup=False)


_SIZES = ("model", "parameters", "MACs", "epochs")


def summaries(results: Sequence[Result]) -> list[str]:
    """Return mean and standard deviation of the main metric, for runs that differ only in their seed."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(group_of(result), []).append(result)
    if all(len(group) == 1 for group in groups.values()):
        return []
    lines = []
    for name, group in groups.items():
        metric, spread = group[0].metric, Spread.of([result.score for result in group])
        deviation = "" if spread.deviation is None else f", standard deviation {measured(metric, spread.deviation)}"
        lines.append(f"{name}: {heading(metric)} {measured(metric, spread.mean)}{deviation} ({len(group)} seeds)")
    return lines


def group_of(result: Result) -> str:
    """Return the name of a run without its seed."""
    return result.run.partition("-seed-")[0]


def write_results(about: str, results: Sequence[Result], folder: Path, conclusion: str = "") -> list[Path]:
    """Write results.md, results.json, results.csv, results.svg, results.png and curves into the study's folder."""
    below = "".join(f"\n{line}\n" for line in [*summaries(results), *([conclusion] if conclusion else [])])
    write_text(folder / "results.md", f"{about}\n\n{grid(results).markdown()}{below}")
    record = {"about": about, "conclusion": conclusion, "summaries": summaries(results)}
    write_json(folder / "results.json", {**record, "runs": [result.to_json() for result in results]})
    return [
        folder / "results.md",
        folder / "results.json",
        write_csv(results, folder),
        *write_dots(results, folder),
        *write_curves(results, folder),
    ]


def write_curves(results: Sequence[Result], folder: Path) -> list[Path]:
    """Draw the main metric after each epoch; runs that differ only in their seed share a colour."""
    if len({result.metric for result in results}) > 1 or max(len(result.history) for result in results) < 2:
        return []
    groups: dict[str, list[list[float]]] = {}
    metric = results[0].metric
    scale, suffix = scale_of(metric)
    for result in results:
        groups.setdefault(group_of(result), []).append([scale * value for value in result.history])
    unit = f"validation {heading(metric)}{suffix}"
    for kind in ("svg", "png"):
        with whole_file(folder / f"curves.{kind}") as temporary:
            temporary.write_bytes(figures.learning(groups, unit, kind))
    return [folder / f"curves.{kind}" for kind in ("svg", "png")]


def write_csv(results: Sequence[Result], folder: Path) -> Path:
    """Write results.csv."""
    text = io.StringIO()
    records = [result.to_json() for result in results]
    writer = csv.DictWriter(text, list(dict.fromkeys(key for record in records for key in record)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    write_text(folder / "results.csv", text.getvalue())
    return folder / "results.csv"


def write_dots(results: Sequence[Result], folder: Path, lines: dict[str, float] | None = None) -> list[Path]:
    """Draw the main metric, one dot per run. lines: values to compare with, by name."""
    metric = results[0].metric
    scale, suffix = scale_of(metric)
    unit = f"{data_part(results)} {heading(metric)}{suffix}"
    labels, values = [result.run for result in results], [scale * result.score for result in results]
    scaled = {name: scale * value for name, value in (lines or {}).items()}
    for kind in ("svg", "png"):
        with whole_file(folder / f"results.{kind}") as temporary:
            temporary.write_bytes(figures.dots(labels, values, unit, kind, scaled))
    return [folder / f"results.{kind}" for kind in ("svg", "png")]
