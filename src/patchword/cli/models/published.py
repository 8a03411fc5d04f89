"""compare --published: prints the tables of the papers, whole."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from patchword.cli.common import console

if TYPE_CHECKING:
    from rich.console import Console

    from patchword.analysis.published.tables.table import Difference, PublishedTable

_WIDE = 150


def print_tables(words: Sequence[str], as_json: bool, other: bool) -> None:
    """Print the tables that match every word, and why figures of the same model differ. other: another kind is asked"""
    from patchword.analysis.published.tables.table import chosen_tables, differences
    from patchword.core.errors import UserError

    if other:
        raise UserError(
            "--published prints the tables of the papers", expected="no --text, --dense, --speed or --out beside it"
        )
    tables = chosen_tables(words)
    names = {table.name for table in tables}
    explained = [one for one in differences() if names & one.figures.keys()]
    if as_json:
        different = [{"model": one.model, "figures": dict(one.figures), "why": one.why} for one in explained]
        typer.echo(json.dumps({"tables": [table.to_json() for table in tables], "differences": different}, indent=2))
        return
    screen = console(_WIDE)
    for table in tables:
        _print_table(screen, table)
    _print_differences(screen, explained)


def _print_table(screen: "Console", table: "PublishedTable") -> None:
    from rich.markup import escape
    from rich.table import Table

    drawn, lines = Table(title=f"{table.name}: {escape(table.title)}", title_justify="left"), table.lines()
    for index, title in enumerate(table.titles):
        is_text = index == 0 or title == "here"
        drawn.add_column(escape(title.replace(" (", "\n(")), justify="left" if is_text else "right", no_wrap=is_text)
    for line in lines:
        drawn.add_row(*map(escape, line))
    screen.print(drawn)
    for text in (table.note, f"source: {table.source}"):
        if text:
            screen.print(text, highlight=False, markup=False)
    screen.print()


def _print_differences(screen: "Console", explained: "Sequence[Difference]") -> None:
    if explained:
        screen.print("figures of the same model that differ:")
    for one in explained:
        figures = ", ".join(f"{where} {figure:g}" for where, figure in one.figures.items())
        screen.print(f"  {one.model}: {figures}; {one.why}", highlight=False, markup=False)
