"""runs: lists the runs of a folder; shows, compares, cleans, renames and deletes them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from patchword.cli.common import Json, Runs, console
from patchword.cli.help import help_of
from patchword.cli.run_folders.changes import clean, delete, rename
from patchword.cli.run_folders.compare import compare
from patchword.cli.run_folders.names import run_folder

if TYPE_CHECKING:
    from patchword.recipes.run_folders.listing import RunSummary

app = typer.Typer(
    help="List the runs of a folder: state, results, time and size. Look at one with `show`, several with `compare`; "
    "`clean`, `rename` and `delete` change them.",
    invoke_without_command=True,
)
Sort = Annotated[
    Literal["name", "date", "state", "validation", "test", "time", "size"],
    typer.Option("--sort", help="The column to sort by: names from A on; dates and numbers from the highest on."),
]
Reverse = Annotated[bool, typer.Option("--reverse", help="Sort the other way round.")]

_KEYS: dict[str, Callable[["RunSummary"], Any]] = {
    "name": lambda run: run.name,
    "state": lambda run: run.state,
    "date": lambda run: run.date or None,
    "validation": lambda run: run.validation,
    "test": lambda run: run.score,
    "time": lambda run: run.seconds,
    "size": lambda run: run.bytes,
}


@app.callback()
def listing(
    context: typer.Context,
    sort: Sort = "name",
    reverse: Reverse = False,
    as_json: Json = False,
    runs: Runs = Path("runs"),
) -> None:
    if context.invoked_subcommand is None:
        _list(runs, sort, reverse, as_json)


@app.command("list")
def list_runs(sort: Sort = "name", reverse: Reverse = False, as_json: Json = False, runs: Runs = Path("runs")) -> None:
    """List the runs of a folder, and those of its studies.

    The two scores are the main metric of each run: its best value on the validation data, and its value on the test
    set. A run that cannot be read is listed as broken, with the reason.

    Examples:

      patchword runs
      patchword runs --sort test
      patchword runs list --runs other/folder --json
    """
    _list(runs, sort, reverse, as_json)


def _list(folder: Path, sort: str, reverse: bool, as_json: bool) -> None:
    from patchword.recipes.run_folders.listing import list_run_folders

    found = sorted_runs(list_run_folders(folder), sort, reverse)
    if as_json:
        typer.echo(json.dumps([run.to_json() for run in found], indent=2))
        return
    out = console()
    if not found:
        out.print(f"{folder} has no runs; `patchword train RECIPE` makes one", highlight=False, markup=False)
        return
    _print(found)


def sorted_runs(found: list["RunSummary"], sort: str, reverse: bool) -> list["RunSummary"]:
    """Return the runs in the order of a column; those without a value in it come last."""
    key = _KEYS[sort]
    known = sorted((run for run in found if key(run) is not None), key=key)
    if reverse is (sort in ("name", "state")):
        known.reverse()
    return known + [run for run in found if key(run) is None]


def _print(found: list["RunSummary"]) -> None:
    """Print the table; a narrow terminal gets neither kind nor metric."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from patchword.core.disk_space import format_bytes
    from patchword.reports.plots.numbers import counted

    out = console()
    columns = (
        _COLUMNS if out.width >= _WIDE else {name: text for name, text in _COLUMNS.items() if name not in _LEFT_OUT}
    )
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in columns:
        text = name in ("run", "kind", "model", "state", "metric")
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for run in found:
        table.add_row(*(Text(cell(run)) for cell in columns.values()))
    out.print(table)
    for run in found:
        if run.problem:
            out.print(f"{run.name} is broken: {run.problem}", highlight=False, markup=False)
    total = format_bytes(sum(run.bytes for run in found))
    out.print(f"{counted(len(found), 'run')}, {total}", highlight=False)


def _duration(run: "RunSummary") -> str:
    from patchword.reports.plots.numbers import duration

    return duration(run.seconds) if run.seconds is not None else ""


def _size(run: "RunSummary") -> str:
    from patchword.core.disk_space import format_bytes

    return format_bytes(run.bytes)


def _scores(run: "RunSummary") -> tuple[str, str]:
    """Return the best validation score, and that of the evaluation: on the test set, or on what took its place."""
    from patchword.reports.plots.numbers import measured

    validation = measured(run.metric, run.validation) if run.validation is not None else ""
    score = measured(run.metric, run.score) if run.score is not None else ""
    return validation, score


@app.command("show")
def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The name of a run inside `runs`, or its folder.")],
    as_json: Json = False,
    runs: Runs = Path("runs"),
) -> None:
    """Show one run: its state, results, time and size, its settings and report, and the commands that go on with it.

    Example:

      patchword runs show demo
    """
    from patchword.recipes.run_folders.listing import summary_of

    folder = run_folder(run, runs)
    found = summary_of(folder, run)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=2))
        return
    for title, text in _facts(found):
        console().print(f"{title:<16}{text}", highlight=False, markup=False)


_WIDE = 100  # columns of a terminal that fit the whole table
_LEFT_OUT = ("kind", "metric")
_COLUMNS: dict[str, Callable[["RunSummary"], str]] = {
    "run": lambda run: run.name,
    "kind": lambda run: run.kind,
    "model": lambda run: Path(run.model).name,
    "state": lambda run: run.position() if run.state != "broken" else "broken",
    "metric": lambda run: run.metric,
    "valid.": lambda run: _scores(run)[0],
    "test": lambda run: _scores(run)[1],
    "time": _duration,
    "date": lambda run: run.date[:10],
    "size": _size,
}


def _facts(run: "RunSummary") -> list[tuple[str, str]]:
    import shlex

    from patchword.core.disk_space import format_bytes
    from patchword.core.files import folder_bytes
    from patchword.recipes.run_folder import resume_command

    validation, score = _scores(run)
    checkpoints = folder_bytes(run.folder / "checkpoints")
    place, finished = shlex.quote(str(run.folder)), run.state == "finished"
    facts = [
        ("folder", str(run.folder)),
        ("kind", run.kind),
        ("model", run.model),
        ("state", run.position()),
        ("epochs", f"{run.epoch} of {run.epochs}" if run.epochs else ""),
        (f"{run.metric}", f"validation {validation}" + (f", {run.part} {score}" if score else "")),
        ("training time", _duration(run)),
        ("date", run.date),
        ("size", f"{format_bytes(run.bytes)}, of which checkpoints {format_bytes(checkpoints)}"),
        ("report", str(run.folder / "report.html") if (run.folder / "report.html").is_file() else ""),
        ("resume", resume_command(run.folder) if run.state == "stopped" else ""),
        ("settings", str(run.folder / "recipe.yaml")),
        ("evaluate again", f"patchword evaluate {place}" if finished else ""),
        ("free the space", f"patchword runs clean {place}" if finished and checkpoints else ""),
    ]
    return [(title, text) for title, text in facts if title and text and text != "validation "]


app.command("compare", help=help_of(compare))(compare)
app.command("clean", help=help_of(clean))(clean)
app.command("rename", help=help_of(rename))(rename)
app.command("delete", help=help_of(delete))(delete)
