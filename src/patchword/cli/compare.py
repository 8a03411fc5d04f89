"""compare: the lectures' tables, side by side with reality."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from patchword.cli.common import Json, console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from patchword.analysis.comparison import Row
    from patchword.recipes.timing import Setting
    from patchword.reports.comparison import Comparison

_BATCH, _BATCH_ACCELERATOR = 8, 128
_START = 6.0  # seconds to start a process and make a model, roughly


def compare(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL", help="Names or patterns such as 'swin-*'.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, help="Images a call; by default 8 on a CPU, 128 on a GPU.")
    ] = None,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        typer.Option("--precision", help="auto: bfloat16 on a GPU made for it, else float32."),
    ] = "auto",
    device: Annotated[str, typer.Option("--device", help="Where to measure; auto: a GPU if there is one.")] = "auto",
    seconds: Annotated[float, typer.Option("--seconds", min=0, help="How long to measure each model.")] = 3.0,
    no_speed: Annotated[bool, typer.Option("--no-speed", help="Measure nothing: only what is published.")] = False,
    compiled: Annotated[bool, typer.Option("--compile", help="Measure what torch.compile makes of a model.")] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where table, CSV and pictures go; they are replaced.")
    ] = Path("comparison"),
    as_json: Json = False,
) -> None:
    """Compare models: parameters, MACs and accuracy as published, the counts and the speed of this machine.

    Without models: those that the lectures compare. Ctrl-C keeps what was measured.

    Examples:  patchword compare  |  patchword compare 'swin-*' cswin-tiny --batch 4  |  patchword compare --no-speed
    """
    from patchword.analysis.comparison import chosen, row_of
    from patchword.core.files import make_folder
    from patchword.recipes.device import machine, pick_device, pick_precision
    from patchword.recipes.timing import Setting
    from patchword.reports.comparison import Comparison, write_comparison

    rows = [row_of(name) for name in chosen(models or ())]
    place = pick_device(device)
    make_folder(out)
    setting, told, stopped = None, _messages(as_json), False
    if not no_speed:
        size = batch or (_BATCH if place.type == "cpu" else _BATCH_ACCELERATOR)
        setting = Setting(str(place), pick_precision(precision, place), size, seconds, compiled)
        rows, stopped = _measured(rows, setting, told)
    comparison = Comparison(rows, setting, machine(place))
    if stopped and not any(row.speed for row in rows):
        told.print("stopped before anything was measured; nothing was written")
        raise typer.Exit(130)
    written = write_comparison(comparison, out)
    if as_json:
        typer.echo(json.dumps(comparison.to_json(), indent=2))
    else:
        print_comparison(console(150), comparison)
    told.print(f"\nwritten: {', '.join(str(path) for path in written)}", highlight=False, markup=False)
    if stopped:
        told.print("stopped; the models that were not reached have no speed", highlight=False)
        raise typer.Exit(130)
    raise typer.Exit(1 if any(row.failure for row in rows) else 0)


def _messages(as_json: bool) -> "Console":
    """Where progress is told: not among the JSON."""
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True) if as_json else console()


def _measured(rows: Sequence["Row"], setting: "Setting", told: "Console") -> tuple[list["Row"], bool]:
    """The rows with their speed or their failure, and whether Ctrl-C ended it."""
    done = list(rows)
    models = "1 model" if len(rows) == 1 else f"{len(rows)} models"
    told.print(f"measuring {models} takes {_minutes(_expected([], rows, setting))} or more", highlight=False)
    with _bar(told) as bar:
        task = bar.add_task("", total=len(rows), left="")
        try:
            for index, row in enumerate(rows):
                left = f"{_minutes(_expected(done[:index], rows[index:], setting))} left"
                bar.update(task, description=row.model, completed=index, left=left)
                if index == 1 and not told.is_terminal:
                    told.print(left, highlight=False)
                done[index] = _measure(row, setting, told)
        except KeyboardInterrupt:
            return done, True
    return done, False


def _bar(told: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    count, left = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), left)
    return Progress(*columns, console=told, transient=True, disable=not told.is_terminal)


def _measure(row: "Row", setting: "Setting", told: "Console") -> "Row":
    from dataclasses import replace

    from patchword.recipes.timing import NotMeasuredError, time_model

    try:
        speed = time_model(row.model, setting, lambda text: told.print(text, style="yellow", highlight=False))
    except NotMeasuredError as error:
        told.print(f"{row.model:<20} failed: {error}", highlight=False, markup=False, style="red")
        return replace(row, failure=str(error))
    told.print(f"{row.model:<20}{speed.images_per_second:>10,.1f} images/s", highlight=False)
    return replace(row, speed=speed)


def _expected(done: Sequence["Row"], left: Sequence["Row"], setting: "Setting") -> float:
    """Seconds for the rows that are left: a call takes as long as its MACs at the best rate so far."""
    rate = max((row.macs * row.speed.images_per_second for row in done if row.speed), default=float("inf"))
    calls = 4  # one to warm up and three to measure, at the least
    return sum(_START + max(1.2 * setting.seconds, calls * setting.batch * row.macs / rate) for row in left)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def print_comparison(out: "Console", comparison: "Comparison") -> None:
    """The table, its notes and its sources."""
    from rich.table import Table

    from patchword.reports.comparison import COLUMNS, LEFT

    cells = [comparison.cells(row) for row in comparison.rows]
    table = Table()
    used = [index for index in range(len(COLUMNS)) if any(line[index] for line in cells)]
    for index in used:
        justify: Literal["left", "right"] = "left" if COLUMNS[index] in LEFT else "right"
        table.add_column(COLUMNS[index].replace(", ", "\n"), justify=justify, no_wrap=True)
    for line in cells:
        table.add_row(*(line[index] for index in used))
    out.print(table)
    for note in comparison.notes():
        out.print(note, highlight=False, markup=False)
    if comparison.sources():
        out.print("sources:")
    for number, source in enumerate(comparison.sources(), 1):
        out.print(f"  {number:>2}  {source}", highlight=False, markup=False)
