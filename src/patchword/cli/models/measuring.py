"""Measures the models of `compare` one after the other, and shows the remaining time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from patchword.timing.plan import Job, Rates


class AnyRow(Protocol):
    """One row of a comparison: a model with its results."""

    @property
    def model(self) -> str: ...

    def measured(self, setting: Any, found: Any) -> Self: ...

    def failed(self, setting: Any, why: str) -> Self: ...


Line = TypeVar("Line", bound=AnyRow)


def measured(rows: Sequence[Line], jobs: Sequence["Job"], rates: "Rates", out: "Console") -> tuple[list[Line], bool]:
    """Return the rows with their speeds or failures, and whether Ctrl-C interrupted the measurement."""
    done = list(rows)
    if not jobs:
        return done, False
    count = len({job.row for job in jobs})
    models, whole = "1 model" if count == 1 else f"{count} models", _left(jobs, rates)
    out.print(f"measuring {models} takes {_minutes(whole)}", highlight=False)
    with _bar(out) as bar:
        task = bar.add_task("", total=len(jobs), left="")
        try:
            for index, job in enumerate(jobs):
                left = f"{_minutes(_left(jobs[index:], rates))} left"
                bar.update(task, description=done[job.row].model, completed=index, left=left)
                if index == 1 and not out.is_interactive:
                    out.print(left, highlight=False)
                done[job.row] = _one(done[job.row], job, rates, out)
        except KeyboardInterrupt:
            return done, True
    return done, False


def _one(row: Line, job: "Job", rates: "Rates", out: "Console") -> Line:
    from patchword.timing import images as timing

    try:
        found = timing.time_model(row.model, job.setting, lambda text: out.print(text, style="yellow"))
    except timing.NotMeasuredError as error:
        out.print(f"{row.model:<32}failed: {error}", highlight=False, markup=False, style="red")
        return row.failed(job.setting, str(error))
    rates.saw(job, found)
    out.print(f"{row.model:<32}{job.setting.describe(found)}", highlight=False)
    return row.measured(job.setting, found)


def _left(jobs: Sequence["Job"], rates: "Rates") -> float:
    return sum(job.expected(rates) for job in jobs)


def _bar(out: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    count, left = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), left)
    return Progress(*columns, console=out, transient=True, disable=not out.is_interactive)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
