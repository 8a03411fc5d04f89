"""The runs of a study side by side: a table, a CSV and a picture."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from patchword.core.files import whole_file, write_text
from patchword.recipes.study import Result
from patchword.reports import figures
from patchword.reports.words import duration

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS = ("run", "model", "parameters", "MACs", "test accuracy", "test loss", "epochs", "training time")


def cells(result: Result) -> list[str]:
    return [
        result.run,
        result.model,
        f"{result.parameters:,}",
        f"{result.macs:,}",
        f"{100 * result.accuracy:.2f}%",
        f"{result.loss:.4f}",
        str(result.epochs),
        duration(result.seconds),
    ]


def print_results(results: Sequence[Result], out: "Console") -> None:
    from rich.table import Table

    table = Table()
    for number, title in enumerate(COLUMNS):
        table.add_column(title, justify="left" if number < 2 else "right", no_wrap=True)
    for result in results:
        table.add_row(*cells(result))
    out.print()
    out.print(table)


def write_results(about: str, results: Sequence[Result], folder: Path) -> list[Path]:
    """results.md, results.csv, results.svg and results.png in the study's folder"""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    lines += [f"| {' | '.join(cells(result))} |" for result in results]
    write_text(folder / "results.md", f"{about}\n\n" + "\n".join(lines) + "\n")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(results[0].to_json()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.to_json() for result in results)
    write_text(folder / "results.csv", text.getvalue())
    written = [folder / "results.md", folder / "results.csv"]
    labels, values = [result.run for result in results], [100 * result.accuracy for result in results]
    for kind in ("svg", "png"):
        with whole_file(folder / f"results.{kind}") as temporary:
            temporary.write_bytes(figures.dots(labels, values, "test accuracy (%)", kind))
        written.append(folder / f"results.{kind}")
    return written
