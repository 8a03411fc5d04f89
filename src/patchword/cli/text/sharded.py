"""Work in shards, for any number of rows: shared by the verbs embed and predict."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from patchword.pipelines.bulk.driver import State, Summary
    from patchword.pipelines.bulk.work import Work

ShardRows = Annotated[
    int | None,
    typer.Option(
        "--shard",
        metavar="ROWS",
        min=1,
        help="Work in shards of so many rows (4096), for any number of rows: a killed command, given again, goes on "
        "from the last finished shard.",
    ),
]
_ONLY_SHARDED = (".parquet", ".arrow", ".feather")
_LINE_SECONDS = 60  # between two lines where no terminal shows a bar


@dataclass(frozen=True)
class ShardOptions:
    """Options of work in shards. rows: of a shard; None for the default"""

    rows: int | None
    on_broken: Literal["skip", "stop"] | None

    def are_needed(self, inputs: Sequence[str], out: Path | None) -> bool:
        """True if shards were asked for, or if a file is given that is only read or written in shards."""
        files = [*map(Path, inputs), *([out] if out else [])]
        is_folder = len(inputs) == 1 and _is_folder(inputs[0])
        return self.rows is not None or is_folder or any(file.suffix.lower() in _ONLY_SHARDED for file in files)

    def refuse_alone(self) -> None:
        """Raise an error for an option that belongs to work in shards."""
        from patchword.core.errors import UserError

        if self.on_broken is not None:
            raise UserError(
                "--on-broken belongs to work in shards", expected="also --shard 4096, or --out FILE.parquet"
            )

    def refuse_without_out(self, inputs: Sequence[str]) -> None:
        """Raise an error for what predict does in shards only."""
        from patchword.core.errors import UserError

        if self.rows is not None:
            raise UserError("--shard belongs to --out", expected="--out FILE")
        table = next((one for one in inputs if one.lower().endswith(_ONLY_SHARDED) and Path(one).is_file()), None)
        if table is not None:
            raise UserError(f"{table} is read in shards", expected="--out FILE")


def run_in_shards(work: "Work", inputs: Sequence[str], out: Path, options: ShardOptions) -> None:
    """Compute all rows of one input into a file, with progress on stderr and a summary on stdout."""
    from patchword.cli.common import console
    from patchword.core.errors import UserError
    from patchword.pipelines.bulk.driver import ROWS, run
    from patchword.training.console import PrintableConsole

    if len(inputs) != 1 or inputs[0] == "-":
        got = "standard input" if "-" in inputs else f"{len(inputs)} inputs"
        raise UserError("shards are made of one file, or of one folder of images", got=got)
    messages = PrintableConsole(stderr=True, soft_wrap=True)

    def note(text: str) -> None:
        messages.print(text, highlight=False, markup=False)

    try:
        with _progress() as report:
            summary = run(
                work,
                Path(inputs[0]),
                out,
                size=options.rows or ROWS,
                on_broken=options.on_broken or "skip",
                report=report,
                note=note,
            )
    except KeyboardInterrupt:
        note(f"stopped; finished shards are in {out}.parts, and the same command goes on from there")
        raise typer.Exit(130) from None
    for text in _notes(summary):
        note(text)
    console().print(_last_line(summary, out), highlight=False, markup=False)


def _notes(summary: "Summary") -> Iterator[str]:
    if summary.truncated:
        what = "1 text is" if summary.truncated == 1 else f"{summary.truncated:,} texts are"
        yield f"{what} longer than the model reads and truncated"
    yield from summary.notes
    if summary.broken:
        yield f"note: no answer: {summary.first_error}"
        yield f"{summary.broken:,} of {summary.rows:,} rows cannot be read; they have an error instead (NaN in .npy)"


def _last_line(summary: "Summary", out: Path) -> str:
    from patchword.reports.plots.numbers import counted

    done = f"{counted(summary.rows, 'row')} in {out}"
    if summary.kept == summary.rows:
        return done
    earlier = f"; {summary.kept:,} were finished before" if summary.kept else ""
    return f"{done}: {_rate(summary.rate)} over {_clock(summary.seconds)}{earlier}"


@contextmanager
def _progress() -> "Iterator[Callable[[State], None]]":
    """Show rows, rate and the time left on stderr: a bar on a terminal, else a line per minute."""
    from rich.progress import BarColumn, Progress, TextColumn

    from patchword.training.console import PrintableConsole

    console = PrintableConsole(stderr=True)
    last = time.monotonic()
    bar = Progress(BarColumn(), TextColumn("{task.description}"), console=console, transient=True)
    bar.disable = not console.is_interactive
    task = bar.add_task("", total=1.0)
    began: list[tuple[float, float]] = []  # fraction and seconds at the first report

    def report(state: "State") -> None:
        nonlocal last
        if not began:
            began.append((state.fraction, state.seconds))
        line = _line(state, *began[0])
        bar.update(task, completed=state.fraction, description=line)
        if bar.disable and time.monotonic() - last >= _LINE_SECONDS:
            print(line, file=sys.stderr, flush=True)
            last = time.monotonic()

    with bar:
        yield report


def _line(state: "State", fraction: float, seconds: float) -> str:
    """Return how far a call is. fraction, seconds: at its first shard, from which the time left is estimated"""
    rate = _rate((state.rows - state.kept) / max(state.seconds, 1e-9))
    done = state.fraction - fraction
    left = (state.seconds - seconds) * (1 - state.fraction) / done if done > 0 else None
    remaining = f", {_clock(left)} left" if left is not None else ""
    return f"{state.rows:,} rows, {state.fraction:.0%}, {rate}{remaining}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.2g} rows/s"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # longer than a file name can be
        return False
