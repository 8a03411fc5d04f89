"""Prints and writes the results of several runs: a table, a figure and a conclusion."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.cli.common import console

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.reports.comparison.measures import MeasuresComparison
    from patchword.reports.comparison.with_and_without import Comparison
    from patchword.studies import Study
    from patchword.studies.study import Result


def table_of(study: "Study") -> "Table":
    """Return the kind of table that a study needs."""
    if study.against:
        return AgainstTable()
    if study.panels:
        return PanelsTable()
    return MeasuresTable() if study.shown else StudyTable()


class StudyTable:
    """A table with one row per run."""

    name = "study"

    def write(self, study: "Study", rows: "Sequence[Result]", folder: Path, out: "Console") -> list[Path]:
        from patchword.reports.comparison.study import print_results, write_results

        print_results(rows, console(100))
        conclusion = study.conclusion(rows)
        if conclusion:
            out.print(conclusion, highlight=False, markup=False)
        return write_results(study.about, rows, folder, conclusion)


class PanelsTable:
    """A table per task, side by side."""

    name = "study"

    def write(self, study: "Study", rows: "Sequence[Result]", folder: Path, out: "Console") -> list[Path]:
        from patchword.reports.comparison.panels import grouped, panels_grid, write_panels

        panels_grid(grouped(rows, study.panels)).print(console(120))
        conclusion = study.conclusion(rows)
        out.print(conclusion, highlight=False, markup=False)
        return write_panels(study.about, rows, study.panels, folder, conclusion)


class SeedsTable:
    """A table with one row per seed, and their mean, standard deviation and median."""

    name = "series of seeds"

    def write(self, study: "Study", rows: "Sequence[Result]", folder: Path, out: "Console") -> list[Path]:
        from patchword.reports.comparison.seeds import seeds_grid, seeds_in_words, write_seeds

        seeds_grid(rows).print(console(120))
        out.print(seeds_in_words(rows), highlight=False, markup=False)
        return write_seeds(study.about, rows, folder)


class AgainstTable:
    """A table of runs with and without one change, with every measure of the study."""

    name = "study"

    def write(self, study: "Study", rows: "Sequence[Result]", folder: Path, out: "Console") -> list[Path]:
        from patchword.reports.comparison.with_and_without import Comparison

        return _write_comparison(Comparison.of(study, rows), console(110), folder, out)


class MeasuresTable:
    """A table with one row per run, the mean over its seeds, and every measure that the study shows."""

    name = "study"

    def write(self, study: "Study", rows: "Sequence[Result]", folder: Path, out: "Console") -> list[Path]:
        from patchword.reports.comparison.measures import MeasuresComparison

        return _write_comparison(MeasuresComparison.of(study, rows), console(130), folder, out)


def _write_comparison(
    found: "Comparison | MeasuresComparison", wide: "Console", folder: Path, out: "Console"
) -> list[Path]:
    """Print the table, what its numbers are and the conclusion, and write the files."""
    found.grid().print(wide)
    out.print(found.note, style="dim", highlight=False, markup=False)
    out.print(found.study.conclusion(found.results), highlight=False, markup=False)
    return found.write(folder)


Table = StudyTable | PanelsTable | SeedsTable | AgainstTable | MeasuresTable
