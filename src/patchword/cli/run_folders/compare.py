"""runs compare: several runs in one table and on one HTML page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from patchword.cli.common import Json, Runs, console
from patchword.cli.run_folders.names import run_folder

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.reports.comparison.study import Grid


def compare(
    names: Annotated[
        list[str], typer.Argument(metavar="RUN RUN...", help="Two or more runs: names inside `runs`, or folders.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="Also write a page with the learning curves.")
    ] = None,
    as_json: Json = False,
    runs: Runs = Path("runs"),
) -> None:
    """Compare runs: the settings that differ, the results, parameters, time and size, one column per run.

    Runs of different kinds can be compared, too; the output says which numbers do not measure the same thing. --out
    writes one HTML page, which needs no network, with the table and the learning curves over each other.

    Examples:

      patchword runs compare first second
      patchword runs compare first second third --out comparison.html
    """
    from patchword.core.errors import UserError
    from patchword.core.files import write_text
    from patchword.recipes.run_folders.listing import summary_of
    from patchword.reports.run_comparison.page import comparison_page
    from patchword.reports.run_comparison.table import compared_run, comparison_grid, not_comparable

    names = list(dict.fromkeys(names))
    if len(names) < 2:
        raise UserError("there is nothing to compare", expected="two or more runs", got=", ".join(names))
    if out is not None and out.suffix != ".html":
        raise UserError("--out", expected="a file that ends in .html", got=out)
    found = [compared_run(name.rstrip("/"), summary_of(run_folder(name, runs), name)) for name in names]
    grid, notes = comparison_grid(found), not_comparable(found)
    screen = console()
    if as_json:
        rows = [dict(zip(grid.columns[1:], row[1:], strict=True)) for row in grid.rows]
        table = {row[0]: values for row, values in zip(grid.rows, rows, strict=True)}
        typer.echo(json.dumps({"rows": table, "not_comparable": notes}, indent=2, ensure_ascii=False))
    else:
        _print(grid, screen)
        for note in notes:
            screen.print(note, highlight=False, markup=False)
    if out is not None:
        write_text(out, comparison_page(found))
        screen.print(str(out), highlight=False, markup=False) if not as_json else None
    elif not as_json:
        screen.print("[dim]--out FILE.html writes a page with the learning curves[/dim]", highlight=False)


def _print(grid: "Grid", screen: "Console") -> None:
    """Print the table; long values take several lines, so that all columns fit the terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for title in grid.columns:
        table.add_column(Text(title), overflow="fold")
    for row in grid.rows:
        table.add_row(*(Text(cell) for cell in row))
    screen.print(table)
