"""What compare does while it measures: one model after the other, with the time that is left."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from patchword.timing.plan import Job, Rates


class AnyRow(Protocol):
    """A model that is compared."""

    @property
    def model(self) -> str: ...

    def measured(self, setting: Any, found: Any) -> Self: ...

    def failed(self, setting: Any, why: str) -> Self: ...


Line = TypeVar("Line", bound=AnyRow)


def measured(rows: Sequence[Line], jobs: Sequence["Job"], rates: "Rates", told: "Console") -> tuple[list[Line], bool]:
    """The rows with their speeds or their failures, and whether Ctrl-C ended it."""
    done = list(rows)
    if not jobs:
        return done, False
    count = len({job.row for job in jobs})
    models, whole = "1 model" if count == 1 else f"{count} models", _left(jobs, rates)
    told.print(f"measuring {models} takes {_minutes(whole)}", highlight=False)
    with _bar(told) as bar:
        task = bar.add_task("", total=len(jobs), left="")
        try:
            for index, job in enumerate(jobs):
                left = f"{_minutes(_left(jobs[index:], rates))} left"
                bar.update(task, description=done[job.row].model, completed=index, left=left)
                if index == 1 and not told.is_terminal:
                    told.print(left, highlight=False)
                done[job.row] = _one(done[job.row], job, rates, told)
        except KeyboardInterrupt:
            return done, True
    return done, False


def _one(row: Line, job: "Job", rates: "Rates", told: "Console") -> Line:
    from patchword.timing import images as timing

    try:
        found = timing.time_model(row.model, job.setting, lambda text: told.print(text, style="yellow"))
    except timing.NotMeasuredError as error:
        told.print(f"{row.model:<32}failed: {error}", highlight=False, markup=False, style="red")
        return row.failed(job.setting, str(error))
    rates.saw(job, found)
    told.print(f"{row.model:<32}{job.setting.tell(found)}", highlight=False)
    return row.measured(job.setting, found)


def _left(jobs: Sequence["Job"], rates: "Rates") -> float:
    return sum(job.expected(rates) for job in jobs)


def _bar(told: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    count, left = TextColumn("{task.completed}/{task.total}"), TextColumn("{task.fields[left]}")
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn(), left)
    return Progress(*columns, console=told, transient=True, disable=not told.is_terminal)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"
