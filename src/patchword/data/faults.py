"""Faults of data. The first one is an error; while a report is made, all are gathered and told at its end, as one.

A reader tells what is wrong and goes on with the next row, so that a person mends a file once and not row by row:

    with one_report() as report:
        rows = report.attempt(read_table, path, columns)
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NoReturn, ParamSpec, TypeVar

from patchword.core.errors import UserError

SHOWN = 20  # of each kind, in a message
P = ParamSpec("P")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong, or (a doubt) that looks wrong, and what it is one of."""

    kind: str
    error: UserError

    @property
    def line(self) -> str:
        return self._lines()[0]

    @property
    def hint(self) -> str:
        return " ".join(self._lines()[1:])

    def _lines(self) -> list[str]:
        return str(self.error).splitlines() or [""]


class DataError(UserError):
    """All that is wrong with some data. faults: every one; the message shows the first of each kind."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        kinds = len({fault.kind for fault in faults})
        what = f"{len(faults):,} faults in the data{f', of {kinds} kinds' if kinds > 1 else ''}"
        super().__init__(what, hint="\n".join(told(faults)))


@dataclass
class Report:
    """What was found so far. doubts: what may be meant, and stops nothing."""

    faults: list[Fault] = field(default_factory=list)
    doubts: list[Fault] = field(default_factory=list)

    def add(self, error: UserError, kind: str = "") -> None:
        if isinstance(error, DataError):
            self.faults += error.faults
        else:
            self.faults.append(Fault(kind or _kind(error.what), error))

    def attempt(self, work: Callable[P, Found], *arguments: P.args, **named: P.kwargs) -> Found | None:
        """None where it failed for a mistake of the user's, which is then part of the report."""
        try:
            return work(*arguments, **named)
        except UserError as error:
            self.add(error)
            return None

    def finish(self) -> None:
        """Raises what was found; a single fault as it is."""
        if len(self.faults) == 1:
            raise self.faults[0].error
        if self.faults:
            raise DataError(self.faults)


_making: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def one_report() -> Iterator[Report]:
    """Gathers what is told inside, and raises it at the end; inside another report it is a part of that."""
    if (outer := _making.get()) is not None:
        yield outer
        return
    report = Report()
    token = _making.set(report)
    try:
        yield report
    except UserError as error:
        report.add(error)
    finally:
        _making.reset(token)
    report.finish()


def tell(error: UserError, kind: str = "") -> None:
    """Raises it, or adds it to the report that is being made; then what is wrong is to be left out."""
    report = _making.get()
    if report is None:
        raise error
    report.add(error, kind)


def attempt(work: Callable[P, Found], *arguments: P.args, **named: P.kwargs) -> Found | None:
    """What `work` answers; None where it failed and a report is being made."""
    report = _making.get()
    return work(*arguments, **named) if report is None else report.attempt(work, *arguments, **named)


def give_up() -> NoReturn:
    """Ends work that cannot go on, for reasons that have been told."""
    raise DataError(())


def doubt(kind: str, what: str) -> None:
    """What looks like a mistake and may be none; for a report only."""
    if (report := _making.get()) is not None:
        report.doubts.append(Fault(kind, UserError(what)))


def gathering() -> bool:
    return _making.get() is not None


def told(faults: Iterable[Fault], most: int | None = SHOWN) -> list[str]:
    """Lines to read: each kind with its number, below it the faults in their order, then what to do about the first."""
    groups: dict[str, list[Fault]] = {}
    for fault in faults:
        groups.setdefault(fault.kind, []).append(fault)
    lines = []
    for kind, same in groups.items():
        lines.append(f"{kind} ({len(same):,}):")
        lines += [f"  {fault.line}" for fault in same[:most]]
        lines += [f"  ... and {len(same) - most:,} more"] if most is not None and len(same) > most else []
        hints = [fault.hint for fault in same if fault.hint]
        lines += [f"  -> {hints[0]}"] if hints else []
    return lines


def _kind(what: str) -> str:
    """What an error is about, without its place and without what is quoted in it."""
    place, separator, rest = what.partition(": ")
    return re.sub(r"'[^']*'|\"[^\"]*\"|[\d,.]*\d", "…", rest if separator and rest else place)
