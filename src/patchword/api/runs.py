"""list_runs and compare_runs: the runs of a folder, and several runs side by side, as tables that a notebook shows."""

from dataclasses import dataclass, field
from pathlib import Path

from patchword.api.run import find_folder
from patchword.api.tables import html_table, text_table
from patchword.core.disk_space import format_bytes
from patchword.core.errors import UserError
from patchword.core.files import write_text
from patchword.recipes.run import Run as RecipesRun
from patchword.recipes.run_folders.listing import RunSummary, list_run_folders, summary_of
from patchword.reports.plots.numbers import measured
from patchword.reports.run_comparison.page import comparison_page
from patchword.reports.run_comparison.table import compared_run, comparison_grid, not_comparable

_COLUMNS = ("run", "kind", "model", "state", "metric", "validation", "test", "date", "size")


class RunList(list[RunSummary]):
    """The runs of a folder.

    >>> best = max(patchword.list_runs(), key=lambda run: run.validation or 0)
    >>> patchword.Run(best.folder).report
    """

    def __repr__(self) -> str:
        return text_table([_COLUMNS, *map(_cells, self)]) if self else "no runs"

    def _repr_html_(self) -> str:
        return html_table(_COLUMNS, [_cells(run) for run in self])


@dataclass(frozen=True)
class RunComparison:
    """Several runs side by side: one column per run. not_comparable: what does not measure the same thing in all."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    not_comparable: tuple[str, ...]
    html: str = field(repr=False)

    def __str__(self) -> str:
        return "\n".join([text_table([self.columns, *self.rows]), *self.not_comparable])

    def write(self, file: str | Path) -> Path:
        """Write the page with the table and the learning curves; it needs no other file and no network."""
        write_text(Path(file), self.html)
        return Path(file)

    def _repr_html_(self) -> str:
        return html_table(self.columns, self.rows)


def list_runs(folder: str | Path = "runs") -> RunList:
    """Return the runs of a folder and of its studies, with state, scores, time and size; broken ones say why.

    >>> for run in patchword.list_runs():
    ...     print(run.name, run.state, run.score)
    """
    return RunList(list_run_folders(Path(folder)))


def compare_runs(*runs: RecipesRun | str | Path) -> RunComparison:
    """Compare two or more runs: the settings that differ, results, parameters, time and size.

    >>> patchword.compare_runs("first", "second").write("comparison.html")
    """
    folders = [run.folder if isinstance(run, RecipesRun) else find_folder(Path(run)) for run in runs]
    if len(folders) < 2:
        raise UserError("there is nothing to compare", expected="two or more runs", got=len(folders))
    found = [compared_run(folder.name, summary_of(folder, folder.name)) for folder in folders]
    grid = comparison_grid(found)
    return RunComparison(
        tuple(grid.columns), tuple(map(tuple, grid.rows)), tuple(not_comparable(found)), comparison_page(found)
    )


def _cells(run: RunSummary) -> list[str]:
    scores = [measured(run.metric, value) if value is not None else "" for value in (run.validation, run.score)]
    name = Path(run.model).name
    return [run.name, run.kind, name, run.position(), run.metric, *scores, run.date, format_bytes(run.bytes)]
